"""What each vendor's successful body is read as."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from tasks.models import Outcome, Reply, Usage, anthropic, google, openai, openai_chat

READERS = {"openai": openai.read, "openai-chat": openai_chat.read, "anthropic": anthropic.read, "google": google.read}
APIS = list(READERS)


def read(api, body):
    return READERS[api](body)


def seen(api, body):
    reply = read(api, json.dumps(body))
    return reply.outcome.value, reply.text, reply.finish_reason


def message(*items, **fields):
    return {"type": "message", "content": list(items), **fields}


TEXT = {"type": "output_text", "text": "Four."}
REFUSAL = {"type": "refusal", "refusal": "No."}
REASONING = {"type": "reasoning", "summary": []}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "completed", "output": [REASONING, message(TEXT)]}, ("ok", "Four.", "completed")),
        ({"status": "completed", "output": [message(TEXT, TEXT)]}, ("ok", "Four.Four.", "completed")),
        (
            {"status": "completed", "output": [message({"text": "Let me see."}, phase="commentary"), message(TEXT)]},
            ("ok", "Four.", "completed"),
        ),
        ({"status": "completed", "output": [message(REFUSAL)]}, ("refused", None, "completed")),
        ({"status": "completed", "output": [REASONING]}, ("empty", None, "completed")),
        ({"status": "completed", "output": []}, ("empty", None, "completed")),
        ({"status": "completed", "output": [message({"type": "output_text", "text": ""})]}, ("empty", "", "completed")),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [message(TEXT)]},
            ("truncated", "Four.", "max_output_tokens"),
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
            ("refused", None, "content_filter"),
        ),
        ({"status": "failed", "error": {"code": "server_error", "message": "oops"}}, ("server", None, None)),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "x"}}, ("rate_limited", None, None)),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "x"}}, ("refused", None, None)),
        ({"status": "failed", "error": {"code": "bio_policy", "message": "x"}}, ("refused", None, None)),
        ({"status": "failed", "error": {"code": "something_new", "message": "x"}}, ("server", None, None)),
        ({"status": "queued", "output": []}, ("server", None, "queued")),
    ],
)  # fmt: skip
def test_a_response_of_openai(body, expected):
    assert seen("openai", body) == expected


def choice(content, reason="stop", **fields):
    return {"choices": [{"finish_reason": reason, "message": {"content": content, **fields}}]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (choice("Four."), ("ok", "Four.", "stop")),
        (choice("Four.", "end_turn"), ("ok", "Four.", "end_turn")),
        (choice([{"type": "thinking", "thinking": []}, {"type": "text", "text": "Four."}]), ("ok", "Four.", "stop")),
        (choice(None), ("refused", None, "stop")),
        (choice(None, refusal="I cannot."), ("refused", None, "stop")),
        (choice("partly", "content_filter"), ("refused", "partly", "content_filter")),
        (choice(None, reasoning_content="Hmm"), ("empty", None, "stop")),
        (choice(""), ("empty", "", "stop")),
        ({"choices": []}, ("empty", None, None)),
        (choice("Fo", "length"), ("truncated", "Fo", "length")),
        (choice(None, "length", reasoning_content="Hmm"), ("truncated", None, "length")),
        (choice("Four.", None), ("connection", "Four.", None)),
        (choice("Four.", "abort"), ("server", "Four.", "abort")),
        ({"error": {"code": 429, "message": "upstream is busy"}}, ("rate_limited", None, None)),
        ({"error": {"code": 502, "message": "upstream failed"}}, ("server", None, None)),
        ({"object": "error", "choices": None, "error": "no such thing"}, ("server", None, None)),
    ],
)
def test_a_chat_completion(body, expected):
    assert seen("openai-chat", body) == expected


def answer(reason, *blocks, **fields):
    return {"content": list(blocks), "stop_reason": reason, **fields}


BLOCK = {"type": "text", "text": "Four."}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer("end_turn", {"type": "thinking", "thinking": "2+2"}, BLOCK), ("ok", "Four.", "end_turn")),
        (answer("stop_sequence", BLOCK), ("ok", "Four.", "stop_sequence")),
        (answer("end_turn"), ("empty", None, "end_turn")),
        (answer("end_turn", {"type": "thinking", "thinking": "2+2"}), ("empty", None, "end_turn")),
        (answer("max_tokens", BLOCK), ("truncated", "Four.", "max_tokens")),
        (answer("max_tokens", {"type": "thinking", "thinking": "2+"}), ("truncated", None, "max_tokens")),
        (answer("model_context_window_exceeded"), ("truncated", None, "model_context_window_exceeded")),
        (answer("pause_turn", BLOCK), ("truncated", "Four.", "pause_turn")),
        (answer("refusal"), ("refused", None, "refusal")),
        (answer("refusal", BLOCK, stop_details={"category": "bio"}), ("refused", "Four.", "refusal")),
        (answer(None, BLOCK), ("connection", "Four.", None)),
        (answer("a_new_reason", BLOCK), ("server", "Four.", "a_new_reason")),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ("server", None, None)),
        ({"type": "error", "error": {"type": "billing_error", "message": "x"}}, ("quota", None, None)),
    ],
)
def test_a_message_of_anthropic(body, expected):
    assert seen("anthropic", body) == expected


def candidate(reason, *parts):
    return {"candidates": [{"finishReason": reason, "content": {"parts": list(parts)}}]}


PART = {"text": "Four."}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (candidate("STOP", {"text": "2+2", "thought": True}, PART), ("ok", "Four.", "STOP")),
        (candidate("STOP"), ("empty", None, "STOP")),
        (candidate("STOP", {"text": "2+2", "thought": True}), ("empty", None, "STOP")),
        (candidate("MAX_TOKENS", PART), ("truncated", "Four.", "MAX_TOKENS")),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, ("truncated", None, "MAX_TOKENS")),
        (candidate("CONTINUATION", PART), ("truncated", "Four.", "CONTINUATION")),
        (candidate("SAFETY"), ("refused", None, "SAFETY")),
        (candidate("RECITATION", PART), ("refused", "Four.", "RECITATION")),
        (candidate("A_NEW_REASON"), ("refused", None, "A_NEW_REASON")),
        (candidate("MALFORMED_RESPONSE"), ("empty", None, "MALFORMED_RESPONSE")),
        (candidate(None, PART), ("connection", "Four.", None)),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, ("refused", None, "PROHIBITED_CONTENT")),
        ({"usageMetadata": {"promptTokenCount": 4}}, ("empty", None, None)),
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}, ("server", None, None)),
    ],
)
def test_an_answer_of_google(body, expected):
    assert seen("google", body) == expected


@pytest.mark.parametrize(
    ("api", "field", "usage", "expected"),
    [
        (
            "openai",
            "usage",
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 40},
            },
            Usage(100, 60, 50, 40, 10),
        ),
        (
            "openai-chat",
            "usage",
            {
                "prompt_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 40},
                "total_tokens": 150,
            },
            Usage(100, 60, 50, 40),
        ),
        (
            "openai-chat",
            "usage",
            {
                "prompt_tokens": 100,
                "prompt_cache_hit_tokens": 7,
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 40},
                "total_tokens": 190,
            },
            Usage(100, 7, 90, 40),
        ),
        (
            "anthropic",
            "usage",
            {
                "input_tokens": 30,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 10,
                "output_tokens": 50,
                "output_tokens_details": {"thinking_tokens": 40},
            },
            Usage(100, 60, 50, 40, 10),
        ),
        (
            "anthropic",
            "usage",
            {"input_tokens": 30, "cache_read_input_tokens": None, "output_tokens": 5},
            Usage(30, None, 5, None),
        ),
        (
            "google",
            "usageMetadata",
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 10,
                "thoughtsTokenCount": 40,
            },
            Usage(100, 60, 50, 40),
        ),
        ("google", "usageMetadata", {"promptTokenCount": 100}, Usage(100, 0, 0, 0)),
        ("google", "usageMetadata", None, Usage()),
        ("openai", "usage", {"input_tokens": "many", "output_tokens": -1}, Usage()),
    ],
)
def test_tokens_mean_the_same_whoever_counted_them(api, field, usage, expected):
    assert read(api, json.dumps({field: usage})).usage == expected


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["stop", "STOP"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["error", "code", "message", "status", "output", "type", "content", "text", "refusal", "usage", "choices",
             "finish_reason", "input_tokens", "prompt_tokens", "stop_reason", "stop_details", "candidates", "parts",
             "finishReason", "promptFeedback", "blockReason", "usageMetadata", "thought", "id", "details"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=60, deadline=None)
@given(SHAPES)
def test_no_json_of_any_shape_raises(api, value):
    body = json.dumps(value)
    reply = read(api, body)
    assert isinstance(reply, Reply)
    assert reply.raw == body
    assert reply.outcome is not Outcome.OK or reply.text
    assert "\ud800" not in (reply.error or "")


@pytest.mark.parametrize("api", APIS)
def test_depth_and_lone_surrogates_do_no_harm(api):
    assert read(api, "[" * 100_000).outcome is Outcome.CONNECTION
    assert read(api, '{"error": {"message": "\\ud800"}}').error == "500: ?"


def test_what_is_posted_to_openai(request_of):
    request = request_of(
        schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        params={"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
    )
    assert openai.body("gpt-5", request) == {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "What is 2 + 2?"}],
        "max_output_tokens": 64,
        "reasoning": {"effort": "low"},
        "text": {
            "verbosity": "low",
            "format": {
                "type": "json_schema",
                "name": "output",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
            },
        },
    }


def test_the_limit_has_the_name_that_the_server_knows(request_of):
    assert openai_chat.body("m", request_of())["max_tokens"] == 64
    assert openai_chat.body("m", request_of(), of_openai=True)["max_completion_tokens"] == 64
    assert "max_tokens" not in openai_chat.body("m", request_of(params={"max_completion_tokens": 9}))


@pytest.mark.parametrize("api", APIS)
def test_a_shown_output_goes_back_as_the_models_own_turn(api, server, ask, request_of):
    first = request_of().messages
    again = (*first, first[0].__class__("assistant", "{4}"), first[0].__class__("user", "Not JSON."))
    vendor = server(body="{}")
    ask(api, vendor, messages=again)
    posted = vendor.seen[0]["posted"]
    turns = posted.get("input") or posted.get("messages") or posted["contents"]
    assert [turn["role"] for turn in turns][-3:] == ["user", "model" if api == "google" else "assistant", "user"]


def test_what_is_posted_to_google(server, ask):
    vendor = server(body="{}")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}}
    ask("google", vendor, schema=schema, params={"temperature": 0.5, "thinkingConfig": {"thinkingBudget": 128}})
    assert vendor.seen[0]["posted"] == {
        "contents": [{"parts": [{"text": "What is 2 + 2?"}], "role": "user"}],
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 64,
            "responseMimeType": "application/json",
            "responseJsonSchema": {
                "type": "object",
                "properties": {"n": {"type": "integer", "maximum": 5}},
                "required": ["n"],
                "additionalProperties": False,
                "propertyOrdering": ["n"],
            },
            "thinkingConfig": {"thinking_budget": 128},
        },
    }


def test_what_is_posted_to_anthropic(server, ask):
    vendor = server(body="{}")
    ask("anthropic", vendor, schema={"type": "object", "properties": {}}, params={"output_config": {"effort": "low"}})
    form = {
        "type": "json_schema",
        "schema": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    }
    assert vendor.seen[0]["posted"] == {
        "model": "some-model",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "What is 2 + 2?"}],
        "max_tokens": 64,
        "output_config": {"effort": "low", "format": form},
    }


def test_reading_back_needs_no_sdk():
    code = (
        "import sys; from tasks.models import anthropic, google, openai, openai_chat\n"
        "for api in (anthropic, google, openai, openai_chat): api.read('{}')\n"
        "print({'openai', 'anthropic', 'google.genai', 'httpx2'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"

"""What the vendors would refuse is refused, in their words."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

KEYS = {"Authorization": "Bearer key", "x-goog-api-key": "key", "anthropic-version": "2023-06-01"}
USER = [{"role": "user", "content": "What is 2 + 3?"}]
OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CLOSED = OPEN | {"additionalProperties": False}
BOUNDED = CLOSED | {"properties": {"n": {"type": "integer", "minimum": 0}}}


def post(url: str, path: str, body: Any, headers: dict[str, str] = KEYS) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, raw, headers)) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def form(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "out", "strict": True, "schema": schema} | more}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": USER}, "model"),
        ({"model": "sim-large"}, "'messages'"),
        ({"model": "sim-large", "messages": USER, "temprature": 1}, "Unknown parameter: 'temprature'"),
        ({"model": "sim-large", "messages": USER, "response_format": form(CLOSED, name=None)}, "json_schema.name"),
        ({"model": "sim-large", "messages": USER, "response_format": form(CLOSED, name="a b")}, "pattern"),
        ({"model": "sim-large", "messages": USER, "response_format": form(OPEN)}, "'additionalProperties'"),
        ({"model": "sim-large", "messages": USER, "response_format": form(CLOSED | {"required": []})}, "Missing 'n'"),
        ({"model": "sim-large", "messages": [{"role": "bot", "content": "x"}]}, "Invalid value: 'bot'"),
        (b"{", "parse"),
    ],
)
def test_openai_chat_refuses(body: Any, words: str, simulator: Any) -> None:
    status, answer = post(simulator.url, "/v1/chat/completions", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_output_tokens": 15}, ">= 16"),
        ({"text": {"format": {"type": "json_schema", "schema": CLOSED}}}, "text.format.name"),
        ({"response_format": form(CLOSED)}, "Unknown parameter: 'response_format'"),
        ({"input": []}, "'input'"),
    ],
)
def test_openai_responses_refuses(more: dict[str, Any], words: str, simulator: Any) -> None:
    status, answer = post(simulator.url, "/v1/responses", {"model": "sim-large", "input": USER} | more)
    assert status == 400
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": "sim-large", "messages": USER}, "max_tokens: Field required"),
        ({"model": "sim-large", "messages": [], "max_tokens": 9}, "at least one message"),
        (
            {"model": "sim-large", "messages": [{"role": "system", "content": "x"}], "max_tokens": 9},
            "top-level `system`",
        ),
        ({"model": "sim-large", "messages": USER, "max_tokens": 9, "n": 1}, "n: Extra inputs are not permitted"),
        (
            {"model": "sim-large", "messages": USER, "max_tokens": 9}
            | {"output_config": {"format": {"type": "json_schema", "schema": OPEN}}},
            "'additionalProperties' must be explicitly set to false",
        ),
        (
            {"model": "sim-large", "messages": USER, "max_tokens": 9}
            | {"output_config": {"format": {"type": "json_schema", "schema": BOUNDED}}},
            "For 'integer' type, property 'minimum' is not supported",
        ),
    ],
)
def test_anthropic_refuses(body: dict[str, Any], words: str, simulator: Any) -> None:
    status, answer = post(simulator.url, "/v1/messages", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert words in answer["error"]["message"]
    assert answer["request_id"].startswith("req_")


def test_anthropic_wants_its_version_header(simulator: Any) -> None:
    headers = {name: value for name, value in KEYS.items() if name != "anthropic-version"}
    body = {"model": "sim-large", "messages": USER, "max_tokens": 9}
    assert post(simulator.url, "/v1/messages", body, headers)[0] == 400


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"contents": []}, "contents is not specified"),
        ({"max_output_tokens": 5}, 'Unknown name "maxOutputTokens"'),
        ({"generationConfig": {"responseJsonSchema": CLOSED}}, "'application/json'"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
    ],
)
def test_gemini_refuses(more: dict[str, Any], words: str, simulator: Any) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "What is 2 + 3?"}]}]} | more
    status, answer = post(simulator.url, "/v1beta/models/sim-large:generateContent", body)
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chat/completions", 401),
        ("/v1/responses", 401),
        ("/v1/messages", 401),
        ("/v1/models/x:generateContent", 403),
    ],
)
def test_a_key_is_needed(path: str, status: int, simulator: Any) -> None:
    assert post(simulator.url, path, {}, {"anthropic-version": "2023-06-01"})[0] == status


def test_other_paths_are_not_found(simulator: Any) -> None:
    assert post(simulator.url, "/v1/completions", {})[0] == 404


@pytest.mark.parametrize(
    ("headers", "first"),
    [
        ({"Authorization": "Bearer key"}, ("object", "model")),
        ({"Authorization": "Bearer key", "anthropic-version": "2023-06-01"}, ("type", "model")),
        ({"x-goog-api-key": "key"}, ("name", "models/sim-tiny")),
    ],
)
def test_models_are_listed_in_each_vendors_shape(headers: dict[str, str], first: Any, simulator: Any) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"{simulator.url}/v1/models", headers=headers)) as response:
        body = json.loads(response.read())
    row = (body.get("data") or body["models"])[0]
    assert row[first[0]] == first[1]

"""Chat Completions: ``POST /v1/chat/completions``, as vLLM, llama.cpp, Ollama and many vendors serve it.

Asked:    {"model": "...", "messages": [{"role": "system", "content": "..."}, ...], "max_tokens": 16384,
           "response_format": {"type": "json_schema", "json_schema": {"name": ..., "strict": true, "schema": ...}}}
Answered: {"choices": [{"finish_reason": "stop", "message": {"content": "...", "refusal": null}}], "usage": {...}}
"""

from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tasks.models.classify import reply_to_error
from tasks.models.client import Body, PostingClient
from tasks.models.envelope import BROKEN, clean, count, dig, joined, load_object, objects, string, total, word
from tasks.models.exchange import Reply, Request, Usage
from tasks.models.openai import sdk
from tasks.models.outcomes import Outcome
from tasks.models.output_schema import schema_for
from tasks.settings import Endpoint

# Servers spell the same end in different words.
_STOPPED = {"stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"}
_AT_LIMIT = {"length", "max_tokens", "max_output_tokens", "model_length"}
_BLOCKED = {"content_filter", "safety", "refusal", "recitation"}


def connect(endpoint: Endpoint, key: str, connections: int) -> PostingClient:
    """A client of Chat Completions. Call it in the event loop that will use it."""
    posted = partial(body, of_openai=is_openai(endpoint))
    path = "/chat/completions"
    return PostingClient(sdk(endpoint, key, connections), path, posted, read, key=key, timeout_s=endpoint.timeout_s)


def is_openai(endpoint: Endpoint) -> bool:
    """Whether the server is OpenAI's own, which knows fewer schema keywords and another name for the limit."""
    host = urlsplit(endpoint.base_url).hostname or "" if endpoint.base_url else "api.openai.com"
    return host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))


def body(model: str, request: Request, *, of_openai: bool = False) -> Body:
    """What is posted. A server's own parameters (``top_k``, ``chat_template_kwargs``, ...) go as they are."""
    limit = "max_completion_tokens" if of_openai or "max_completion_tokens" in request.params else "max_tokens"
    posted: Body = {
        **request.params,
        "model": model,
        "messages": [{"role": message.role, "content": message.text} for message in request.messages],
        limit: request.max_output_tokens,
    }
    if request.schema is not None:
        schema = schema_for("openai" if of_openai else "openai-chat", request.schema)
        form = {"name": request.schema_name, "strict": True, "schema": schema}
        posted["response_format"] = {"type": "json_schema", "json_schema": form}
    return posted


def read(raw: str) -> Reply:
    """The reply that a body holds.

    ``content: null`` with a stop is a refusal, unless there was reasoning: then the model spent itself on that,
    and the answer is empty, as with ``""``. An answer without a finish reason cannot be told from one cut off.
    """
    value = load_object(raw)
    if value is None:
        return Reply(Outcome.CONNECTION, raw=raw, error=BROKEN)
    usage, request_id = _usage(value.get("usage")), word(value.get("id"))
    choices = objects(value.get("choices"))
    if value.get("error") and not choices:
        return replace(reply_to_error(None, raw), usage=usage, request_id=request_id)
    if not choices:
        return Reply(Outcome.EMPTY, None, raw, "no choices", None, usage, request_id)
    message = choices[0].get("message")
    text = _text(dig(message, "content"))
    refusal = string(dig(message, "refusal")) or None
    reason = word(choices[0].get("finish_reason"))
    thought = bool(dig(message, "reasoning_content") or dig(message, "reasoning"))
    outcome, error = _outcome((reason or "").lower(), text, refusal, thought)
    return Reply(outcome, text, raw, error, reason, usage, request_id)


def _outcome(reason: str, text: str | None, refusal: str | None, thought: bool) -> tuple[Outcome, str | None]:
    if refusal is not None or reason in _BLOCKED:
        return Outcome.REFUSED, f"refused: {clean(refusal or reason)}"
    if reason in _AT_LIMIT:
        return Outcome.TRUNCATED, f"finish_reason {reason}"
    if not reason:
        return Outcome.CONNECTION, "no finish_reason: the answer may be cut off"
    if reason not in _STOPPED:
        return Outcome.SERVER, f"finish_reason {reason}"
    if text is None and reason == "stop" and not thought:
        return Outcome.REFUSED, "refused: content is null"
    if not text:
        return Outcome.EMPTY, "reasoning, but no text" if thought else "no text"
    return Outcome.OK, None


def _text(content: Any) -> str | None:
    """The content, which some servers send as a list of parts with the thinking among them."""
    if isinstance(content, list):
        return joined([part["text"] for part in objects(content) if string(part.get("text")) is not None])
    return string(content)


def _usage(usage: Any) -> Usage:
    """Some servers count the reasoning beside the completion, and not in it: their total tells."""
    prompt, completion = count(dig(usage, "prompt_tokens")), count(dig(usage, "completion_tokens"))
    thinking = count(dig(usage, "completion_tokens_details", "reasoning_tokens"))
    cached = count(dig(usage, "prompt_tokens_details", "cached_tokens"))
    if (
        thinking
        and None not in (prompt, completion)
        and total(prompt, completion, thinking) == count(dig(usage, "total_tokens"))
    ):
        completion = total(completion, thinking)
    return Usage(
        input=prompt,
        cached=count(dig(usage, "prompt_cache_hit_tokens")) if cached is None else cached,
        output=completion,
        thinking=thinking,
        cache_write=count(dig(usage, "prompt_tokens_details", "cache_write_tokens")),
    )

"""Anthropic's Messages API: ``POST /v1/messages``.

Asked:    {"model": "claude-sonnet-4-5", "system": "You judge ...", "messages": [{"role": "user", "content": "..."}],
           "max_tokens": 16384, "output_config": {"format": {"type": "json_schema", "schema": ...}}}
Answered: {"content": [{"type": "thinking", ...}, {"type": "text", "text": "..."}], "stop_reason": "end_turn",
           "usage": {"input_tokens": 9, "cache_read_input_tokens": 27, "cache_creation_input_tokens": 0, ...}}

Prompt caching is left to ``params`` (``cache_control: {type: ephemeral}``): the breakpoint it sets is the end
of the prompt, which no two of our calls share, and a write to the cache costs more than no cache.
"""

from dataclasses import replace
from typing import Any

from tasks.models.classify import reply_to_error
from tasks.models.client import Body, PostingClient, sdk_options
from tasks.models.envelope import BROKEN, clean, count, dig, joined, load_object, objects, string, total, word
from tasks.models.exchange import Reply, Request, Usage
from tasks.models.outcomes import Outcome
from tasks.models.output_schema import schema_for
from tasks.settings import Endpoint

_STOPPED = {"end_turn", "stop_sequence", "tool_use"}
_UNFINISHED = {"max_tokens", "model_context_window_exceeded", "pause_turn"}


def connect(endpoint: Endpoint, key: str, connections: int) -> PostingClient:
    """A client of the Messages API. Call it in the event loop that will use it."""
    return PostingClient(
        sdk(endpoint, key, connections), "/v1/messages", body, read, key=key, timeout_s=endpoint.timeout_s
    )


def sdk(endpoint: Endpoint, key: str, connections: int) -> Any:
    """The SDK's async client."""
    from anthropic import AsyncAnthropic, DefaultAioHttpClient

    return AsyncAnthropic(**sdk_options(DefaultAioHttpClient, endpoint, key, connections))


def body(model: str, request: Request) -> Body:
    """What is posted. The model's own parameters stand beside ours, which win where both are given."""
    system = [message.text for message in request.messages if message.role == "system"]
    posted: Body = {
        **request.params,
        "model": model,
        "messages": [
            {"role": message.role, "content": message.text} for message in request.messages if message.role != "system"
        ],
        "max_tokens": request.max_output_tokens,
    }
    if system:
        posted["system"] = "\n\n".join(system)
    if request.schema is not None:
        form = {"type": "json_schema", "schema": schema_for("anthropic", request.schema)}
        posted["output_config"] = {**(request.params.get("output_config") or {}), "format": form}
    return posted


def read(raw: str) -> Reply:
    """The reply that a body holds. No text, or thinking alone, is empty; a refusal may come with no content."""
    value = load_object(raw)
    if value is None:
        return Reply(Outcome.CONNECTION, raw=raw, error=BROKEN)
    usage, request_id = _usage(value.get("usage")), word(value.get("id"))
    if value.get("error"):
        return replace(reply_to_error(None, raw), usage=usage, request_id=request_id)
    blocks = [block for block in objects(value.get("content")) if block.get("type") == "text"]
    text = joined([block["text"] for block in blocks if string(block.get("text")) is not None])
    reason = word(value.get("stop_reason"))
    outcome, error = _outcome(reason, text, value.get("stop_details"))
    return Reply(outcome, text, raw, error, reason, usage, request_id)


def _outcome(reason: str | None, text: str | None, details: Any) -> tuple[Outcome, str | None]:
    if reason == "refusal":
        said = string(dig(details, "explanation")) or string(dig(details, "category")) or "stop_reason refusal"
        return Outcome.REFUSED, f"refused: {clean(said)}"
    if reason in _UNFINISHED:
        return Outcome.TRUNCATED, f"stop_reason {reason}"
    if reason is None:
        return Outcome.CONNECTION, "no stop_reason: the answer may be cut off"
    if reason not in _STOPPED:
        return Outcome.SERVER, f"stop_reason {reason}"
    if not text:
        return Outcome.EMPTY, "no text"
    return Outcome.OK, None


def _usage(usage: Any) -> Usage:
    """Anthropic counts what the cache gave and took beside ``input_tokens``, and not in it."""
    fresh = count(dig(usage, "input_tokens"))
    cached = count(dig(usage, "cache_read_input_tokens"))
    written = count(dig(usage, "cache_creation_input_tokens"))
    return Usage(
        input=None if fresh is None else total(fresh, cached, written),
        cached=cached,
        output=count(dig(usage, "output_tokens")),
        thinking=count(dig(usage, "output_tokens_details", "thinking_tokens")),
        cache_write=written,
    )

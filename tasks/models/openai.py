"""OpenAI's Responses API: ``POST /v1/responses``.

Asked:    {"model": "gpt-5", "instructions": "You judge ...", "input": [{"role": "user", "content": "..."}],
           "max_output_tokens": 16384, "text": {"format": {"type": "json_schema", "strict": true, ...}}}
Answered: {"status": "completed", "output": [{"type": "reasoning", ...}, {"type": "message", "content":
           [{"type": "output_text", "text": "..."}]}], "usage": {...}}
"""

from dataclasses import replace
from typing import Any

from tasks.models.classify import reply_to_error
from tasks.models.client import Body, PostingClient, sdk_options
from tasks.models.envelope import BROKEN, clean, count, dig, joined, load_object, objects, string, word
from tasks.models.exchange import Reply, Request, Usage
from tasks.models.outcomes import Outcome
from tasks.models.output_schema import schema_for
from tasks.settings import Endpoint


def connect(endpoint: Endpoint, key: str, connections: int) -> PostingClient:
    """A client of the Responses API. Call it in the event loop that will use it."""
    return PostingClient(
        sdk(endpoint, key, connections), "/responses", body, read, key=key, timeout_s=endpoint.timeout_s
    )


def sdk(endpoint: Endpoint, key: str, connections: int) -> Any:
    """The SDK's async client."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    return AsyncOpenAI(**sdk_options(DefaultAioHttpClient, endpoint, key, connections))


def body(model: str, request: Request) -> Body:
    """What is posted. The model's own parameters stand beside ours, which win where both are given."""
    system = [message.text for message in request.messages if message.role == "system"]
    posted: Body = {
        **request.params,
        "model": model,
        "input": [
            {"role": message.role, "content": message.text} for message in request.messages if message.role != "system"
        ],
        "max_output_tokens": request.max_output_tokens,
    }
    if system:
        posted["instructions"] = "\n\n".join(system)
    if request.schema is not None:
        schema = schema_for("openai", request.schema)
        form = {"type": "json_schema", "name": request.schema_name, "strict": True, "schema": schema}
        posted["text"] = {**(request.params.get("text") or {}), "format": form}
    return posted


def read(raw: str) -> Reply:
    """The reply that a body holds.

    ``failed`` is the class of its error. ``incomplete`` is truncated, or refused by a content filter. A refusal
    item is a refusal even beside text. Completed with no text, or with reasoning alone, is empty.
    """
    value = load_object(raw)
    if value is None:
        return Reply(Outcome.CONNECTION, raw=raw, error=BROKEN)
    usage, request_id = _usage(value.get("usage")), word(value.get("id"))
    if value.get("error"):
        return replace(reply_to_error(None, raw), usage=usage, request_id=request_id)
    messages = [item for item in objects(value.get("output")) if item.get("type") == "message"]
    items = [
        item for message in messages if message.get("phase") != "commentary" for item in objects(message.get("content"))
    ]
    text = joined([item["text"] for item in items if string(item.get("text")) is not None])
    refusal = joined([item["refusal"] for item in items if string(item.get("refusal")) is not None])
    status = word(value.get("status"))
    reason = word(dig(value, "incomplete_details", "reason")) or status
    outcome, error = _outcome(status, reason, text, refusal)
    return Reply(outcome, text, raw, error, reason, usage, request_id)


def _outcome(
    status: str | None, reason: str | None, text: str | None, refusal: str | None
) -> tuple[Outcome, str | None]:
    if refusal is not None or reason == "content_filter":
        return Outcome.REFUSED, f"refused: {clean(refusal or 'content filter')}"
    if status == "incomplete":
        return Outcome.TRUNCATED, f"incomplete: {reason}"
    if status != "completed":
        return Outcome.SERVER, f"the response is {status or 'without a status'}"
    if not text:
        return Outcome.EMPTY, "no text"
    return Outcome.OK, None


def _usage(usage: Any) -> Usage:
    return Usage(
        input=count(dig(usage, "input_tokens")),
        cached=count(dig(usage, "input_tokens_details", "cached_tokens")),
        output=count(dig(usage, "output_tokens")),
        thinking=count(dig(usage, "output_tokens_details", "reasoning_tokens")),
        cache_write=count(dig(usage, "input_tokens_details", "cache_write_tokens")),
    )

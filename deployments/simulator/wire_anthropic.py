"""Anthropic's wire: ``/v1/messages``, its errors, headers and rules for schemas."""

import time
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any

import orjson

from deployments.simulator.exchange import (
    Ask,
    Completion,
    Finish,
    Json,
    Level,
    Pace,
    Problem,
    VendorError,
    Wire,
    as_text,
)

_NAMES = (
    "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier "
    "speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p user_profile_id"
)
_PARAMETERS = frozenset(_NAMES.split())
_NOT_FOR = {
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength"),
    "array": ("maxItems", "uniqueItems", "contains"),
}


def _bad(message: str) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message)


def authorize(headers: Mapping[str, str]) -> None:
    """The key is a bearer token, as the SDK sends it, or ``x-api-key``."""
    key = headers.get("x-api-key") or headers.get("Authorization", "").partition(" ")[2]
    if not key:
        raise VendorError(Problem.NO_KEY, "x-api-key header is required")
    if key.startswith("bad-key"):
        raise VendorError(Problem.BAD_KEY, "invalid x-api-key")


def read(body: Json, headers: Mapping[str, str], path: str) -> Ask:
    if "anthropic-version" not in headers:
        raise _bad("anthropic-version: header is required")
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise _bad(f"{name}: Field required")
    for name in body:
        if name not in _PARAMETERS:
            raise _bad(f"{name}: Extra inputs are not permitted")
    if body.get("stream"):
        raise _bad("stream: streaming is not available here")
    model, limit = body["model"], body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise _bad("max_tokens: Input should be a valid integer")
    if limit < 1:
        raise _bad("max_tokens: Input should be greater than or equal to 1")
    if not isinstance(model, str) or not model.startswith("sim-"):
        raise VendorError(Problem.NO_MODEL, f"model: {model}")
    system = as_text(body.get("system", ""), "system")
    turns = _turns(body["messages"])
    caching = b"cache_control" in orjson.dumps(_cacheable(body))
    return Ask(model, system, turns, _schema(body.get("output_config")), limit, body, caching)


def _turns(messages: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(messages, list) or not messages:
        raise _bad("messages: at least one message is required")
    turns: list[tuple[str, str]] = []
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "system":
            raise _bad(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
                '"system" as an input message role.'
            )
        if role not in ("user", "assistant"):
            raise _bad(f"messages.{place}.role: Input should be 'user' or 'assistant'")
        text = as_text(message.get("content"), f"messages.{place}.content")
        if not text.strip():
            raise _bad(f"messages.{place}: text content blocks must be non-empty")
        turns.append((role, text))
    return tuple(turns)


def _schema(config: Any) -> Json | None:
    form = config.get("format") if isinstance(config, dict) else None
    if form is None:
        return None
    if form.get("type") != "json_schema":
        raise _bad("output_config.format.type: Input should be 'json_schema'")
    schema = form.get("schema")
    if not isinstance(schema, dict):
        raise _bad("output_config.format.schema: Field required")
    if problem := _problem(orjson.dumps(schema)):
        raise _bad(f"output_config.format.schema: {problem}")
    return schema


@lru_cache(maxsize=256)
def _problem(encoded: bytes) -> str | None:
    return _refused(orjson.loads(encoded))


def _refused(node: Any) -> str | None:
    """What structured output refuses in a schema, or None."""
    if not isinstance(node, dict):
        return None
    kind = node.get("type")
    if kind == "object" and node.get("additionalProperties") is not False:
        return "For 'object' type, 'additionalProperties' must be explicitly set to false"
    refused = [word for word in _NOT_FOR.get(kind, ()) if word in node] if isinstance(kind, str) else []
    if refused:
        named = f"property '{refused[0]}' is" if len(refused) == 1 else f"properties {', '.join(refused)} are"
        return f"For '{kind}' type, {named} not supported"
    if kind == "array" and node.get("minItems", 0) not in (0, 1):
        return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
    if "oneOf" in node:
        return "Schema type 'oneOf' is not supported"
    parts = [*node.get("properties", {}).values(), *node.get("$defs", {}).values(), node.get("items")]
    parts += [*node.get("anyOf", []), *node.get("allOf", [])]
    return next((problem for part in parts if (problem := _refused(part))), None)


def write(ask: Ask, done: Completion, request_id: str, now: float) -> Json:
    """``input_tokens`` leaves out the cached ones, of which there are none where the request did not ask for them."""
    content: list[Json] = []
    if done.thinking:
        content.append({"type": "thinking", "thinking": "", "signature": f"sig{request_id}"})
    if done.finish in (Finish.STOP, Finish.LENGTH) and done.text:
        content.append({"type": "text", "text": done.text, "citations": None})
    refused = done.finish in (Finish.REFUSAL, Finish.BLOCKED)
    if refused:
        content = []
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": content,
        "stop_reason": "refusal" if refused else "max_tokens" if done.finish is Finish.LENGTH else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": done.input - done.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": done.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": done.output,
            "output_tokens_details": {"thinking_tokens": done.thinking},
            "service_tier": "standard",
        },
    }


def _cacheable(request: Json) -> list[Any]:
    """The request without long texts, in which the word need not be looked for."""
    marks: list[Any] = [list(request), request.get("tools")]
    blocks = [request.get("system"), *[message.get("content") for message in request["messages"]]]
    for block in blocks:
        if isinstance(block, list):
            marks += [list(part) for part in block if isinstance(part, dict)]
    return marks


_ERRORS = {
    Problem.NO_KEY: (401, "authentication_error"),
    Problem.BAD_KEY: (401, "authentication_error"),
    Problem.BAD_REQUEST: (400, "invalid_request_error"),
    Problem.NO_MODEL: (404, "not_found_error"),
    Problem.NO_ROUTE: (404, "not_found_error"),
    Problem.RATE: (429, "rate_limit_error"),
    Problem.QUOTA: (400, "invalid_request_error"),
    Problem.RETIRED: (404, "not_found_error"),
    Problem.SERVER: (500, "api_error"),
    Problem.UNAVAILABLE: (503, "api_error"),
    Problem.OVERLOADED: (529, "overloaded_error"),
}
_MESSAGES = {
    Problem.RATE: "This request would exceed your account's rate limit. Please try again later.",
    Problem.QUOTA: (
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
        "purchase credits."
    ),
    Problem.SERVER: "Internal server error",
    Problem.UNAVAILABLE: "Service unavailable",
    Problem.OVERLOADED: "Overloaded",
    Problem.NO_ROUTE: "Not Found",
}


def write_error(error: VendorError, request_id: str) -> tuple[int, Json]:
    status, kind = _ERRORS[error.problem]
    message = _MESSAGES.get(error.problem, error.message)
    if error.problem is Problem.RETIRED:
        message = f"model: {error.model}"
    return status, {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": f"req_{request_id}",
    }


_INPUT, _OUTPUT = Level(30_000_000, 29_990_000, 0.02), Level(6_000_000, 5_990_000, 0.1)


def headers(request_id: str, pace: Pace | None) -> dict[str, str]:
    """``tokens`` tells the tightest limit, which is that of input and output together; the others are hardly touched.

    The resets are the times at which a limit is full again.
    """
    told = {
        "request-id": f"req_{request_id}",
        "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
    }
    if pace is not None:
        now = time.time()
        _tell(told, "requests", pace.requests, pace.requests.remaining, now)
        _tell(told, "tokens", pace.tokens, _to_thousands(pace.tokens), now)
        _tell(told, "input-tokens", _INPUT, _INPUT.remaining, now)
        _tell(told, "output-tokens", _OUTPUT, _OUTPUT.remaining, now)
    return told


def _tell(told: dict[str, str], unit: str, level: Level, remaining: int, now: float) -> None:
    told[f"anthropic-ratelimit-{unit}-limit"] = str(level.limit)
    told[f"anthropic-ratelimit-{unit}-remaining"] = str(remaining)
    told[f"anthropic-ratelimit-{unit}-reset"] = _moment(ceil(now + level.reset_s))


def _to_thousands(level: Level) -> int:
    """Anthropic rounds the tokens that are left to the nearest thousand."""
    return min(level.limit, (level.remaining + 500) // 1000 * 1000)


@lru_cache(maxsize=256)
def _moment(second: int) -> str:
    """RFC 3339, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def models(names: tuple[str, ...]) -> Json:
    rows = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": 1_000_000,
            "max_tokens": 64_000,
        }
        for name in names
    ]
    return {"data": rows, "has_more": False, "first_id": names[0], "last_id": names[-1]}


MESSAGES = Wire("anthropic", authorize, read, write, write_error, headers)
"""``POST /v1/messages``."""

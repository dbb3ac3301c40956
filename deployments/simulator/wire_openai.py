"""OpenAI's wire: ``/v1/responses`` and ``/v1/chat/completions``, and their rules for schemas."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from deployments.simulator.exchange import Ask, Completion, Finish, Json, Problem, VendorError, Wire, as_text
from deployments.simulator.wire_openai_errors import headers, write_error

_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_SHARED = (
    "metadata model moderation parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention "
    "safety_identifier service_tier store stream stream_options temperature tool_choice tools top_logprobs top_p user "
)
_CHAT_PARAMETERS = frozenset(
    (
        _SHARED
        + "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens "
        "messages modalities n prediction presence_penalty reasoning_effort response_format seed stop verbosity "
        "web_search_options"
    ).split()
)
_RESPONSES_PARAMETERS = frozenset(
    (
        _SHARED + "access_programs background background_options context_management conversation image include input "
        "instructions max_output_tokens max_tool_calls previous_response_id prompt reasoning text truncation"
    ).split()
)
_REFUSAL = "I'm sorry, but I can't help with that request."


def _bad(message: str, param: str | None = None, code: str | None = None) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message, param=param, code=code)


def authorize(headers: Mapping[str, str]) -> None:
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise VendorError(
            Problem.NO_KEY,
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
    if key.startswith("bad-key"):
        raise VendorError(
            Problem.BAD_KEY,
            f"Incorrect API key provided: {key}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
        )


def read_chat(body: Json, headers: Mapping[str, str], path: str) -> Ask:
    _known(body, _CHAT_PARAMETERS)
    model = _model(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _bad("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    system, turns = _turns(messages, "messages")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        raise _bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise _bad("Invalid 'max_completion_tokens': must be an integer of at least 1.", "max_completion_tokens")
    schema = None
    form = body.get("response_format")
    if form is not None:
        if form.get("type") == "json_schema":
            schema = _schema(form.get("json_schema"), "response_format.json_schema")
        elif form.get("type") not in ("text", "json_object"):
            raise _bad("Invalid value for 'response_format.type'.", "response_format.type", "invalid_value")
    return Ask(model, system, turns, schema, limit, body)


def read_responses(body: Json, headers: Mapping[str, str], path: str) -> Ask:
    _known(body, _RESPONSES_PARAMETERS)
    model = _model(body)
    given = body.get("input")
    if isinstance(given, str):
        system = ""
        turns: tuple[tuple[str, str], ...] = (("user", given),)
    elif isinstance(given, list) and given:
        system, turns = _turns(given, "input")
    else:
        raise _bad("Missing required parameter: 'input'.", "input", "missing_required_parameter")
    instructions = body.get("instructions") or ""
    if instructions:
        system = f"{instructions}\n\n{system}" if system else instructions
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 16):
        raise _bad(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit} "
            "instead.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    schema = None
    form = (body.get("text") or {}).get("format")
    if form is not None:
        if form.get("type") == "json_schema":
            schema = _schema(form, "text.format")
        elif form.get("type") not in ("text", "json_object"):
            raise _bad("Invalid value for 'text.format.type'.", "text.format.type", "invalid_value")
    return Ask(model, system, turns, schema, limit, body)


def _known(body: Json, known: frozenset[str]) -> None:
    if body.get("stream"):
        raise _bad("Streaming is not available here.", "stream", "unsupported_value")
    for name in body:
        if name not in known:
            raise _bad(f"Unknown parameter: '{name}'.", name, "unknown_parameter")


def _model(body: Json) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise _bad("you must provide a model parameter")
    if not model.startswith("sim-"):
        raise VendorError(
            Problem.NO_MODEL,
            f"The model `{model}` does not exist or you do not have access to it.",
            code="model_not_found",
        )
    return model


def _turns(messages: list[Any], where: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    system: list[str] = []
    turns: list[tuple[str, str]] = []
    for position, message in enumerate(messages):
        place = f"{where}[{position}]"
        if not isinstance(message, dict):
            raise _bad(f"Invalid type for '{place}': expected an object.", place, "invalid_type")
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant"):
            raise _bad(f"Invalid value: '{role}'.", f"{place}.role", "invalid_value")
        text = as_text(message.get("content"), f"{place}.content")
        if role in ("system", "developer"):
            system.append(text)
        else:
            turns.append((role, text))
    return "\n\n".join(system), tuple(turns)


def _schema(form: Any, where: str) -> Json:
    if not isinstance(form, dict):
        raise _bad(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    for part in ("name", "schema"):
        if not form.get(part):
            raise _bad(
                f"Missing required parameter: '{where}.{part}'.", f"{where}.{part}", "missing_required_parameter"
            )
    name, schema = form["name"], form["schema"]
    if not isinstance(name, str) or not _NAME.match(name):
        raise _bad(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            f"{where}.name",
            "invalid_value",
        )
    if not isinstance(schema, dict):
        raise _bad(f"Invalid type for '{where}.schema': expected an object.", f"{where}.schema", "invalid_type")
    if form.get("strict") and (problem := _strict_problem(orjson.dumps(schema))):
        raise _bad(
            f"Invalid schema for response_format '{name}': {problem}", where.split(".")[0], "invalid_json_schema"
        )
    return schema


@lru_cache(maxsize=256)
def _strict_problem(encoded: bytes) -> str | None:
    """What strict mode refuses in a schema, or None."""
    schema = orjson.loads(encoded)
    if schema.get("type") != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    return _refused(schema, ())


def _refused(node: Any, context: tuple[str, ...]) -> str | None:
    if not isinstance(node, dict):
        return None
    for word in ("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "default"):
        if word in node:
            return f"In context={context}, '{word}' is not permitted."
    properties = node.get("properties", {})
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            return f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        absent = [name for name in properties if name not in node.get("required", [])]
        if absent:
            return (
                f"In context={context}, 'required' is required to be supplied and to be an array including every key "
                f"in properties. Missing '{absent[0]}'."
            )
    parts: list[tuple[tuple[str, ...], Any]] = [(("properties", name), part) for name, part in properties.items()]
    parts += [(("items",), node["items"])] if "items" in node else []
    parts += [(("anyOf", str(place)), part) for place, part in enumerate(node.get("anyOf", []))]
    parts += [(("$defs", name), part) for name, part in node.get("$defs", {}).items()]
    for place, part in parts:
        if problem := _refused(part, context + place):
            return problem
    return None


def write_chat(ask: Ask, done: Completion, request_id: str, now: float) -> Json:
    message: Json = {"role": "assistant", "content": done.text, "refusal": None, "annotations": []}
    finish = "length" if done.finish is Finish.LENGTH else "stop"
    if done.finish is Finish.REFUSAL:
        message |= {"content": None, "refusal": _REFUSAL}
    elif done.finish is Finish.BLOCKED:
        message["content"], finish = None, "content_filter"
    elif done.finish is Finish.NULL:
        message["content"] = None
    return {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion",
        "created": int(now),
        "model": ask.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": done.input,
            "completion_tokens": done.output,
            "total_tokens": done.input + done.output,
            "prompt_tokens_details": {"cached_tokens": done.cached, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": done.thinking,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp_simulated",
    }


def write_responses(ask: Ask, done: Completion, request_id: str, now: float) -> Json:
    incomplete = done.finish in (Finish.LENGTH, Finish.BLOCKED)
    status = "incomplete" if incomplete else "completed"
    output: list[Json] = []
    if done.thinking:
        output.append({"id": f"rs_{request_id}", "type": "reasoning", "summary": []})
    content: list[Json] = []
    if done.finish is Finish.REFUSAL:
        content = [{"type": "refusal", "refusal": _REFUSAL}]
    elif done.finish is Finish.EMPTY or (done.finish in (Finish.STOP, Finish.LENGTH) and done.text):
        content = [{"type": "output_text", "text": done.text, "annotations": [], "logprobs": []}]
    if content:
        output.append(
            {"id": f"msg_{request_id}", "type": "message", "status": status, "role": "assistant", "content": content}
        )
    request = ask.request
    details = None
    if incomplete:
        details = {"reason": "max_output_tokens" if done.finish is Finish.LENGTH else "content_filter"}
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": int(now),
        "completed_at": None if incomplete else int(now),
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": details,
        "instructions": request.get("instructions"),
        "max_output_tokens": ask.max_tokens,
        "max_tool_calls": None,
        "model": ask.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None} | (request.get("reasoning") or {}),
        "safety_identifier": None,
        "service_tier": "default",
        "store": request.get("store", True),
        "temperature": request.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium"} | (request.get("text") or {}),
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": request.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": {
            "input_tokens": done.input,
            "input_tokens_details": {"cached_tokens": done.cached, "cache_write_tokens": 0},
            "output_tokens": done.output,
            "output_tokens_details": {"reasoning_tokens": done.thinking},
            "total_tokens": done.input + done.output,
        },
        "user": None,
        "metadata": request.get("metadata") or {},
    }


def models(names: tuple[str, ...]) -> Json:
    made = 1_700_000_000
    rows = [{"id": name, "object": "model", "created": made, "owned_by": "simulator"} for name in names]
    return {"object": "list", "data": rows}


CHAT = Wire("openai", authorize, read_chat, write_chat, write_error, headers)
RESPONSES = Wire("openai", authorize, read_responses, write_responses, write_error, headers)

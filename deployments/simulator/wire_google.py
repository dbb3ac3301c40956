"""Gemini's wire: ``/v1beta/models/MODEL:generateContent`` (and ``/v1/...``), its errors and headers.

A bad key is a 400 with the reason API_KEY_INVALID and a missing one a 403, as Gemini has it, not a 401. Counts that
are zero are left out of the usage, as protobuf does. A prompt that is blocked has no candidates.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from deployments.simulator.exchange import (
    Ask,
    Completion,
    Excess,
    Finish,
    Json,
    Pace,
    Problem,
    VendorError,
    Wire,
    as_seconds,
    as_text,
)

_NAMES = (
    "contents systemInstruction generationConfig safetySettings tools toolConfig cachedContent model serviceTier "
    "store labels"
)
_CONFIG_NAMES = (
    "candidateCount maxOutputTokens responseMimeType responseSchema responseJsonSchema responseFormat temperature topP "
    "topK seed stopSequences presencePenalty frequencyPenalty responseLogprobs logprobs thinkingConfig "
    "responseModalities mediaResolution speechConfig imageConfig routingConfig audioTimestamp "
    "enableEnhancedCivicAnswers enableAffectiveDialog modelConfig"
)
_PARAMETERS = frozenset(_NAMES.split())
_CONFIG = frozenset(_CONFIG_NAMES.split())


def _bad(message: str) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message)


def authorize(headers: Mapping[str, str]) -> None:
    key = headers.get("x-goog-api-key")
    if not key:
        raise VendorError(
            Problem.NO_KEY,
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
            "other form of API consumer identity to call this API.",
        )
    if key.startswith("bad-key"):
        raise VendorError(Problem.BAD_KEY, "API key not valid. Please pass a valid API key.")


def read(body: Json, headers: Mapping[str, str], path: str) -> Ask:
    version, model = path.split("/")[1], unquote(path.rsplit("/", 1)[1].rsplit(":", 1)[0])
    if not model.startswith("sim-"):
        raise VendorError(
            Problem.NO_MODEL,
            f"models/{model} is not found for API version {version}, or is not supported for generateContent. Call "
            "ListModels to see the list of available models and their supported methods.",
        )
    body = _camel(body)
    config = _camel(body.get("generationConfig") or {})
    for given, known, where in ((body, _PARAMETERS, ""), (config, _CONFIG, " at 'generation_config'")):
        for name in given:
            if name not in known:
                raise _bad(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise _bad("* GenerateContentRequest.contents: contents is not specified\n")
    turns = []
    for content in contents:
        role = content.get("role", "user")
        if role not in ("user", "model"):
            raise _bad("Please use a valid role: user, model.")
        turns.append(("assistant" if role == "model" else "user", as_text(content.get("parts"), "contents.parts")))
    instruction = body.get("systemInstruction")
    system = as_text(instruction.get("parts"), "system_instruction.parts") if isinstance(instruction, dict) else ""
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    if schema is not None and config.get("responseMimeType") != "application/json":
        raise _bad(
            "* GenerateContentRequest.generation_config.response_mime_type: Response_mime_type must be "
            "'application/json' to use response_schema\n"
        )
    limit = config.get("maxOutputTokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise _bad(
            "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive.\n"
        )
    schema = schema if config.get("responseJsonSchema") is not None else _lower_types(schema)
    return Ask(model, system, tuple(turns), schema, limit, body)


def _camel(fields: Any) -> Json:
    """The fields with their JSON names; protobuf's own ``snake_case`` names are taken too."""
    if not isinstance(fields, dict):
        raise _bad("Invalid JSON payload received. Expected an object.")
    if not any("_" in name for name in fields):
        return fields
    return {_joined(name): value for name, value in fields.items()}


def _joined(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _lower_types(schema: Any) -> Any:
    """Gemini's own ``responseSchema`` as a JSON schema: its type names are upper case."""
    if isinstance(schema, list):
        return [_lower_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: part.lower() if name == "type" and isinstance(part, str) else _lower_types(part)
        for name, part in schema.items()
    }


_FINISH = {
    Finish.STOP: "STOP",
    Finish.EMPTY: "STOP",
    Finish.NULL: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.REFUSAL: "SAFETY",
}


def write(ask: Ask, done: Completion, request_id: str, now: float) -> Json:
    written = done.output - done.thinking
    usage: Json = {"promptTokenCount": done.input}
    if done.finish is not Finish.BLOCKED:
        usage |= {"candidatesTokenCount": written} if written else {}
        usage |= {"thoughtsTokenCount": done.thinking} if done.thinking else {}
    usage |= {"cachedContentTokenCount": done.cached} if done.cached else {}
    usage["totalTokenCount"] = done.input + (0 if done.finish is Finish.BLOCKED else done.output)
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": done.input}]
    answer: Json = {}
    if done.finish is Finish.BLOCKED:
        answer["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
    else:
        candidate: Json = {"finishReason": _FINISH[done.finish], "index": 0}
        if done.finish is not Finish.NULL:
            content: Json = {"role": "model"}
            candidate["content"] = content
            if done.finish in (Finish.STOP, Finish.LENGTH) and done.text:
                content["parts"] = [{"text": done.text}]
        answer["candidates"] = [candidate]
    return answer | {"usageMetadata": usage, "modelVersion": ask.model, "responseId": request_id}


_ERRORS = {
    Problem.NO_KEY: (403, "PERMISSION_DENIED"),
    Problem.BAD_KEY: (400, "INVALID_ARGUMENT"),
    Problem.BAD_REQUEST: (400, "INVALID_ARGUMENT"),
    Problem.NO_MODEL: (404, "NOT_FOUND"),
    Problem.NO_ROUTE: (404, "NOT_FOUND"),
    Problem.RATE: (429, "RESOURCE_EXHAUSTED"),
    Problem.QUOTA: (429, "RESOURCE_EXHAUSTED"),
    Problem.RETIRED: (404, "NOT_FOUND"),
    Problem.SERVER: (500, "INTERNAL"),
    Problem.UNAVAILABLE: (503, "UNAVAILABLE"),
    Problem.OVERLOADED: (503, "UNAVAILABLE"),
}
_MESSAGES = {
    Problem.RATE: "Resource has been exhausted (e.g. check quota).",
    Problem.QUOTA: (
        "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your "
        "project and billing."
    ),
    Problem.SERVER: (
        "An internal error has occurred. Please retry or report in "
        "https://developers.generativeai.google/guide/troubleshooting"
    ),
    Problem.UNAVAILABLE: "The service is currently unavailable.",
    Problem.OVERLOADED: "The model is overloaded. Please try again later.",
}
_QUOTAS = {
    "requests": ("generate_content_paid_tier_requests", "GenerateRequestsPerMinutePerProjectPerModel"),
    "tokens": ("generate_content_paid_tier_input_token_count", "GenerateContentPaidTierInputTokensPerModelPerMinute"),
}


def write_error(error: VendorError, request_id: str) -> tuple[int, Json]:
    status, name = _ERRORS[error.problem]
    message = _MESSAGES.get(error.problem, error.message)
    details: list[Json] = []
    if error.problem is Problem.BAD_KEY:
        details = [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            }
        ]
    elif error.problem is Problem.RETIRED:
        message = (
            f"This model models/{error.model} is no longer available. Please update your code to use a newer model "
            "for the latest features and improvements."
        )
    elif error.excess is not None:
        message, details = _too_many(error, error.excess)
    body: Json = {"code": status, "message": message, "status": name}
    return status, {"error": body | ({"details": details} if details else {})}


def _too_many(error: VendorError, excess: Excess) -> tuple[str, list[Json]]:
    metric, quota_id = _QUOTAS[excess.unit]
    metric = f"generativelanguage.googleapis.com/{metric}"
    message = (
        "You exceeded your current quota, please check your plan and billing details. For more information on this "
        "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: "
        f"{metric}, limit: {excess.limit}, model: {error.model}"
    )
    violation = {
        "quotaMetric": metric,
        "quotaId": quota_id,
        "quotaDimensions": {"location": "global", "model": error.model},
        "quotaValue": str(excess.limit),
    }
    details: list[Json] = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    if error.retry_after is not None:
        wait = as_seconds(error.retry_after)
        message += f"\nPlease retry in {wait}s."
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"})
    return message, details


def headers(request_id: str, pace: Pace | None) -> dict[str, str]:
    """Gemini tells no limits; its answers' own id stands in their body."""
    return {"server-timing": "gfet4t7; dur=1", "x-content-type-options": "nosniff", "vary": "Origin, X-Origin, Referer"}


def model(name: str) -> Json:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_000_000,
        "outputTokenLimit": 64_000,
        "supportedGenerationMethods": ["generateContent"],
    }


def models(names: tuple[str, ...]) -> Json:
    return {"models": [model(name) for name in names]}


GENERATE = Wire("google", authorize, read, write, write_error, headers)
"""``POST /v1beta/models/MODEL:generateContent``."""

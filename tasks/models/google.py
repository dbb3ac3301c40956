"""Google's Gemini API through google-genai: ``POST /v1/models/MODEL:generateContent``.

Answered: {"candidates": [{"content": {"parts": [{"text": "...", "thought": true}, {"text": "..."}]}, "finishReason":
           "STOP"}], "usageMetadata": {"promptTokenCount": 36, "candidatesTokenCount": 87, ...}, "responseId": ...}
A blocked prompt has no candidates, and ``promptFeedback.blockReason``. Counts that are zero are left out.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from tasks.models.classify import reply_to_error, reply_to_exception
from tasks.models.client import CALL_ID_HEADER, CONNECT_S, KEEP_ALIVE_S, Body, finished
from tasks.models.envelope import (
    BROKEN,
    clean,
    count,
    decode,
    dig,
    joined,
    load_object,
    objects,
    string,
    total,
    without_key,
    word,
)
from tasks.models.exchange import Reply, Request, Usage
from tasks.models.outcomes import Outcome
from tasks.models.output_schema import schema_for
from tasks.settings import Endpoint

LEAST_TIMEOUT_S = 10.0  # the server refuses a shorter one, which the SDK sends as a header

_UNFINISHED = {"MAX_TOKENS", "CONTINUATION"}
_NOTHING = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "NO_IMAGE"}


class Answer(aiohttp.ClientResponse):
    """An HTTP answer whose text can be had whatever its bytes are, and an error body that need not be JSON."""

    _kept: str | None = None  # for after the SDK has closed it

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        if self._kept is None:
            self._kept = decode(await self.read())
        return self._kept

    async def json(self, **options: Any) -> Any:
        value = load_object(await self.text())
        return {"message": await self.text()} if value is None else value


class GoogleClient:
    def __init__(self, endpoint: Endpoint, key: str, connections: int) -> None:
        self._key = key
        self._timeout_s = endpoint.timeout_s
        self._sdk, self._session = sdk(endpoint, key, connections)

    async def ask(self, model: str, request: Request) -> Reply:
        headers: Mapping[str, str] = {}
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._sdk.aio.models.generate_content(
                    model=model, contents=_contents(request), config=_config(request)
                )
        except Exception as error:
            response = getattr(error, "response", None)
            if not isinstance(response, Answer):
                return finished(reply_to_exception(error, self._key), request, self._key, self._timeout_s)
            headers = response.headers
            reply = reply_to_error(response.status, without_key(await response.text(), self._key), headers)
        else:
            body = answer.sdk_http_response.body if answer.sdk_http_response else None
            reply = read(without_key(body or "", self._key))
        return finished(reply, request, self._key, self._timeout_s, headers)

    async def aclose(self) -> None:
        await self._sdk.aio.aclose()
        self._sdk.close()
        await self._session.close()


def connect(endpoint: Endpoint, key: str, connections: int) -> GoogleClient:
    """A client of generateContent. Call it in the event loop that will use it."""
    return GoogleClient(endpoint, key, connections)


def sdk(endpoint: Endpoint, key: str, connections: int) -> tuple[Any, aiohttp.ClientSession]:
    """The SDK's client, with our time-outs and without its own retries, and the session to close after it."""
    from google import genai
    from google.genai import types

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, endpoint.timeout_s)),
        response_class=Answer,
        trust_env=True,
    )
    client = genai.Client(
        api_key=key,
        vertexai=False,
        http_options=types.HttpOptions(
            base_url=endpoint.base_url,
            timeout=int(1000 * max(LEAST_TIMEOUT_S, endpoint.timeout_s)),
            retry_options=types.HttpRetryOptions(attempts=1),
            aiohttp_client=session,
        ),
    )
    return client, session


def body(sdk: Any, model: str, request: Request) -> Body:
    """What ``generate_content`` posts, by the SDK's own conversion: it alone knows what goes where.

    Raises ``ValueError`` for a parameter that the SDK does not know.
    """
    from google.genai import _common, models, types

    asked = types._GenerateContentParameters(model=model, contents=_contents(request), config=_config(request))
    made = models._GenerateContentParameters_to_mldev(sdk._api_client, asked, None, asked)
    posted = _common.encode_unserializable_types(_common.convert_to_dict(made))
    return {name: value for name, value in posted.items() if not name.startswith("_") and name != "config"}


def _contents(request: Request) -> Any:
    from google.genai import types

    return [
        types.Content(role="model" if message.role == "assistant" else "user", parts=[types.Part(text=message.text)])
        for message in request.messages
        if message.role != "system"
    ]


def _config(request: Request) -> Any:
    """The SDK's own settings object: it refuses a parameter that it does not know, before anything is paid."""
    from google.genai import types

    system = [message.text for message in request.messages if message.role == "system"]
    structured = {}
    if request.schema is not None:
        schema = schema_for("google", request.schema)
        structured = {"response_mime_type": "application/json", "response_json_schema": schema}
    ours = {
        "system_instruction": "\n\n".join(system) or None,
        "max_output_tokens": request.max_output_tokens,
        "should_return_http_response": True,
        "automatic_continuation": False,  # a second call behind our back
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
        "http_options": types.HttpOptions(headers={CALL_ID_HEADER: request.call_id}),
    }
    return types.GenerateContentConfig(**{**request.params, **ours, **structured})


def read(raw: str) -> Reply:
    """The reply that a body holds. Text of None with MAX_TOKENS was all spent on thoughts."""
    value = load_object(raw)
    if value is None:
        return Reply(Outcome.CONNECTION, raw=raw, error=BROKEN)
    usage, request_id = _usage(value.get("usageMetadata")), word(value.get("responseId"))
    candidates = objects(value.get("candidates"))
    if value.get("error") and not candidates:
        return reply_to_error(None, raw)
    if blocked := word(dig(value, "promptFeedback", "blockReason")):
        said = string(dig(value, "promptFeedback", "blockReasonMessage")) or blocked
        return Reply(Outcome.REFUSED, None, raw, f"the prompt was blocked: {clean(said)}", blocked, usage, request_id)
    if not candidates:
        return Reply(Outcome.EMPTY, None, raw, "no candidates", None, usage, request_id)
    parts = [part for part in objects(dig(candidates[0], "content", "parts")) if not part.get("thought")]
    text = joined([part["text"] for part in parts if string(part.get("text")) is not None])
    reason = word(candidates[0].get("finishReason"))
    outcome, error = _outcome(reason, text, string(candidates[0].get("finishMessage")))
    return Reply(outcome, text, raw, error, reason, usage, request_id)


def _outcome(reason: str | None, text: str | None, said: str | None) -> tuple[Outcome, str | None]:
    """Every reason that is not one of these is a block of some kind, new ones too."""
    if reason == "STOP":
        return (Outcome.OK, None) if text else (Outcome.EMPTY, "no text")
    if reason in _UNFINISHED:
        return Outcome.TRUNCATED, f"finishReason {reason}" + ("" if text else ", all of it spent on thoughts")
    if reason in _NOTHING:
        return Outcome.EMPTY, f"finishReason {reason}"
    if reason is None or reason == "FINISH_REASON_UNSPECIFIED":
        return Outcome.CONNECTION, "no finishReason: the answer may be cut off"
    if reason == "PUP_LIMITED_DISABLED":
        return Outcome.AUTH, "the account is limited for violations of the use policy"
    return Outcome.REFUSED, f"refused: {clean(said or reason)}"


def _usage(usage: Any) -> Usage:
    """``promptTokenCount`` includes what was cached; thoughts are counted beside the candidates."""
    if not isinstance(usage, dict):
        return Usage()
    thoughts = count(usage.get("thoughtsTokenCount", 0))
    return Usage(
        input=count(usage.get("promptTokenCount")),
        cached=count(usage.get("cachedContentTokenCount", 0)),
        output=total(count(usage.get("candidatesTokenCount", 0)), thoughts),
        thinking=thoughts,
    )

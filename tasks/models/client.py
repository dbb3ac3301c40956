"""One call to one server: post a body, take the answer as it came, give it a class. Never an exception.

OpenAI's and Anthropic's SDKs are of one make: ``post`` sends a ready body through the SDK's authentication,
headers and connections, and hands back the HTTP answer unparsed, at half the CPU of their typed calls.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from tasks.models.classify import reply_to_error, reply_to_exception
from tasks.models.envelope import decode, header, without_any_key, without_key
from tasks.models.exchange import Reply, Request
from tasks.models.outcomes import Outcome
from tasks.models.pace import pace_of
from tasks.settings import Endpoint

CALL_ID_HEADER = "X-Client-Request-Id"
CONNECT_S = 30.0  # to open a connection; an answer may take as long as the endpoint's timeout
KEEP_ALIVE_S = 30.0

Body = dict[str, Any]


class Client(Protocol):
    """Asks one server. Used in one event loop, from many tasks at a time."""

    async def ask(self, model: str, request: Request) -> Reply:
        """``model`` is the vendor's own name. Only a cancellation is raised."""
        ...

    async def aclose(self) -> None: ...


def sdk_options(http_client: Any, endpoint: Endpoint, key: str, connections: int) -> dict[str, Any]:
    """For an SDK's async client: over aiohttp, with our time-outs and without the SDK's own retries.

    ``http_client`` is the SDK's own class of HTTP client over aiohttp.
    """
    import httpx2

    timeout = httpx2.Timeout(endpoint.timeout_s, connect=min(CONNECT_S, endpoint.timeout_s))
    limits = httpx2.Limits(
        max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=KEEP_ALIVE_S
    )
    return {
        "api_key": key,
        "base_url": endpoint.base_url,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": http_client(timeout=timeout, limits=limits),
    }


class PostingClient:
    """A client over an SDK's ``post``. ``body`` and ``read`` are pure functions of one protocol."""

    def __init__(
        self,
        sdk: Any,
        path: str,
        body: Callable[[str, Request], Body],
        read: Callable[[str], Reply],
        *,
        key: str,
        timeout_s: float,
    ) -> None:
        import httpx2

        self._sdk = sdk
        self._path = path
        self._body = body
        self._read = read
        self._key = key
        self._timeout_s = timeout_s
        self._answer_type = httpx2.Response

    async def ask(self, model: str, request: Request) -> Reply:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._sdk.post(
                    self._path,
                    cast_to=self._answer_type,
                    body=self._body(model, request),
                    options={"headers": {CALL_ID_HEADER: request.call_id}},
                )
        except Exception as error:
            answer = getattr(error, "response", None)
            if answer is None:
                return finished(reply_to_exception(error, self._key), request, self._key, self._timeout_s)
            reply = reply_to_error(answer.status_code, decode(answer.content, self._key), answer.headers)
        else:
            reply = self._read(decode(answer.content, self._key))
        return finished(reply, request, self._key, self._timeout_s, answer.headers)

    async def aclose(self) -> None:
        await self._sdk.close()


def finished(
    reply: Reply, request: Request, key: str, timeout_s: float, headers: Mapping[str, str] | None = None
) -> Reply:
    """The reply with the vendor's request id, with sizes where sizes are the matter, and without what looks like a key.

    The API key itself is out of it already, but for the request id.
    """
    request_id = header(headers or {}, "x-request-id", "request-id", "X-Request-Id")
    error = reply.error
    if reply.outcome is Outcome.TIMEOUT:
        error = f"no answer within {timeout_s:g} s"
    elif reply.outcome is Outcome.TOO_LONG:
        sent = sum(len(message.text) for message in request.messages)
        error = f"{error} ({sent:,} characters sent, max_output_tokens {request.max_output_tokens:,})"
    pace = pace_of(headers or {}, (reply.raw or "") if reply.outcome is Outcome.RATE_LIMITED else "")
    return replace(
        reply,
        pace=pace,
        error=None if error is None else without_any_key(error),
        request_id=without_key(request_id, key) if request_id else reply.request_id,
    )

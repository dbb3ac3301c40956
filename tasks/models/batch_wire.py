"""What the clients of the Batch APIs share: how JSON is asked for, and how results come out of it line by line.

A part of a line is kept just as it stands there and never written anew, as the body of an online answer is.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tasks.models.batch import BatchFailure, Result
from tasks.models.classify import reply_to_error, reply_to_exception
from tasks.models.envelope import BROKEN, decode, header, load_object, without_any_key, without_key, word
from tasks.models.exchange import Reply
from tasks.models.outcomes import Outcome
from tasks.settings import Endpoint

TRANSFER_S = 3_600.0  # for a whole file of some hundred megabytes, either way
SILENCE_S = 600.0  # without a byte during such a transfer
CONNECTIONS = 8
BROKEN_LINE = "a result that is cut off or not JSON"
CLOCK_SLACK = timedelta(hours=1)  # the vendor's clock is not ours

Json = dict[str, Any]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class SdkWire:
    """Asks one server through an SDK of the make of OpenAI's and Anthropic's. Raises only ``BatchFailure``.

    As in ``client``, the HTTP answer is taken unparsed: the SDK's types drop what they do not know.
    """

    def __init__(self, sdk: Any, key: str, timeout_s: float) -> None:
        import httpx2

        self._sdk = sdk
        self._key = key
        self._timeout_s = timeout_s
        self._answer_type = httpx2.Response

    async def get(self, path: str, **query: Any) -> Json:
        return await self._said(self._sdk.get(path, cast_to=self._answer_type, options={"params": query}))

    async def post(self, path: str, *, seconds: float | None = None, **sent: Any) -> Json:
        """``sent`` is what the SDK's own ``post`` takes: body, content, files, options."""
        return await self._said(self._sdk.post(path, cast_to=self._answer_type, **sent), seconds)

    async def lines(self, url: str) -> AsyncGenerator[str, None]:
        """The lines of a file, without any API key, while they are downloaded."""
        try:
            answer = await self._sdk.get(url, cast_to=self._answer_type, stream=True)
            try:
                async for line in split(answer.aiter_bytes()):
                    yield decode(line, self._key)
            finally:
                await answer.aclose()
        except Exception as error:
            raise await failure(error, self._key, max(SILENCE_S, self._timeout_s)) from None

    async def aclose(self) -> None:
        await self._sdk.close()

    async def _said(self, call: Awaitable[Any], seconds: float | None = None) -> Json:
        seconds = seconds or self._timeout_s
        try:
            async with asyncio.timeout(seconds):
                answer = await call
        except Exception as error:
            raise await failure(error, self._key, seconds) from None
        return said(decode(answer.content, self._key))


def patient(endpoint: Endpoint) -> Endpoint:
    """The endpoint with a time-out for single reads that a large file does not run into."""
    return endpoint.model_copy(update={"timeout_s": max(SILENCE_S, endpoint.timeout_s)})


def said(body: str) -> Json:
    """The JSON object of a successful answer, whose API key is out of it already."""
    value = load_object(body)
    if value is None:
        raise BatchFailure(Reply(Outcome.CONNECTION, raw=body, error=BROKEN))
    return value


async def failure(error: Exception, key: str, seconds: float) -> BatchFailure:
    """The failure that an SDK's exception is; ``seconds`` are those that a time-out waited."""
    answer: Any = getattr(error, "response", None)
    if hasattr(answer, "status_code"):  # httpx2
        reply = reply_to_error(answer.status_code, decode(answer.content, key), answer.headers)
    elif hasattr(answer, "status"):  # aiohttp
        reply = reply_to_error(answer.status, without_key(await answer.text(), key), answer.headers)
    else:
        reply = reply_to_exception(error, key)
        if reply.outcome is Outcome.TIMEOUT:
            reply = replace(reply, error=f"no answer within {seconds:g} s")
        return BatchFailure(safe(reply))
    request_id = header(answer.headers, "x-request-id", "request-id")
    return BatchFailure(safe(replace(reply, request_id=without_key(request_id, key) if request_id else None)))


def id_of(value: Json, name: str = "id") -> str:
    """The id of what was created, found or listed."""
    found = word(value.get(name))
    if found is None:
        raise BatchFailure(Reply(Outcome.CONNECTION, error=f"an answer without {name}"))
    return found


def read_result(line: str, id_in: Callable[[Json], str | None], reply_in: Callable[[str, Json], Reply]) -> Result:
    """The result in a line, which holds no key any more. ``reply_in`` gets the line and its JSON."""
    value = load_object(line)
    if value is None:
        return Result(None, Reply(Outcome.CONNECTION, raw=line, error=BROKEN_LINE), line)
    try:
        reply = reply_in(line, value)
    except ValueError:  # nested too deeply to be taken apart
        reply = Reply(Outcome.CONNECTION, raw=line, error=BROKEN_LINE)
    return Result(id_in(value), safe(reply), line)


def safe(reply: Reply) -> Reply:
    """The reply, whose API key is out of it already, without what looks like a key in its error."""
    return replace(reply, error=None if reply.error is None else without_any_key(reply.error))


def encoded(make: Callable[[], Json], *, ascii: bool = False) -> bytes:
    """What ``make`` gives as the SDKs post it: JSON, in UTF-8. What cannot be made or said so is rejected."""
    try:
        return json.dumps(make(), ensure_ascii=ascii, separators=(",", ":"), allow_nan=False).encode()
    except Exception as error:
        raise BatchFailure(safe(reply_to_exception(error))) from None


async def split(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    r"""The lines that are not blank, each ended by ``\n`` alone: a text may hold U+2028."""
    pieces: list[bytes] = []
    async for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        pieces.append(first)
        for piece in rest:
            if line := b"".join(pieces).strip():
                yield line
            pieces = [piece]
    if line := b"".join(pieces).strip():
        yield line


def raw_part(text: str, *path: str) -> str | None:
    """``value[path[0]][path[1]]...`` just as it stands in a JSON text; None where it is not there.

    Raises ``ValueError`` where the text up to its end is not JSON, or nested too deeply.
    """
    at = _past_space(text, 0)
    for name in path:
        at = next((start for key, start in _members(text, at) if key == name), -1)
        if at < 0:
            return None
    return text[at : _end(text, at)]


def raw_items(text: str) -> Iterator[str]:
    """The items of a JSON list, each just as it stands there; none where the text is no list."""
    at = _past_space(text, 0)
    separator = "["
    while text[at : at + 1] == separator:
        at = _past_space(text, at + 1)
        if text[at : at + 1] == "]":
            return
        end = _end(text, at)
        yield text[at:end]
        at = _past_space(text, end)
        separator = ","


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The members of the object that begins at ``at``: name, and where the value begins. None where it is no object."""
    separator = "{"
    while text[at : at + 1] == separator:
        at = _past_space(text, at + 1)
        if text[at : at + 1] == "}":
            return
        name, at = _DECODER.raw_decode(text, at)
        at = _past_space(text, _past_space(text, at) + 1)  # the colon
        yield name, at
        at = _past_space(text, _end(text, at))
        separator = ","


def _end(text: str, at: int) -> int:
    """Where the value that begins at ``at`` ends."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at

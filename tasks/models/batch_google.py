"""Gemini's Batch API: requests in the creation itself, or in a file, and answers in the batch itself, or in a file.

One line in:   {"key": "...", "request": {...}}; in the creation {"metadata": {"key": "..."}, "request": {...}}
One line out:  {"key": "...", "response": {...}} or {"key": "...", "error": {"code": 8, "message": "..."}}; in the
               batch itself with the key in "metadata", as it was sent
The codes of errors are gRPC's, or HTTP's. The order of results says nothing.

The SDK's typed calls drop what they do not know, the error of a failed batch among it, and fail on an error with
details. So JSON goes through the SDK's request method below them, and files through its own calls.
"""

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from tasks.models import google
from tasks.models.batch import BatchClient, BatchFailure, BatchLimits, Looked, Result
from tasks.models.batch_wire import (
    CONNECTIONS,
    TRANSFER_S,
    Json,
    encoded,
    failure,
    id_of,
    patient,
    raw_items,
    raw_part,
    read_result,
    safe,
    said,
)
from tasks.models.classify import reply_to_error
from tasks.models.envelope import decode, dig, objects, string, without_key, word
from tasks.models.exchange import Reply, Request
from tasks.models.outcomes import Outcome
from tasks.settings import Endpoint

# A creation may have 20 MB, but is written at once, and all its results come with every look: files are better soon.
INLINE_BYTES = 800_000
WRITTEN_BYTES = 1 << 16
PAGE = 20  # a batch in a list may hold its results

_ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"}
# gRPC's codes as HTTP's.
_STATUS = {
    1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500,
    14: 503, 15: 500, 16: 401,
}  # fmt: skip
_CANCELLED = 499


def connect_batches(endpoint: Endpoint, key: str) -> BatchClient:
    """A client of batchGenerateContent. Call it in the event loop that will use it."""
    return GoogleBatches(endpoint, key)


class GoogleBatches:
    limits = BatchLimits(items=10_000, bytes=100_000_000)  # a file may have 2 GB, but keys were mixed up above 10,000

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._key = key
        self._timeout_s = endpoint.timeout_s
        self._sdk, self._session = google.sdk(patient(endpoint), key, CONNECTIONS)

    def item(self, model: str, custom_id: str, request: Request) -> bytes:
        """In ASCII, as the SDK writes JSON."""
        return encoded(lambda: {"key": custom_id, "request": google.body(self._sdk, model, request)}, ascii=True)

    async def create(self, submission: str, model: str, items: Sequence[bytes]) -> str:
        name = f"criticgen-{submission}"
        source: Json
        if sum(map(len, items)) < INLINE_BYTES:
            source = {"requests": {"requests": [_inlined(json.loads(item)) for item in items]}}
        else:
            source = {"fileName": await self._upload(name, items)}
        path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        batch = {"batch": {"displayName": name, "inputConfig": source}}
        return id_of(said(await self._ask("post", f"{path}:batchGenerateContent", batch, TRANSFER_S)), "name")

    async def find(
        self, submission: str, items: int, since: datetime, *, others: Collection[str] = frozenset()
    ) -> str | None:
        """In all pages, since the API promises no order."""
        query: dict[str, Any] = {"pageSize": PAGE}
        while True:
            page = said(await self._ask("get", f"batches?{urlencode(query)}"))
            for batch in objects(page.get("operations")):
                if dig(batch, "metadata", "displayName") == f"criticgen-{submission}":
                    return id_of(batch, "name")
            token = string(page.get("nextPageToken"))
            if not token or token == query.get("pageToken"):
                return None
            query["pageToken"] = token

    async def look(self, batch: str) -> Looked:
        body = await self._ask("get", batch)
        job = said(body)
        status = word(dig(job, "metadata", "state")) or ""
        kind = status.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        error = None
        if kind == "FAILED" and _output(job) is None:
            error = safe(_failed(raw_part(body, "error"), job.get("error")))
        return Looked(kind in _ENDED, status, error)

    async def results(self, batch: str) -> AsyncGenerator[Result, None]:
        body = await self._ask("get", batch, seconds=TRANSFER_S)
        job = said(body)
        output = _output(job)
        if output is None:
            return
        if file := word(dig(job, *output, "responsesFile")):
            async with aclosing(self._download(file)) as lines:
                async for line in lines:
                    yield read_line(line)
                    await asyncio.sleep(0)  # there is nothing to wait for, but others have their turn
        for line in self._inlined_in(body, *output):
            yield read_line(line)
            await asyncio.sleep(0)

    async def cancel(self, batch: str) -> None:
        try:
            await self._ask("post", f"{batch}:cancel")
        except BatchFailure:
            if not (await self.look(batch)).ended:
                raise

    async def aclose(self) -> None:
        await self._sdk.aio.aclose()
        self._sdk.close()
        await self._session.close()

    async def _ask(self, method: str, path: str, body: Json | None = None, seconds: float | None = None) -> str:
        """The body of the answer, without the API key."""
        seconds = seconds or self._timeout_s
        try:
            async with asyncio.timeout(seconds):
                answer = await self._sdk._api_client.async_request(method, path, body or {}, None)
        except Exception as error:
            raise await failure(error, self._key, seconds) from None
        return without_key(answer.body or "", self._key)

    def _inlined_in(self, body: str, *output: str) -> list[str]:
        try:
            inlined = raw_part(body, *output, "inlinedResponses", "inlinedResponses")
            return list(raw_items(inlined or ""))
        except ValueError as error:
            raise BatchFailure(Reply(Outcome.CONNECTION, error=f"the results cannot be read: {error}")) from None

    async def _upload(self, name: str, items: Sequence[bytes]) -> str:
        """The name of an uploaded file of these lines. The SDK sends it in pieces."""
        lines = _Lines(b"\n".join(items) + b"\n")
        try:
            async with asyncio.timeout(TRANSFER_S):
                file = await self._sdk.aio.files.upload(
                    file=lines, config={"display_name": name, "mime_type": "application/jsonl"}
                )
        except (KeyError, ValueError) as error:  # an answer that is none: the SDK looks for its parts and fails
            raise BatchFailure(Reply(Outcome.SERVER, error=f"the file was not taken: {type(error).__name__}")) from None
        except Exception as error:
            raise await failure(error, self._key, TRANSFER_S) from None
        return id_of({"name": file.name}, "name")

    async def _download(self, file: str) -> AsyncGenerator[str, None]:
        with tempfile.TemporaryFile() as lines:
            try:
                async with asyncio.timeout(TRANSFER_S):
                    config = {"http_options": {"timeout": int(1000 * TRANSFER_S)}}
                    await self._sdk.aio.files.download(file=file, destination=lines, config=config)
            except Exception as error:
                failed = await failure(error, self._key, TRANSFER_S)
                if failed.reply.outcome is Outcome.AUTH and "may not exist" in (failed.reply.error or ""):
                    failed = BatchFailure(replace(failed.reply, outcome=Outcome.REJECTED))  # a file that is gone
                raise failed from None
            lines.seek(0)
            for line in lines:
                if line := line.strip():
                    yield decode(line, self._key)


class _Lines(io.BytesIO):
    """A file for the SDK, which sends each of its reads of 8 MB as one body."""

    def read(self, size: int | None = -1) -> Any:
        return _Piece(super().read(size))


class _Piece:
    """Bytes that aiohttp writes little by little."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._content), WRITTEN_BYTES):
            yield self._content[at : at + WRITTEN_BYTES]


def read_line(line: str) -> Result:
    """The result that a line of a file holds, or an item of those in the batch itself."""
    return read_result(line, _key_of, _reply)


def _key_of(value: Json) -> str | None:
    return word(value.get("key")) or word(dig(value, "metadata", "key"))


def _reply(line: str, value: Json) -> Reply:
    if value.get("response"):
        return google.read(raw_part(line, "response") or "")
    if value.get("error"):
        return _failed(raw_part(line, "error"), value["error"])
    return Reply(Outcome.CONNECTION, raw=line, error="a result without a response and without an error")


def _failed(raw: str | None, error: Any) -> Reply:
    """The reply for an error of gRPC or HTTP, of an item or of the whole batch."""
    if not error or raw is None:
        return Reply(Outcome.SERVER, error="the batch failed and does not say why")
    code = dig(error, "code")
    status = _STATUS.get(code, code if code >= 400 else None) if isinstance(code, int) else None
    reply = reply_to_error(status, raw)
    return replace(reply, outcome=Outcome.CANCELLED) if status == _CANCELLED else reply


def _output(job: Json) -> tuple[str, ...] | None:
    """Where the batch has its results: it may say the same in two places."""
    for path in (("metadata", "output"), ("response",)):
        if dig(job, *path, "responsesFile") or dig(job, *path, "inlinedResponses"):
            return path
    return None


def _inlined(item: Json) -> Json:
    return {"request": item["request"], "metadata": {"key": item["key"]}}

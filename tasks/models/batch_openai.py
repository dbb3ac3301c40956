"""OpenAI's Batch API, for the Responses API and for Chat Completions: a file of requests in, two of answers out.

One line in:   {"custom_id": "...", "method": "POST", "url": "/v1/responses", "body": {...}}
One line out:  {"custom_id": "...", "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}
What failed is in a file of its own, as is what never ran: "response": null, "error": {"code": "batch_expired", ...}.
Any ended batch may have either file, both or none.
"""

import json
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from tasks.models import openai, openai_chat
from tasks.models.batch import BatchClient, BatchFailure, BatchLimits, Looked, Result
from tasks.models.batch_wire import (
    CLOCK_SLACK,
    CONNECTIONS,
    TRANSFER_S,
    Json,
    SdkWire,
    encoded,
    id_of,
    patient,
    raw_part,
    read_result,
    safe,
)
from tasks.models.classify import Said, reply_to_error
from tasks.models.client import Body
from tasks.models.envelope import dig, objects, string, word
from tasks.models.exchange import Reply, Request
from tasks.models.outcomes import Outcome
from tasks.settings import Endpoint

_ENDED = {"completed", "failed", "expired", "cancelled"}
_NEVER_RAN = {"batch_expired": Outcome.EXPIRED, "batch_cancelled": Outcome.CANCELLED}
_ENQUEUED_LIMIT = "token_limit_exceeded"  # tokens of all batches that wait: there is room again when some have ended


def connect_batches(endpoint: Endpoint, key: str) -> BatchClient:
    """A client of the Batch API for the endpoint's api. Call it in the event loop that will use it."""
    return OpenAIBatches(endpoint, key)


class OpenAIBatches:
    limits = BatchLimits(items=50_000, bytes=195_000_000)  # of 200 MB

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._wire = SdkWire(openai.sdk(patient(endpoint), key, CONNECTIONS), key, endpoint.timeout_s)
        self._url: str
        self._body: Callable[[str, Request], Body]
        self._read: Callable[[str], Reply]
        if endpoint.api == "openai-chat":
            self._url, self._read = "/v1/chat/completions", openai_chat.read
            self._body = partial(openai_chat.body, of_openai=openai_chat.is_openai(endpoint))
        else:
            self._url, self._body, self._read = "/v1/responses", openai.body, openai.read

    def item(self, model: str, custom_id: str, request: Request) -> bytes:
        return encoded(
            lambda: {"custom_id": custom_id, "method": "POST", "url": self._url, "body": self._body(model, request)}
        )

    async def create(self, submission: str, model: str, items: Sequence[bytes]) -> str:
        lines = b"\n".join(items) + b"\n"
        file = await self._wire.post(
            "/files",
            seconds=TRANSFER_S,
            body={"purpose": "batch"},
            files={"file": (f"criticgen-{submission}.jsonl", lines, "application/jsonl")},
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )
        batch = await self._wire.post(
            "/batches",
            body={
                "input_file_id": id_of(file),
                "endpoint": self._url,
                "completion_window": "24h",
                "metadata": {"criticgen": submission},
            },
        )
        return id_of(batch)

    async def find(
        self, submission: str, items: int, since: datetime, *, others: Collection[str] = frozenset()
    ) -> str | None:
        earliest = (since - CLOCK_SLACK).timestamp()
        query: dict[str, Any] = {"limit": 100}
        while True:
            page = await self._wire.get("/batches", **query)
            batches = objects(page.get("data"))
            for batch in batches:
                if dig(batch, "metadata", "criticgen") == submission:
                    return id_of(batch)
            last = batches[-1] if batches else {}
            made = last.get("created_at")
            if not page.get("has_more") or not last or (isinstance(made, int | float) and made < earliest):
                return None
            query["after"] = id_of(last)

    async def look(self, batch: str) -> Looked:
        job = await self._wire.get(f"/batches/{batch}")
        status = word(job.get("status")) or ""
        error = None
        if status == "failed" and not _files(job):
            error = safe(_why(job))
        return Looked(status in _ENDED, status, error)

    async def results(self, batch: str) -> AsyncGenerator[Result, None]:
        job = await self._wire.get(f"/batches/{batch}")
        for file in _files(job):
            async with aclosing(self._wire.lines(f"/files/{file}/content")) as lines:
                async for line in lines:
                    yield read_line(line, self._read)

    async def cancel(self, batch: str) -> None:
        try:
            await self._wire.post(f"/batches/{batch}/cancel")
        except BatchFailure:
            if not (await self.look(batch)).ended:
                raise

    async def aclose(self) -> None:
        await self._wire.aclose()


def read_line(line: str, read: Callable[[str], Reply]) -> Result:
    """The result that a line of either file holds. ``read`` reads the body of an answer."""
    return read_result(line, lambda value: word(value.get("custom_id")), partial(_reply, read))


def _reply(read: Callable[[str], Reply], line: str, value: Json) -> Reply:
    body = raw_part(line, "response", "body")
    if body is not None:
        status = dig(value, "response", "status_code")
        failed = str(status).isdecimal() and int(status) >= 300
        reply = reply_to_error(int(status), body) if failed else read(body)
        return replace(reply, request_id=word(dig(value, "response", "request_id")) or reply.request_id)
    error = raw_part(line, "error")
    if error is None or not value.get("error"):
        return Reply(Outcome.CONNECTION, raw=line, error="a result without a response and without an error")
    reply = reply_to_error(None, error)
    code = string(dig(value, "error", "code"))
    if code in _NEVER_RAN:
        return replace(reply, outcome=_NEVER_RAN[code], error=f"{code}: {Said.of(error).message}")
    return reply


def _files(job: Json) -> list[str]:
    return [file for name in ("output_file_id", "error_file_id") if (file := word(job.get(name)))]


def _why(job: Json) -> Reply:
    """Why the batch failed, by the first of its errors."""
    errors = objects(dig(job, "errors", "data"))
    if not errors:
        return Reply(Outcome.SERVER, raw=json.dumps(job), error="the batch failed and does not say why")
    raw = json.dumps(errors[0])
    status = 429 if errors[0].get("code") == _ENQUEUED_LIMIT else Said.of(raw).status or 400
    reply = reply_to_error(status, raw)
    more = f" (line {errors[0]['line']})" if isinstance(errors[0].get("line"), int) else ""
    more += f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
    return replace(reply, error=f"{reply.error}{more}")

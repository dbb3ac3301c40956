"""Anthropic's Message Batches: requests in, a file of answers out.

One request:     {"custom_id": "...", "params": {...}}
One line out:    {"custom_id": "...", "result": {"type": "succeeded", "message": {...}}}
or, of a result: {"type": "errored", "error": {"type": "error", "error": {"type": ..., "message": ...}}},
                 {"type": "canceled"}, {"type": "expired"}
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tasks.models import anthropic
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
)
from tasks.models.classify import reply_to_error
from tasks.models.envelope import dig, objects, string, word
from tasks.models.exchange import Reply, Request
from tasks.models.outcomes import Outcome
from tasks.settings import Endpoint

TELLING_LINES = 20  # of a batch's results, of which one at least has an id of its own submission

_BATCHES = "/v1/messages/batches"
_NEVER_RAN = {"expired": Outcome.EXPIRED, "canceled": Outcome.CANCELLED}


def connect_batches(endpoint: Endpoint, key: str) -> BatchClient:
    """A client of the Message Batches API. Call it in the event loop that will use it."""
    return AnthropicBatches(endpoint, key)


class AnthropicBatches:
    limits = BatchLimits(items=100_000, bytes=250_000_000)  # of 256 MB

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._wire = SdkWire(anthropic.sdk(patient(endpoint), key, CONNECTIONS), key, endpoint.timeout_s)

    def item(self, model: str, custom_id: str, request: Request) -> bytes:
        return encoded(lambda: {"custom_id": custom_id, "params": anthropic.body(model, request)})

    async def create(self, submission: str, model: str, items: Sequence[bytes]) -> str:
        pieces = [b'{"requests":[', items[0], *(piece for item in items[1:] for piece in (b",", item)), b"]}"]
        length = {"Content-Length": str(sum(map(len, pieces)))}
        answer = await self._wire.post(
            _BATCHES, seconds=TRANSFER_S, content=_one_by_one(pieces), options={"headers": length}
        )
        return id_of(answer)

    async def find(
        self, submission: str, items: int, since: datetime, *, others: Collection[str] = frozenset()
    ) -> str | None:
        """As the API keeps no name: among the batches of that time and size, the one whose results are ours."""
        undecided = 0
        async for batch in self._since(since - CLOCK_SLACK):
            name = id_of(batch)
            if name in others or _requests(batch) != items:
                continue
            if batch.get("processing_status") != "ended":
                undecided += 1
            elif batch.get("results_url") and await self._is_of(name, submission):
                return name
        if undecided:
            error = f"cannot be told yet: {undecided:,} batches of {items:,} requests still run, and none has a name"
            raise BatchFailure(Reply(Outcome.SERVER, error=error))
        return None

    async def look(self, batch: str) -> Looked:
        job = await self._wire.get(f"{_BATCHES}/{batch}")
        status = word(job.get("processing_status")) or ""
        return Looked(status == "ended", status)

    async def results(self, batch: str) -> AsyncGenerator[Result, None]:
        job = await self._wire.get(f"{_BATCHES}/{batch}")
        url = string(job.get("results_url"))
        if not url:
            raise BatchFailure(Reply(Outcome.REJECTED, error=f"the vendor has no results of batch {batch} (any more)"))
        async with aclosing(self._wire.lines(url)) as lines:
            async for line in lines:
                yield read_line(line)

    async def cancel(self, batch: str) -> None:
        try:
            await self._wire.post(f"{_BATCHES}/{batch}/cancel")
        except BatchFailure:
            if not (await self.look(batch)).ended:
                raise

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def _since(self, earliest: datetime) -> AsyncIterator[Json]:
        """The batches created since then, newest first."""
        query: dict[str, Any] = {"limit": 100}
        while True:
            page = await self._wire.get(_BATCHES, **query)
            batches = objects(page.get("data"))
            for batch in batches:
                made = _moment(batch.get("created_at"))
                if made is not None and made < earliest:
                    return
                yield batch
            if not page.get("has_more") or not batches:
                return
            query["after_id"] = id_of(batches[-1])

    async def _is_of(self, batch: str, submission: str) -> bool:
        seen = 0
        async with aclosing(self.results(batch)) as results:
            async for result in results:
                if (result.custom_id or "").endswith(f"-{submission}"):
                    return True
                seen += 1
                if seen == TELLING_LINES:
                    break
        return False


async def _one_by_one(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    """So that a body of hundreds of megabytes is neither copied nor written at once."""
    for piece in pieces:
        yield piece


def read_line(line: str) -> Result:
    """The result that a line holds."""
    return read_result(line, lambda value: word(value.get("custom_id")), _reply)


def _reply(line: str, value: Json) -> Reply:
    kind = string(dig(value, "result", "type"))
    message = raw_part(line, "result", "message")
    if kind == "succeeded" and message is not None:
        return anthropic.read(message)
    error = raw_part(line, "result", "error")
    if kind == "errored" and error is not None:
        request_id = word(dig(value, "result", "error", "request_id"))
        return replace(reply_to_error(None, error), request_id=request_id)
    raw = raw_part(line, "result") or line
    if kind in _NEVER_RAN:
        return Reply(_NEVER_RAN[kind], raw=raw, error=f"{kind}: the batch ended before this request ran")
    return Reply(Outcome.SERVER, raw=raw, error=f"a result of the type {kind}")


def _requests(batch: Json) -> int:
    """How many requests the batch has, whatever became of them."""
    counts = batch.get("request_counts")
    numbers = counts.values() if isinstance(counts, dict) else ()
    return sum(int(number) for number in numbers if str(number).isdecimal())


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

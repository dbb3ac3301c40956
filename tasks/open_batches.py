"""Which vendor batches are open, which calls are in them, and who waits for those calls' answers."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from storage.ledger import Record
from storage.vendor_batches import VendorBatch


class OpenBatches:
    """The open vendor batches of one run by their submissions, and the calls that wait for them; in memory alone."""

    def __init__(self) -> None:
        self.given_up: dict[str, Exception] = {}  # open batches that this run could not look at, and why
        self._batches: dict[str, VendorBatch] = {}
        self._in_batch: dict[str, str] = {}  # a call's id, and the open batch that it is in
        self._waiting: dict[str, asyncio.Future[Record | None]] = {}
        self._early: dict[str, Record] = {}  # what came for calls that were not asked yet
        self._parts: Counter[str] = Counter()  # annotation batches, by their calls in open vendor batches
        self._changed = asyncio.Event()

    def all(self) -> list[VendorBatch]:
        return list(self._batches.values())

    def of_model(self, name: str) -> list[VendorBatch]:
        return [batch for batch in self._batches.values() if batch.model == name]

    def calls_of(self, annotation_batch: str) -> int:
        """Calls of an annotation batch in open vendor batches."""
        return self._parts[annotation_batch]

    def has(self, call_id: str) -> bool:
        return call_id in self._in_batch

    def holds(self, call_id: str) -> bool:
        """Whether the call is in a vendor batch, or was until now: it must not be asked in another way."""
        return call_id in self._in_batch or call_id in self._early

    def error_of(self, call_id: str) -> Exception | None:
        """Why the call's batch could not be looked at."""
        return self.given_up.get(self._in_batch.get(call_id, ""))

    # Batches come and go

    def take_up(self, batch: VendorBatch, calls: Iterable[Record]) -> None:
        self._batches[batch.submission] = batch
        for call in calls:
            self._in_batch[call["call_id"]] = batch.submission
            self._parts[call["batch"]] += 1

    def let_go(self, batch: VendorBatch, calls: Iterable[Record]) -> None:
        self._batches.pop(batch.submission, None)
        for call in calls:
            self._in_batch.pop(call["call_id"], None)
            self._parts[call["batch"]] -= 1
        self._changed.set()

    def give_up(self, batch: VendorBatch, error: Exception) -> None:
        """The batch stays as it is, for another run; the calls that wait for it are left."""
        self.given_up[batch.submission] = error
        self._changed.set()
        self.end([call for call, submission in self._in_batch.items() if submission == batch.submission], error)

    async def change(self) -> None:
        """Wait until a batch has ended."""
        self._changed.clear()
        await self._changed.wait()

    # What the calls that wait are told

    def wait_for(self, call_id: str) -> "asyncio.Future[Record | None]":
        answered: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = answered
        return answered

    def take_early(self, call_id: str) -> Record | None:
        """What came for a call before it was asked."""
        return self._early.pop(call_id, None)

    def forget_early(self) -> None:
        self._early.clear()

    def answer(self, call_id: str, record: Record | None) -> None:
        self._in_batch.pop(call_id, None)
        waiting = self._waiting.pop(call_id, None)
        if waiting is None and record is not None:
            self._early[call_id] = {name: value for name, value in record.items() if name != "raw"}
        elif waiting is not None and not waiting.done():
            waiting.set_result(record)

    def end(self, call_ids: Sequence[str], error: Exception) -> None:
        for call_id in call_ids:
            waiting = self._waiting.pop(call_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)

    def leave(self, call_ids: Iterable[str]) -> None:
        """Let these calls be: the run does not wait for their batches."""
        for call_id in call_ids:
            waiting = self._waiting.pop(call_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

"""The vendors' Batch APIs as a second way to ask: submit, poll, collect, reconcile.

Calls that come together go out together, split at the vendor's limits. A batch is on disk before it is created and its
id before its answers are awaited; a restart finds it and never submits its calls again. Results are joined by
custom id only, and every item ends in a class: what has no result is ``missing``; unknown and second results are kept
beside the batch. Where a vendor has not seen a schema in this workspace, a few calls go first.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import polars as pl

from storage.ids import content_id
from storage.ledger import Ledger, Record
from storage.vendor_batches import (
    COLLECTED,
    CREATING,
    RUNNING,
    VOID,
    VendorBatch,
    load_batches,
    load_calls,
    save as save_state,
    save_calls,
    save_strays,
)
from storage.workspace import now
from tasks.budget import Budget
from tasks.calls import Requeued
from tasks.models import Outcome, Reply, Request, Unsent
from tasks.models.batch import BatchClient, BatchFailure
from tasks.models.outcomes import REMEDIES, UNANSWERED
from tasks.models.pool import CHARACTERS_PER_TOKEN, batch_client
from tasks.models.prices import Prices, prices_of
from tasks.open_batches import OpenBatches
from tasks.settings import Asking, Model

QUIET_S = 0.5  # a batch goes out when so long no call has come that could go with it
CANARY = 5  # calls that go first where the vendor has not seen their schema
_AT_ONCE = 500  # results that are written to the ledger together
_ANY_CLOCK = timedelta(days=7)  # so far ours may have been ahead when a batch was created
_NOT_FOUND = "not found"  # in place of the vendor's word: at the first look it may still be making the batch

Keep = Callable[[Record, Reply], Awaitable[Record]]


@dataclass(frozen=True)
class _Item:
    model: Model
    request: Request
    record: Record
    most_usd: float
    tokens: int


class Desk:
    """The vendor batches of one run, a context. Without ``wait`` it looks once at each, and no call waits for one."""

    def __init__(self, config: Asking, ledger: Ledger, root: Path, budget: Budget, keep: Keep, *, wait: bool) -> None:
        self._config = config
        self._ledger = ledger
        self._root = root
        self._budget = budget
        self._keep = keep
        self._wait = wait
        self._prices = {model.name: prices_of(config, model) for model in config.models}
        self._clients: dict[str, BatchClient] = {}
        self._open = OpenBatches()
        self._known: set[str] = set()  # the vendors' ids of this workspace's batches
        self._queues: dict[tuple[str, str | None], deque[_Item]] = defaultdict(deque)
        self._sending: set[tuple[str, str | None]] = set()
        self._seen: set[tuple[str, str | None]] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._room: dict[str, int] = {}  # by model, tokens of running batches, where a vendor had no room for more
        self.stopped: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        for batch in await asyncio.to_thread(load_batches, self._root):
            if batch.vendor_batch:
                self._known.add(batch.vendor_batch)
            if batch.open:
                self._open.take_up(batch, await asyncio.to_thread(load_calls, self._root, batch))
                self._budget.restore(batch.most_usd)
            elif batch.counts.get(Outcome.OK):
                self._seen.add(self._schema_key(batch))
        followed = [self._start(self._follow(batch)) for batch in self._open.all()]
        if not self._wait and followed:
            await asyncio.wait(followed)
            self._open.forget_early()  # who asks from now on has read the ledger after them
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()

    async def ask(self, model: Model, request: Request, record: Record) -> Record | None:
        """The call's ledger record, written. None where this run does not wait for its batch.

        Raises ``Unsent`` where the call cannot go out, ``Requeued`` where its batch was not taken.
        """
        call_id = record["call_id"]
        early = self._open.take_early(call_id)
        if early is not None and early["attempt"] == record["attempt"]:
            return early  # it came after the ledger was read for this call
        if model.name in self.stopped:
            raise Unsent(self.stopped[model.name])
        if self._open.has(call_id) and not self._wait:
            return None
        if (error := self._open.error_of(call_id)) is not None:
            raise error
        answered = self._open.wait_for(call_id)
        if not self._open.has(call_id):
            most_usd = self._prices[model.name].most_usd(request, batch=True) or 0.0
            tokens = sum(len(message.text) for message in request.messages) // CHARACTERS_PER_TOKEN
            schema = None if request.schema is None else content_id(request.schema)
            queue = self._queues[model.name, schema]
            queue.append(_Item(model, request, record, most_usd, tokens))
            if (model.name, schema) not in self._sending:
                self._sending.add((model.name, schema))
                self._start(self._send(model, schema, queue))
        return await answered

    def holds(self, call_id: str) -> bool:
        """Whether the call is in a vendor batch, or was until now: it must not be asked in another way."""
        return self._open.holds(call_id)

    def left_open(self, batch: str) -> int:
        """Calls of an annotation batch in vendor batches that this run does not wait for."""
        return 0 if self._wait else self._open.calls_of(batch)

    # Submit

    async def _send(self, model: Model, schema: str | None, queue: deque[_Item]) -> None:
        """Send out a queue's calls, until there are none."""
        try:
            while queue:
                waiting = 0
                while len(queue) > waiting:
                    waiting = len(queue)
                    await asyncio.sleep(QUIET_S)
                if not await self._may_send(model, schema, queue):
                    continue
                first = schema is not None and (model.endpoint, schema) not in self._seen
                batch = await self._submit(model, schema, queue, canary=first)
                if batch is not None and batch.canary:
                    await self._canary_ended(batch, queue)
        except Exception as error:
            self._open.end([item.record["call_id"] for item in queue], error)
            queue.clear()
        finally:
            self._sending.discard((model.name, schema))

    async def _may_send(self, model: Model, schema: str | None, queue: deque[_Item]) -> bool:
        """Whether a batch can go out now; if not, wait for what has to end first, or let the calls be."""
        if model.name in self.stopped:
            raise Unsent(self.stopped[model.name])
        running = self._open.of_model(model.name)
        full = running and sum(batch.tokens for batch in running) + queue[0].tokens > self._tokens_of(model)
        new = schema is not None and (model.endpoint, schema) not in self._seen
        canaries = [batch for batch in self._open.all() if batch.canary]
        ahead = [batch for batch in canaries if new and self._schema_key(batch) == (model.endpoint, schema)]
        before = ahead or (running if full else [])
        if not before:
            return True
        if not self._wait:
            self._leave(queue)
        elif all(batch.submission in self._open.given_up for batch in before):
            raise self._open.given_up[before[0].submission]
        else:
            await self._open.change()
        return False

    async def _submit(
        self, model: Model, schema: str | None, queue: deque[_Item], *, canary: bool
    ) -> VendorBatch | None:
        """Create a batch of the first calls of a queue. None when none of them could go."""
        client = self._client(model)
        submission = uuid4().hex[:12]
        items, lines = await self._fitting(client, model, submission, queue, CANARY if canary else client.limits.items)
        if not items:
            return None
        batch = VendorBatch(
            submission,
            model.name,
            schema,
            len(items),
            sum(item.tokens for item in items),
            sum(item.most_usd for item in items),
            canary,
        )
        try:
            return await self._create(batch, model, client, items, lines)
        except Exception as error:
            self._open.end([item.record["call_id"] for item in items], error)
            raise

    async def _create(
        self, batch: VendorBatch, model: Model, client: BatchClient, items: list[_Item], lines: list[bytes]
    ) -> VendorBatch | None:
        calls = [item.record | {"most_usd": item.most_usd} for item in items]
        await asyncio.to_thread(save_calls, self._root, batch.submission, calls)
        await asyncio.to_thread(save_state, self._root, batch)
        self._open.take_up(batch, calls)
        try:
            batch.vendor_batch = await client.create(batch.submission, model.bare, lines)
        except BatchFailure as failure:
            if failure.reply.outcome not in UNANSWERED:
                await self._void(batch, Unsent(self._refused(model, failure.reply)))
                return None
            if failure.reply.outcome is Outcome.RATE_LIMITED:
                await self._put_off(batch, failure.reply)
                return None
            # There may be a batch all the same: look for it before anything is sent again.
        else:
            await self._created(batch)
        if self._wait:
            self._start(self._follow(batch))
        else:
            self._leave(items)
        return batch

    async def _fitting(
        self, client: BatchClient, model: Model, submission: str, queue: deque[_Item], most: int
    ) -> tuple[list[_Item], list[bytes]]:
        """Take the first calls off a queue, as many as one batch, the limits and the budget have room for."""
        items: list[_Item] = []
        lines: list[bytes] = []
        size = 0
        tokens = sum(batch.tokens for batch in self._open.of_model(model.name))
        limit = self._tokens_of(model)
        while queue and len(items) < most:
            item = queue[0]
            call_id = item.record["call_id"]
            try:
                line = client.item(model.bare, f"{call_id}-{submission}", item.request)
            except BatchFailure as failure:
                queue.popleft()
                self._open.answer(call_id, await self._keep(item.record, failure.reply))
                continue
            tokens += item.tokens
            if items and (size + len(line) > client.limits.bytes or tokens > limit):
                break
            try:
                self._budget.commit(item.most_usd)
            except Unsent as unsent:
                if items:
                    break
                queue.popleft()
                self._open.end([call_id], unsent)
                continue
            items.append(queue.popleft())
            lines.append(line)
            size += len(line)
            if len(items) % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return items, lines

    async def _canary_ended(self, batch: VendorBatch, queue: deque[_Item]) -> None:
        if not self._wait:
            self._leave(queue)
            return
        while batch.open and batch.submission not in self._open.given_up:
            await self._open.change()
        if not batch.counts.get(Outcome.OK) and batch.state == COLLECTED:
            counts = ", ".join(f"{outcome} {number}" for outcome, number in batch.counts.items())
            raise Unsent(f"none of the {batch.items} calls that were sent ahead in a vendor batch was ok ({counts})")

    # Poll

    async def _follow(self, batch: VendorBatch) -> None:
        """Look at a batch until it has ended and is collected; once, where the run does not wait."""
        model = Model(name=batch.model)
        failing_since: float | None = None
        clock = asyncio.get_running_loop().time
        while batch.open:
            try:
                await self._look(batch, self._client(model))
                failing_since = None
            except BatchFailure as failure:
                outcome = failure.reply.outcome
                failing_since = clock() if failing_since is None else failing_since
                stalled = clock() - failing_since > self._config.limits_of(model.name).stall_limit_s
                if outcome not in UNANSWERED or stalled:
                    self._open.give_up(
                        batch, Unsent(f"vendor batch {batch.vendor_batch}: {outcome} ({failure.reply.error})")
                    )
                    return
            except Exception as error:
                self._open.give_up(batch, error)
                return
            if not self._wait:
                return
            if batch.open:
                await asyncio.sleep(self._config.batch_poll_s)

    async def _look(self, batch: VendorBatch, client: BatchClient) -> None:
        if batch.state == CREATING:
            since = min(datetime.fromisoformat(batch.created_at), datetime.now(UTC)) - _ANY_CLOCK
            batch.vendor_batch = await client.find(batch.submission, batch.items, since, others=self._known)
            if batch.vendor_batch is None:
                if batch.status == _NOT_FOUND:
                    await self._void(batch, Requeued())
                else:
                    batch.status, batch.looked_at = _NOT_FOUND, now()
                    await asyncio.to_thread(save_state, self._root, batch)
                return
            await self._created(batch)
        assert batch.vendor_batch is not None
        looked = await client.look(batch.vendor_batch)
        batch.status, batch.looked_at = looked.status, now()
        if looked.error is not None and looked.error.outcome is Outcome.RATE_LIMITED:
            await self._put_off(batch, looked.error)
        elif looked.ended:
            await self._collect(batch, client, looked.error)
        else:
            await asyncio.to_thread(save_state, self._root, batch)

    async def _created(self, batch: VendorBatch) -> None:
        """Its id is known: on disk before anything else is done."""
        assert batch.vendor_batch is not None
        batch.state = RUNNING
        self._known.add(batch.vendor_batch)
        await asyncio.to_thread(save_state, self._root, batch)

    # Collect and reconcile

    async def _collect(self, batch: VendorBatch, client: BatchClient, error: Reply | None) -> None:
        """Every item's result into the ledger, then the batch is collected. Done again, it adds nothing."""
        assert batch.vendor_batch is not None
        calls = {call["call_id"]: call for call in await asyncio.to_thread(load_calls, self._root, batch)}
        kept = await asyncio.to_thread(self._kept, batch.vendor_batch, list(calls.values()))
        counts = Counter(str(record["outcome"]) for record in kept.values())
        spent = 0.0  # what an interrupted collection has written is in the ledger's sum
        for call_id, record in kept.items():
            self._open.answer(call_id, record)
        seen: set[str] = set()
        strays: list[str] = []
        group: list[tuple[str, Reply]] = []

        async def keep_group() -> None:
            nonlocal spent
            records = await asyncio.gather(
                *(self._keep_result(batch, calls[call_id], reply) for call_id, reply in group)
            )
            for record in records:
                counts[record["outcome"]] += 1
                spent += (record["cost_usd"] or 0.0) + (record["most_usd"] or 0.0)
            group.clear()

        if error is None:
            async for result in client.results(batch.vendor_batch):
                call_id, _, submission = (result.custom_id or "").rpartition("-")
                if submission != batch.submission or call_id not in calls or call_id in seen:
                    strays.append(result.line)
                    continue
                seen.add(call_id)
                if call_id not in kept:
                    group.append((call_id, result.reply))
                if len(group) >= _AT_ONCE:
                    await keep_group()
        without = error or _without_result(batch.status)
        group += [(call_id, without) for call_id in calls if call_id not in seen and call_id not in kept]
        await keep_group()
        if strays:
            await asyncio.to_thread(save_strays, self._root, batch.submission, strays)
        batch.state, batch.counts, batch.strays = COLLECTED, dict(counts), len(strays)
        await asyncio.to_thread(save_state, self._root, batch)
        self._budget.settle_batch(batch.most_usd, spent)
        if batch.counts.get(Outcome.OK):
            self._seen.add(self._schema_key(batch))
        self._open.let_go(batch, calls.values())

    async def _keep_result(self, batch: VendorBatch, call: Record, reply: Reply) -> Record:
        record = {name: value for name, value in call.items() if name != "most_usd"}
        prices = self._prices.get(batch.model) or Prices(None, None)
        priced = replace(reply, cost_usd=prices.cost_usd(reply.usage, batch=True), most_usd=call["most_usd"])
        entry = await self._keep(record | {"vendor_batch": batch.vendor_batch}, priced)
        if REMEDIES[reply.outcome].stops_model:
            self.stopped.setdefault(batch.model, f"{reply.outcome} ({reply.error})")
        self._open.answer(call["call_id"], entry)
        return entry

    def _kept(self, vendor_batch: str, calls: Sequence[Record]) -> dict[str, Record]:
        """The records that an interrupted collection has written already."""
        found: dict[str, Record] = {}
        for stage in {call["stage"] for call in calls}:
            ids = pl.Series("call_id", [call["call_id"] for call in calls if call["stage"] == stage], pl.String)
            records = self._ledger.records(stage, ids).filter(vendor_batch=vendor_batch)
            found |= {record["call_id"]: record for record in records.to_dicts()}
        return found

    async def _put_off(self, batch: VendorBatch, reply: Reply) -> None:
        """The vendor has no room for this batch now: its calls go out again later, or in smaller batches.

        Where no other batch of the model runs, the batch is larger than the vendor takes at all.
        """
        alone = all(other is batch for other in self._open.of_model(batch.model))
        if alone and batch.items == 1:
            await self._void(batch, Unsent(f"the vendor has no room for a single call ({reply.error})"))
        elif alone or self._wait:
            if alone:
                self._room[batch.model] = batch.tokens // 2
            await asyncio.sleep(self._config.batch_poll_s if self._wait else 0)
            await self._void(batch, Requeued())
        else:
            await self._void(batch, None)

    async def _void(self, batch: VendorBatch, error: Exception | None) -> None:
        """The vendor made no such batch, or ran nothing of it; its calls are told ``error``, or are left."""
        batch.state = VOID
        await asyncio.to_thread(save_state, self._root, batch)
        self._budget.settle_batch(batch.most_usd, 0.0)
        calls = await asyncio.to_thread(load_calls, self._root, batch)
        self._open.let_go(batch, calls)
        if error is None:
            for call in calls:
                self._open.answer(call["call_id"], None)
        else:
            self._open.end([call["call_id"] for call in calls], error)

    # Small things

    def _leave(self, items: "deque[_Item] | list[_Item]") -> None:
        """This run does not wait for these calls' batches."""
        self._open.leave(item.record["call_id"] for item in items)
        items.clear()

    def _tokens_of(self, model: Model) -> float:
        """Tokens that all running batches of a model may have."""
        ours = self._config.limits_of(model.name).batch_tokens or float("inf")
        return min(ours, self._room.get(model.name, float("inf")))

    def _refused(self, model: Model, reply: Reply) -> str:
        cause = f"{reply.outcome} (vendor batch: {reply.error})"
        if REMEDIES[reply.outcome].stops_model:
            self.stopped.setdefault(model.name, cause)
        return cause

    def _schema_key(self, batch: VendorBatch) -> tuple[str, str | None]:
        return batch.model.partition("/")[0], batch.schema

    def _client(self, model: Model) -> BatchClient:
        if model.endpoint not in self._clients:
            self._clients[model.endpoint] = batch_client(self._config, model)
        return self._clients[model.endpoint]

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task


def _without_result(status: str) -> Reply:
    """The reply of an item that an ended batch has no line for, by the vendor's word for how the batch ended."""
    said = f"the batch is {status} and has no result for this call"
    for word, outcome in (("expire", Outcome.EXPIRED), ("cancel", Outcome.CANCELLED)):
        if word in status.lower():
            return Reply(outcome, error=said)
    return Reply(Outcome.MISSING, error=said)

"""The batches of the simulated vendors, the same for all of them: what they hold, how they end, what came of each item.

A batch runs for ``batch_s`` seconds; then its items are answered, each as the same request online would be, and are
billed whether or not anybody fetches them. An item's custom id is ``CALL_ID-SUBMISSION``: what stands before its
first dash is the call's id in the accounts, for the faults and for the answer. The faults of a batch are drawn by
its first custom id and those of an item by its own, so that another submission of the same calls can succeed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from deployments.simulator.accounts import Accounts
from deployments.simulator.answering import complete
from deployments.simulator.behaviour import say
from deployments.simulator.dice import Dice, digest, share
from deployments.simulator.exchange import UNLIMITED, Ask, Excess, Json, Problem, VendorError, Wire
from deployments.simulator.faults import CONNECTION, ERROR, Fault, active, draw, error_of, fits
from deployments.simulator.knobs import Knobs
from deployments.simulator.scripts import Scripts

_SLICE_S = 0.02  # how long other requests wait at most while a batch is read or answered
NEVER_RAN = "never_ran"

T = TypeVar("T")


class State(StrEnum):
    NEW = "new"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


ENDED = (State.COMPLETED, State.CANCELLED, State.EXPIRED, State.FAILED)


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    ERRORED = "errored"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch; ``call`` is the id of its call, ``sent`` what the vendor keeps beside it.

    ``request`` is its JSON, kept as bytes: through the objects of thousands of requests the garbage collector takes
    longer than others should wait. ``refusal`` is why the wire does not take it.
    """

    custom_id: str
    call: str = ""
    model: str = ""
    tokens: int = 0
    request: bytes = b""
    refusal: VendorError | None = None
    sent: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an item: ``status`` and ``body`` as online; no body where it never ran."""

    item: Item
    outcome: Outcome
    request_id: str
    status: int = 0
    body: Json | None = None


@dataclass(frozen=True)
class Failure:
    """Why a whole batch failed; ``line`` is that of its file."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    place: float
    index: int
    outcome: Outcome
    text: bytes


@dataclass(eq=False)
class Batch:
    """``about`` is what its vendor keeps of it. Times are those of the clock, in seconds. ``lines`` fill as it ends."""

    id: str
    vendor: str
    model: str
    items: list[Item]
    about: Json
    failure: Failure | None
    strange: bool
    string_counts: bool
    created: float = field(default_factory=time.time)
    cancelled: float | None = None
    ended: float | None = None
    state: State = State.NEW
    counts: Counter[Outcome] = field(default_factory=Counter)
    lines: list[Line] = field(default_factory=list)
    wish_to_cancel: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    def texts(self, *, errors: bool | None = None) -> list[bytes]:
        """The results' lines; with ``errors`` only those that did not succeed, or only those that did."""
        wanted = [line for line in self.lines if errors is None or errors is (line.outcome is not Outcome.SUCCEEDED)]
        return [line.text for line in wanted]

    def text(self, *, errors: bool | None = None) -> bytes:
        return b"".join([text + b"\n" for text in self.texts(errors=errors)])

    def hides(self, *, looked_at: bool) -> bool:
        """Whether its status is a strange word, and no end to be seen: until it has been looked at when ended."""
        hidden = self.strange
        if looked_at and self.is_over:
            self.strange = False
        return hidden

    def count(self, number: int) -> int | str:
        return str(number) if self.string_counts else number


@dataclass(frozen=True)
class File:
    """A file that a vendor keeps. ``about`` is what the vendor tells of it."""

    id: str
    data: bytes
    about: Json


Reader = Callable[[Json], Ask]
Writer = Callable[[Result], bytes | None]
_Model = tuple[Knobs, list[tuple[Fault, float]]]


class Batches:
    """All batches and files of one simulator. ``knobs`` tells the present ones; ``uploads`` are files on their way."""

    def __init__(self, accounts: Accounts, scripts: Scripts, knobs: Callable[[], Knobs]) -> None:
        self._accounts = accounts
        self._scripts = scripts
        self._knobs = knobs
        self._made = 0
        self._running: set[asyncio.Task[None]] = set()
        self.all: dict[str, Batch] = {}
        self.files: dict[str, File] = {}
        self.uploads: dict[str, tuple[str, Json, bytearray]] = {}
        self.forget()

    def forget(self) -> None:
        """Starts the counts anew; the batches stay."""
        self.stats = dict.fromkeys(("created", "ended", "items", *(str(state) for state in ENDED)), 0)

    def new_id(self, length: int) -> str:
        self._made += 1
        return f"{digest('batches', id(self), self._made):x}"[:length]

    def refused(self, status: int) -> None:
        self._accounts.statuses[status] += 1

    def of(self, vendor: str) -> list[Batch]:
        """Newest first."""
        return [batch for batch in reversed(self.all.values()) if batch.vendor == vendor]

    def strikes(self, fault: str, model: str, items: Sequence[Item]) -> bool:
        """Whether a fault of a whole batch strikes the one of these items."""
        struck = self._drawn(fault, self._knobs().for_model(model), items[0].custom_id)
        if struck:
            self._accounts.faults[fault] += 1
        return struck

    def limit_passed(self, items: Sequence[Item]) -> VendorError | None:
        """The 429 of a model whose limit of enqueued tokens does not let these items in beside its running batches."""
        for model, tokens in _tokens(items).items():
            knobs = self._knobs().for_model(model)
            limit = knobs.batch_enqueued_tokens
            if limit and (waiting := self._waiting(model)) + tokens > limit:
                excess = Excess("tokens", limit, waiting, tokens)
                return VendorError(Problem.RATE, model=model, retry_after=knobs.retry_after_s, excess=excess)
        return None

    def _waiting(self, model: str) -> int:
        return _tokens([item for batch in self.all.values() if not batch.is_over for item in batch.items])[model]

    def open(
        self,
        batch_id: str,
        wire: Wire,
        model: str,
        items: list[Item],
        read: Reader,
        write: Writer,
        *,
        about: Json,
        failure: Failure | None = None,
    ) -> Batch:
        """Creates a batch that lives on by itself; its items count as received.

        ``read`` reads a request when it is answered, ``write`` makes the line of a result, if it has one.
        """
        strange = failure is None and self.strikes("batch_strange_status", model, items)
        string_counts = failure is None and self.strikes("batch_string_counts", model, items)
        batch = Batch(batch_id, wire.vendor, model, items, about, failure, strange, string_counts)
        self.all[batch_id] = batch
        self.stats["created"] += 1
        self.stats["items"] += len(items)
        if failure is None:
            for item in items:
                if item.refusal is None:
                    self._accounts.received[item.model] += 1
                    self._accounts.ids.add(item.call)
        task = asyncio.create_task(self._live(batch, wire, read, write))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return batch

    def cancel(self, batch: Batch) -> None:
        if not batch.is_over:
            batch.state = State.CANCELLING
            batch.cancelled = batch.cancelled or time.time()
            batch.wish_to_cancel.set()

    async def _live(self, batch: Batch, wire: Wire, read: Reader, write: Writer) -> None:
        if batch.failure is not None:
            self._end(batch, State.FAILED)
            return
        if batch.state is State.NEW:
            batch.state = State.RUNNING
        knobs = self._knobs().for_model(batch.model)
        try:
            async with asyncio.timeout(knobs.batch_s):
                await batch.wish_to_cancel.wait()
        except TimeoutError:
            pass
        await self._answer_all(batch, knobs, wire, read, write)
        expired = batch.counts[Outcome.EXPIRED] > 0
        cancelled = batch.wish_to_cancel.is_set()
        self._end(batch, State.CANCELLED if cancelled else State.EXPIRED if expired else State.COMPLETED)

    def _end(self, batch: Batch, state: State) -> None:
        batch.state, batch.ended = state, time.time()
        self.stats["ended"] += 1
        self.stats[state] += 1

    async def _answer_all(self, batch: Batch, knobs: Knobs, wire: Wire, read: Reader, write: Writer) -> None:
        seed, items = knobs.seed, batch.items
        all_fail = self.strikes("batch_all_fail", batch.model, items)
        expires = self.strikes("batch_expire", batch.model, items)
        shuffled = self.strikes("batch_swap", batch.model, items) or (
            wire.vendor != "google" and self._drawn("batch_shuffle", knobs, items[0].custom_id)
        )

        def keep(index: int, result: Result, mark: str = "") -> None:
            place = share("place", seed, result.item.custom_id, mark) if shuffled else index
            if (text := write(result)) is not None:
                batch.lines.append(Line(place, index, result.outcome, text))

        faults = {model: self._of(model) for model in _tokens(items)}
        ran: Result | None = None
        async for index, item in in_slices(enumerate(items)):
            done_in_time = share("batch_half", seed, item.custom_id) < 0.5
            if batch.wish_to_cancel.is_set() and not done_in_time:
                result = self._not_run(item, Outcome.CANCELLED)
            elif expires and not done_in_time:
                result = self._not_run(item, Outcome.EXPIRED)
            elif self._drawn("batch_missing", knobs, item.custom_id):
                self._accounts.faults["batch_missing"] += 1
                self._accounts.received_by_kind[NEVER_RAN] += 1
                batch.counts[Outcome.SUCCEEDED] += 1  # the vendor knows of no fault
                continue
            else:
                result = ran = self._answer(item, wire, read, faults, all_fail)
            batch.counts[result.outcome] += 1
            keep(index, result)
            if self._drawn("batch_duplicate", knobs, item.custom_id):
                self._accounts.faults["batch_duplicate"] += 1
                keep(index, result, "again")
        if ran is not None and self.strikes("batch_unknown", batch.model, items):
            nobody = f"{digest('nobody', seed, items[0].custom_id):x}"[:32] + "-unknown"
            keep(len(items), replace(ran, item=replace(ran.item, custom_id=nobody)))
        batch.lines.sort(key=lambda line: line.place)
        places = [line.index for line in batch.lines]
        if shuffled and places == sorted(places):
            batch.lines.reverse()

    def _answer(self, item: Item, wire: Wire, read: Reader, faults_of: dict[str, _Model], all_fail: bool) -> Result:
        request_id, call = self.new_id(24), item.call
        try:
            if item.refusal is not None:
                raise item.refusal
            ask = read(orjson.loads(item.request))
            knobs, faults = faults_of[ask.model]
            self._admit(ask.model, knobs)
            saying = say(ask, call, knobs)
            self._accounts.received_by_kind[saying.kind] += 1
            times = self._accounts.asked[call]
            self._accounts.asked[call] += 1
            if all_fail:
                raise VendorError(Problem.SERVER)
            named, fault = self._scripts.next(call, ask.model) if self._scripts else (False, None)
            if faults and not named:
                fault = draw(faults, knobs.seed, call, times, saying.value)
            if fault is not None and (fault.where is CONNECTION or not fits(fault, saying.value)):
                fault = None
            if fault is not None:
                self._accounts.faults[fault.name] += 1
                if fault.where is ERROR:
                    raise error_of(fault, ask.model, UNLIMITED, knobs.retry_after_s)
            done = complete(ask, saying, call, fault, Dice("fault", knobs.seed, call, times))
        except VendorError as error:
            status, body = wire.write_error(error, request_id)
            return Result(item, Outcome.ERRORED, request_id, status, body)
        self._accounts.serve(ask.model, saying.kind, call, done)
        body = wire.write(ask, done, request_id, time.time())
        return Result(item, Outcome.SUCCEEDED, request_id, 200, body)

    def _admit(self, model: str, knobs: Knobs) -> None:
        """Raises the ``VendorError`` of a retired model, or of an empty purse."""
        served = self._accounts.served[model]
        for most, problem in ((knobs.retire_after, Problem.RETIRED), (knobs.quota_after, Problem.QUOTA)):
            if most and served >= most:
                self._accounts.received_by_kind[NEVER_RAN] += 1
                raise VendorError(problem, model=model)

    def _not_run(self, item: Item, outcome: Outcome) -> Result:
        self._accounts.received_by_kind[NEVER_RAN] += 1
        return Result(item, outcome, self.new_id(24))

    def _of(self, model: str) -> _Model:
        """The model's knobs, and the faults that can strike an item, which has no connection of its own."""
        knobs = self._knobs().for_model(model)
        return knobs, [(fault, rate) for fault, rate in active(knobs) if fault.where is not CONNECTION]

    def _drawn(self, fault: str, knobs: Knobs, custom_id: str) -> bool:
        rate: float = getattr(knobs, fault)
        return rate > 0 and share(fault, knobs.seed, custom_id) < rate


def read_item(read: Reader, custom_id: str, request: bytes, sent: Any = None) -> Item:
    """The item of a request's JSON; what is wrong with that is told when the batch ends, as the vendors do."""
    try:
        body = orjson.loads(request)
        if not isinstance(body, dict):
            raise VendorError(Problem.BAD_REQUEST, "The request is not a JSON object.")
        ask = read(body)
    except VendorError as error:
        return Item(custom_id, refusal=error.with_traceback(None), sent=sent)
    call = custom_id.partition("-")[0] or f"{digest(ask.model, ask.system, *[text for _, text in ask.turns]):x}"
    return Item(custom_id, call, ask.model, ask.input_tokens, request, sent=sent)


async def in_slices(things: Iterable[T]) -> AsyncIterator[T]:
    """The things, while other requests are let through every 20 ms."""
    until = time.perf_counter() + _SLICE_S
    for thing in things:
        yield thing
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + _SLICE_S


def _tokens(items: Iterable[Item]) -> Counter[str]:
    """Input tokens by model."""
    tokens: Counter[str] = Counter()
    for item in items:
        if item.refusal is None:
            tokens[item.model] += item.tokens
    return tokens

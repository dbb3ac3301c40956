"""One call, from wanted to its class: ask, write to the ledger, then parse; again where the class's remedy says so.

What happens next to a call is a pure function of its attempts (``next_step``), so a run that was killed
half-way and one that was not go on in the same way.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import BaseModel

from storage.ledger import Record
from tasks.models import Message, Outcome, Reply, Request, Unsent
from tasks.models.outcomes import REMEDIES, UNBILLED
from tasks.models.pool import Funds
from tasks.settings import Model
from tasks.structured import MalformedOutput, OutOfContract, Parsed, parse_structured, sanitize

Row = dict[str, Any]

MOST_UNRUN = 3  # vendor batches of a run that may expire or be cancelled before a call in them has run
LARGER = 4  # times the output limit, after a truncated attempt
BACKOFF_S, BACKOFF_MAX_S = 0.5, 60.0


class AsksModels(Protocol):
    async def ask(self, model: Model, request: Request, keep: Callable[[Reply], Awaitable[None]]) -> Reply: ...


class KeepsRecords(Protocol):
    run: str

    async def append(self, record: Record) -> None: ...


@dataclass(frozen=True)
class Attempt:
    """One entry of the ledger, read: ``value`` where it parsed."""

    outcome: Outcome
    run: str
    text: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    value: Parsed[Any] | None = None


@dataclass(frozen=True)
class Again:
    """Ask once more: with a larger output limit, or showing the last attempt and what was wrong with it."""

    larger_limit: bool = False
    shown: Attempt | None = None
    backoff_s: float = 0.0


def read_attempt(record: Mapping[str, Any], output: type[BaseModel] | None) -> Attempt:
    """The attempt that a ledger record holds. Pure: a mended parser reads what is already paid for anew."""
    outcome, text, error = Outcome(record["outcome"]), record["text"], record["error"]
    value: Parsed[Any] | None = None
    if outcome is Outcome.OK:
        try:
            value = Parsed(text, repaired=False, sanitized=False) if output is None else parse_structured(text, output)
            value = replace(value, sanitized=value.sanitized or record["sanitized"])
        except MalformedOutput as problem:
            outcome, error = Outcome.MALFORMED, str(problem)
        except OutOfContract as problem:
            outcome, error = Outcome.OUT_OF_CONTRACT, str(problem)
    return Attempt(outcome, record["run"], text, error, record["finish_reason"], value)


def next_step(
    attempts: Sequence[Attempt], give_up_after: int, *, of_run: str | None = None, reopened: bool = False
) -> Again | Outcome:
    """What to do about a call after these attempts: ask again, or its final class.

    An attempt that stopped the whole model, or never ran, says nothing about the call. ``of_run``: count only
    that run's attempts, so that what failed before is tried anew; all of them count towards ``give_up_after``,
    except for a call that was ``reopened`` by name.
    """
    if any(attempt.outcome is Outcome.OK for attempt in attempts):
        return Outcome.OK
    failed = [attempt for attempt in attempts if not _says_nothing(attempt)]
    counted = [attempt for attempt in failed if of_run in (None, attempt.run)]
    if len(counted if reopened else failed) >= give_up_after:
        return Outcome.ABANDONED
    if not counted:
        return Again()
    last = counted[-1]
    remedy = REMEDIES[last.outcome]
    tries = sum(attempt.outcome is last.outcome for attempt in counted)
    if tries >= remedy.tries:
        return last.outcome
    return Again(
        larger_limit=any(REMEDIES[attempt.outcome].larger_limit for attempt in counted),
        shown=next((attempt for attempt in reversed(counted) if REMEDIES[attempt.outcome].shows_error), None),
        backoff_s=min(BACKOFF_MAX_S, BACKOFF_S * 2**tries) if remedy.backoff else 0.0,
    )


def _says_nothing(attempt: Attempt) -> bool:
    remedy = REMEDIES[attempt.outcome]
    return remedy.stops_model or remedy.never_ran


class Follows(Protocol):
    """Is told how a run goes on: batches begun, attempts recorded, calls ended."""

    def begin(self, stage: str, wanted: int, done: int) -> None: ...

    def attempt(self, record: Record) -> None: ...

    def ended(self, stage: str, outcome: Outcome | None) -> None: ...


class Requeued(Exception):
    """A vendor did not take a call's batch, for the moment: the call is to be asked again."""


class AsksInBatches(Protocol):
    def holds(self, call_id: str) -> bool: ...

    def left_open(self, batch: str) -> int: ...

    async def ask(self, model: Model, request: Request, record: Record) -> Record | None:
        """The call's ledger record, written, from a vendor batch; None where the run does not wait for it."""
        ...


@dataclass(frozen=True)
class Call:
    """One wanted call: the model, its first request, the columns its ledger records share, and how it is made.

    ``of_run`` and ``reopened`` are ``next_step``'s.
    """

    model: Model
    request: Callable[[], Request]
    record: Record
    output: type[BaseModel] | None
    batched: bool = False
    of_run: str | None = None
    reopened: bool = False


@dataclass
class Caller:
    """What all calls of a run share. ``left`` says, by model, why calls were left to be done; ``waiting`` are those
    in vendor batches that the run does not wait for.

    Without a pool nothing is asked, and what the ledger does not answer stays to be done.
    """

    pool: AsksModels | None
    ledger: KeepsRecords
    funds: Funds
    progress: Follows
    give_up_after: int
    desk: AsksInBatches | None = None
    left: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)

    async def settle(self, call: Call, attempts: list[Attempt]) -> Outcome | None:
        """Ask until the call has a class; None when it is left to be done. ``attempts`` grows."""
        first: Request | None = None
        while True:
            step = next_step(attempts, self.give_up_after, of_run=call.of_run, reopened=call.reopened)
            if isinstance(step, Outcome):
                return step
            if self.pool is None:
                return None
            first = first or call.request()
            request, record = _adapted(first, step), call.record | {"attempt": len(attempts) + 1}
            try:
                if self.desk is not None and (call.batched or self.desk.holds(record["call_id"])):
                    entry = await self.desk.ask(call.model, request, record)
                else:
                    if step.backoff_s:
                        await asyncio.sleep(random.uniform(0, step.backoff_s))
                    entry = await self._online(call.model, request, record)
            except Requeued:
                continue
            except Unsent as unsent:
                self.left.setdefault(call.model.name, unsent.cause)
                return None
            if entry is None:
                self.waiting.add(call.record["call_id"])
                return None
            attempts.append(read_attempt(entry, call.output))
            remedy = REMEDIES[attempts[-1].outcome]
            if remedy.stops_model:
                self.left.setdefault(call.model.name, f"{attempts[-1].outcome} ({attempts[-1].error})")
                return None
            unrun = sum(REMEDIES[a.outcome].never_ran and a.run == self.ledger.run for a in attempts)
            if remedy.never_ran and unrun >= MOST_UNRUN:
                self.left.setdefault(call.model.name, f"{unrun} vendor batches ended before their calls ran")
                return None

    async def _online(self, model: Model, request: Request, record: Record) -> Record:
        assert self.pool is not None
        entry: Record = {}

        async def keep(reply: Reply) -> None:
            nonlocal entry
            entry = await self.keep(record, reply)
            self.funds.settle(reply.most_usd or 0.0, (entry["cost_usd"] or 0.0) + (entry["most_usd"] or 0.0))

        await self.pool.ask(model, request, keep)
        return entry

    async def keep(self, record: Record, reply: Reply) -> Record:
        """The ledger's entry for a reply, durable when this returns."""
        entry = record | _entry(reply, self.ledger.run)
        await self.ledger.append(entry)
        self.progress.attempt(entry)
        return entry


def _adapted(request: Request, step: Again) -> Request:
    if step.larger_limit:
        request = replace(request, max_output_tokens=request.max_output_tokens * LARGER)
    if step.shown is not None:
        remark = f"That output cannot be used: {step.shown.error}. Give the whole output again, with this put right."
        shown = (Message("assistant", step.shown.text or ""), Message("user", remark))
        request = replace(request, messages=request.messages + shown)
    return request


def _entry(reply: Reply, run: str) -> Record:
    text, sanitized = (None, False) if reply.text is None else sanitize(reply.text)
    known = reply.cost_usd is not None or reply.outcome in UNBILLED
    return {
        "run": run,
        "outcome": reply.outcome.value,
        "error": reply.error,
        "raw": reply.raw,
        "text": text,
        "sanitized": sanitized,
        "finish_reason": reply.finish_reason,
        "input_tokens": reply.usage.input,
        "cached_tokens": reply.usage.cached,
        "output_tokens": reply.usage.output,
        "thinking_tokens": reply.usage.thinking,
        "cost_usd": reply.cost_usd,
        "most_usd": None if known else reply.most_usd,
        "latency_s": reply.latency_s,
        "request_id": reply.request_id,
        "finished_at": datetime.now(UTC).isoformat(),
    }

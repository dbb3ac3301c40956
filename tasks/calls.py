"""One call, from wanted to its class: ask, write to the ledger, then parse; again where the class's remedy says so.

What happens next to a call is a pure function of its attempts (``next_step``), so a run that was killed
half-way and one that was not go on in the same way.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import BaseModel

from storage.ledger import Record
from tasks.config import Model
from tasks.models import Message, Outcome, Reply, Request
from tasks.models.outcomes import REMEDIES
from tasks.structured import MalformedOutput, OutOfContract, Parsed, parse_structured, sanitize

Row = dict[str, Any]

MAX_ATTEMPTS = 12  # of one call, whatever their classes; of one run, when it retries
LARGER = 4  # times the output limit, after a truncated attempt
BACKOFF_S, BACKOFF_MAX_S = 0.5, 60.0


class AsksModels(Protocol):
    async def ask(self, model: Model, request: Request) -> Reply: ...


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


def next_step(attempts: Sequence[Attempt], retry_of_run: str | None = None) -> Again | Outcome:
    """What to do about a call after these attempts: ask again, or its final class.

    An attempt that stopped the whole model says nothing about the call: it is asked again when the model is.
    ``retry_of_run``: count only that run's attempts, so that what failed before is tried anew.
    """
    if any(attempt.outcome is Outcome.OK for attempt in attempts):
        return Outcome.OK
    counted = [
        attempt
        for attempt in attempts
        if not REMEDIES[attempt.outcome].stops_model and retry_of_run in (None, attempt.run)
    ]
    if not counted:
        return Again()
    last = counted[-1]
    remedy = REMEDIES[last.outcome]
    tries = sum(attempt.outcome is last.outcome for attempt in counted)
    if tries >= remedy.tries or len(counted) >= MAX_ATTEMPTS:
        return last.outcome
    return Again(
        larger_limit=any(REMEDIES[attempt.outcome].larger_limit for attempt in counted),
        shown=next((attempt for attempt in reversed(counted) if REMEDIES[attempt.outcome].shows_error), None),
        backoff_s=min(BACKOFF_MAX_S, BACKOFF_S * 2**tries) if remedy.backoff else 0.0,
    )


class Follows(Protocol):
    """Is told how a run goes on: batches begun, attempts recorded, calls ended."""

    def begin(self, stage: str, wanted: int, done: int) -> None: ...

    def attempt(self, record: Record) -> None: ...

    def ended(self, stage: str, outcome: Outcome | None) -> None: ...


@dataclass
class Caller:
    """What all calls of a run share. ``stopped`` names the models that no call is made to any more, and why.

    Without a pool nothing is asked, and what the ledger does not answer stays to be done.
    """

    pool: AsksModels | None
    ledger: KeepsRecords
    cost: Callable[[Model, Reply], float | None]
    retry_failed: bool
    progress: Follows
    stopped: dict[str, str] = field(default_factory=dict)

    async def settle(
        self,
        row: Row,
        model: Model,
        attempts: list[Attempt],
        *,
        record: Record,
        messages: Callable[[Row], tuple[Message, ...]],
        output: type[BaseModel] | None,
        schema: Mapping[str, Any] | None,
        rank: int = 0,
    ) -> Outcome | None:
        """Ask until the call has a class; None when its model was stopped before that.

        ``record`` holds the columns that all of the call's ledger records share. ``attempts`` grows.
        """
        first = Request(
            row["call_id"],
            messages(row),
            model.max_output_tokens,
            schema,
            output.__name__.lower() if output else "output",
            model.params,
            rank,
        )
        number = len(attempts)
        while True:
            step = next_step(attempts, self.ledger.run if self.retry_failed else None)
            if isinstance(step, Outcome):
                return step
            if self.pool is None or model.name in self.stopped:
                return None
            if step.backoff_s:
                await asyncio.sleep(random.uniform(0, step.backoff_s))
            reply = await self.pool.ask(model, _adapted(first, step))
            remedy = REMEDIES[reply.outcome]
            if remedy.waits:
                continue
            if remedy.stops_model:
                self.stopped.setdefault(model.name, f"{reply.outcome} ({reply.error})")
                if reply.raw is None:  # nothing was sent: the model had been stopped, or has no key
                    return None
            number += 1
            entry = record | _entry(reply, number, self.ledger.run, self.cost(model, reply))
            try:
                await self.ledger.append(entry)
            except OSError:
                self.pool = None  # what cannot be kept is not asked for
                raise
            self.progress.attempt(entry)
            attempt = read_attempt(entry, output)
            attempts.append(attempt)
            if remedy.stops_model:
                return None


def _adapted(request: Request, step: Again) -> Request:
    if step.larger_limit:
        request = replace(request, max_output_tokens=request.max_output_tokens * LARGER)
    if step.shown is not None:
        remark = f"That output cannot be used: {step.shown.error}. Give the whole output again, with this put right."
        shown = (Message("assistant", step.shown.text or ""), Message("user", remark))
        request = replace(request, messages=request.messages + shown)
    return request


def _entry(reply: Reply, number: int, run: str, cost: float | None) -> Record:
    text, sanitized = (None, False) if reply.text is None else sanitize(reply.text)
    return {
        "attempt": number,
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
        "cost_usd": cost,
        "latency_s": reply.latency_s,
        "request_id": reply.request_id,
        "finished_at": datetime.now(UTC).isoformat(),
    }

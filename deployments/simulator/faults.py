"""Faults on purpose: one table, drawn for each call by hash, so that a run can be repeated and a retry can succeed.

Whether a fault strikes is decided by the seed, its name, the call's id and how often that call has been asked. The
first that strikes in the order of the table is the one that happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deployments.simulator.dice import share
from deployments.simulator.exchange import Pace, Problem, VendorError
from deployments.simulator.knobs import Knobs
from deployments.simulator.pacing import too_many
from deployments.simulator.spoiling import SCORES

ERROR, CONNECTION, ANSWER, JSON = "error", "connection", "answer", "json"


@dataclass(frozen=True)
class Fault:
    """``where``: an error instead of an answer, the connection, the answer as a whole, or its JSON.

    Of the connection's, ``fault_drip`` alone lets the whole answer through.
    """

    name: str
    where: str


FAULTS = (
    Fault("fault_429", ERROR),
    Fault("fault_429_bare", ERROR),
    Fault("fault_quota", ERROR),
    Fault("fault_500", ERROR),
    Fault("fault_503", ERROR),
    Fault("fault_overloaded", ERROR),
    Fault("fault_timeout", CONNECTION),
    Fault("fault_reset", CONNECTION),
    Fault("fault_cut_body", CONNECTION),
    Fault("fault_drip", CONNECTION),
    Fault("fault_refusal", ANSWER),
    Fault("fault_empty", ANSWER),
    Fault("fault_null", ANSWER),
    Fault("fault_truncate", ANSWER),
    Fault("fault_thinking", ANSWER),
    Fault("fault_surrogate", ANSWER),
    Fault("fault_nul", ANSWER),
    Fault("fault_huge", ANSWER),
    Fault("fault_prose", JSON),
    Fault("fault_bad_json", JSON),
    Fault("fault_twice", JSON),
    Fault("fault_two", JSON),
    Fault("fault_bad_schema", JSON),
    Fault("fault_extra", JSON),
    Fault("fault_bad_score", JSON),
    Fault("fault_score_fraction", JSON),
    Fault("fault_score_half", JSON),
    Fault("fault_score_text", JSON),
    Fault("fault_score_six", JSON),
    Fault("fault_score_nan", JSON),
    Fault("fault_latex", JSON),
)
BY_NAME = {fault.name: fault for fault in FAULTS}

_PROBLEMS = {
    "fault_quota": Problem.QUOTA,
    "fault_500": Problem.SERVER,
    "fault_503": Problem.UNAVAILABLE,
    "fault_overloaded": Problem.OVERLOADED,
}


def active(knobs: Knobs) -> tuple[tuple[Fault, float], ...]:
    """The faults that can strike at all, with their rates."""
    rates = ((fault, getattr(knobs, fault.name)) for fault in FAULTS)
    return tuple((fault, rate) for fault, rate in rates if rate > 0)


def draw(faults: Sequence[tuple[Fault, float]], seed: int, call: str, times_asked: int, value: Any) -> Fault | None:
    """The fault that strikes. ``value`` is the JSON value of a structured answer, else None."""
    for fault, rate in faults:
        if share(fault.name, seed, call, times_asked) < rate and fits(fault, value):
            return fault
    return None


def fits(fault: Fault, value: Any) -> bool:
    """Whether the fault can strike an answer of this JSON value; None is plain text."""
    if fault.name in SCORES:
        return isinstance(value, dict) and "score" in value
    return fault.where is not JSON or value is not None


def error_of(fault: Fault, model: str, pace: Pace, retry_after_s: float) -> VendorError:
    """What the vendor says instead of an answer."""
    if fault.name == "fault_429":
        return too_many(model, pace, retry_after_s)
    if fault.name == "fault_429_bare":
        return VendorError(Problem.RATE, model=model, pace=None)
    return VendorError(_PROBLEMS[fault.name], model=model, pace=pace)

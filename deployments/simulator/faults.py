"""Faults on purpose: one table, drawn for each call by hash, so that a run can be repeated and a retry can succeed.

Whether a fault strikes is decided by the seed, its name, the call's id and how often that call has been asked. The
first that strikes in the order of the table is the one that happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deployments.simulator.dice import Dice, share
from deployments.simulator.knobs import Knobs

ERROR, CONNECTION, ANSWER, JSON = "error", "connection", "answer", "json"


@dataclass(frozen=True)
class Fault:
    """``where``: an error instead of an answer, the connection, the answer as a whole, or its JSON."""

    name: str
    where: str


FAULTS = (
    Fault("fault_429", ERROR),
    Fault("fault_500", ERROR),
    Fault("fault_overloaded", ERROR),
    Fault("fault_timeout", CONNECTION),
    Fault("fault_reset", CONNECTION),
    Fault("fault_cut_body", CONNECTION),
    Fault("fault_refusal", ANSWER),
    Fault("fault_empty", ANSWER),
    Fault("fault_truncate", ANSWER),
    Fault("fault_prose", JSON),
    Fault("fault_bad_json", JSON),
    Fault("fault_bad_schema", JSON),
    Fault("fault_bad_score", JSON),
    Fault("fault_latex", JSON),
)

_LATEX = (
    r"that is $\frac{3}{4} \times 8 = 6$",
    r"since $\beta \neq \frac{1}{2}$ and $\rho \times \theta$ stays",
    r"where $\sqrt{16} \leq \binom{5}{2}$ holds",
)
_MARK = "\u2402"


def active(knobs: Knobs) -> tuple[tuple[Fault, float], ...]:
    """The faults that can strike at all, with their rates."""
    rates = ((fault, getattr(knobs, fault.name)) for fault in FAULTS)
    return tuple((fault, rate) for fault, rate in rates if rate > 0)


def draw(faults: Sequence[tuple[Fault, float]], seed: int, call: str, times_asked: int, value: Any) -> Fault | None:
    """The fault that strikes. ``value`` is the JSON value of a structured answer, else None."""
    for fault, rate in faults:
        if fault.where is JSON and value is None:
            continue
        if fault.name == "fault_bad_score" and not (isinstance(value, dict) and "score" in value):
            continue
        if share(fault.name, seed, call, times_asked) < rate:
            return fault
    return None


def spoil(name: str, value: Any, dice: Dice) -> str:
    """The structured answer's JSON text with the fault ``name`` in it."""
    text = orjson.dumps(value).decode()
    if name == "fault_prose":
        before = dice.pick(("Here is the result:\n\n", "Sure! I went through it step by step.\n```json\n"))
        return f"{before}{text}\n{'```' if '```' in before else ''}\nLet me know if anything else is needed."
    if name == "fault_bad_json":
        return dice.pick((text[: len(text) * 2 // 3], text.replace('":', '"', 1), text[:-1] + ",", text[1:]))
    if name == "fault_bad_schema":
        return orjson.dumps(_without_a_field(value, dice)).decode()
    if name == "fault_bad_score":
        return orjson.dumps({**value, "score": dice.pick((4.5, 6, "4-5"))}).decode()
    marked = orjson.dumps(_marked(value, [False])).decode()
    return marked.replace(_MARK, f" {dice.pick(_LATEX)}")


def _without_a_field(value: Any, dice: Dice) -> Any:
    """An object without one of its fields: of the last object of the first list in it, if there is one."""
    if not isinstance(value, dict) or not value:
        return {"result": value}
    for name, part in value.items():
        if isinstance(part, list) and part and isinstance(part[-1], dict):
            return {**value, name: [*part[:-1], _without_a_field(part[-1], dice)]}
    gone = dice.pick(list(value))
    return {name: part for name, part in value.items() if name != gone}


def _marked(value: Any, done: list[bool]) -> Any:
    """The value with a mark at the end of its first string of several words."""
    if isinstance(value, str) and " " in value and not done[0]:
        done[0] = True
        return value + _MARK
    if isinstance(value, dict):
        return {name: _marked(part, done) for name, part in value.items()}
    if isinstance(value, list):
        return [_marked(part, done) for part in value]
    return value

"""The text of an answer with a fault in it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from deployments.simulator.dice import Dice
from deployments.simulator.json_instances import instance, resolve

HUGE = 5_000_000
SCORES = {
    "fault_score_fraction": '"4/5"',
    "fault_score_half": "4.5",
    "fault_score_text": '"4"',
    "fault_score_six": "6",
    "fault_score_nan": "NaN",
    "fault_bad_score": '"4-5"',  # or one of the others
}
_LATEX = (
    r"that is $\frac{3}{4} \times 8 = 6$",
    r"since $\beta \neq \frac{1}{2}$ and $\rho \times \theta$ stays",
    r"where $\sqrt{16} \leq \binom{5}{2}$ holds",
)
_MARK = "\u2402"
_SENTENCE = " It stays so, however often it is looked at."


def strange(name: str, value: Any, text: str) -> str:
    """The answer with a lone surrogate, a NUL or 5 MB more in it; ``value`` is None where it is plain text."""
    if name == "fault_huge":
        added = _SENTENCE * (HUGE // len(_SENTENCE) + 1)
    else:
        added = "\ud83d" if name == "fault_surrogate" else "\0"
    return text + added if value is None else _with(value, json.dumps(added)[1:-1])


def spoil(name: str, value: Any, schema: Mapping[str, Any], dice: Dice) -> str:
    """The structured answer's JSON text with the fault ``name`` in it."""
    text = orjson.dumps(value).decode()
    if name == "fault_prose":
        before = dice.pick(("Here is the result:\n\n", "Sure! I went through it step by step.\n```json\n"))
        return f"{before}{text}\n{'```' if '```' in before else ''}\nLet me know if anything else is needed."
    if name == "fault_bad_json":
        return dice.pick((text[: len(text) * 2 // 3], text.replace('":', '"', 1), text[:-1] + ",", text[1:]))
    if name == "fault_twice":
        return text + dice.pick(("", "\n", "\n\n")) + text
    if name == "fault_two":
        both = dice.shuffled((text, orjson.dumps(another(value, schema, dice)).decode()))
        return dice.pick(("\n", "\n\n")).join(both)
    if name == "fault_bad_schema":
        return orjson.dumps(_changed(value, lambda last: _without_a_field(last, dice))).decode()
    if name == "fault_extra":
        return orjson.dumps(_changed(value, lambda last: {**last, "confidence": 0.87})).decode()
    if name in SCORES:
        score = dice.pick(list(SCORES.values())) if name == "fault_bad_score" else SCORES[name]
        return orjson.dumps({**value, "score": _MARK}).decode().replace(f'"{_MARK}"', score, 1)
    return _with(value, f" {dice.pick(_LATEX)}")


def another(value: Any, schema: Mapping[str, Any], dice: Dice) -> Any:
    """A value of the same schema that differs in one field, the first that can; a list is turned round.

    The value itself where the schema allows no other.
    """
    properties = resolve(schema, schema).get("properties", {}) if isinstance(value, dict) else {}
    for name, part in properties.items():
        if isinstance(value[name], list) and value[name] != value[name][::-1]:
            return {**value, name: value[name][::-1]}
        if (drawn := _unlike(value[name], part, schema, dice)) != value[name]:
            return {**value, name: drawn}
    return _unlike(value, schema, schema, dice)


def _unlike(value: Any, schema: Any, root: Mapping[str, Any], dice: Dice) -> Any:
    """Another instance of the schema, or the value itself where 16 draws give no other."""
    drawn = (instance(schema, root, dice) for _ in range(16))
    return next((other for other in drawn if other != value), value)


def _changed(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The value with one object changed: the last of the first list of objects in it, or else itself."""
    if not isinstance(value, dict) or not value:
        return {"result": value}
    for name, part in value.items():
        if isinstance(part, list) and part and isinstance(part[-1], dict):
            return {**value, name: [*part[:-1], _changed(part[-1], change)]}
    return change(value)


def _without_a_field(value: dict[str, Any], dice: Dice) -> dict[str, Any]:
    gone = dice.pick(list(value))
    return {name: part for name, part in value.items() if name != gone}


def _with(value: Any, escaped: str) -> str:
    """The value's JSON with a text at the end of its first string of several words, as it stands in JSON."""
    return orjson.dumps(_marked(value, [False])).decode().replace(_MARK, escaped)


def _marked(value: Any, done: list[bool]) -> Any:
    if isinstance(value, str) and " " in value and not done[0]:
        done[0] = True
        return value + _MARK
    if isinstance(value, dict):
        return {name: _marked(part, done) for name, part in value.items()}
    if isinstance(value, list):
        return [_marked(part, done) for part in value]
    return value

"""A model's text as a value of a type: strict JSON first, repair only what fails, and no letter of it damaged.

    text                                              what becomes of it
    strict JSON, one object of the type               accepted
    the object in a fence, or with prose around it    accepted, repaired
    the same object twice                             accepted, repaired
    two different objects, a key twice with two values  MalformedOutput
    "\\frac", "\\alpha", "\\(" in strings               accepted, repaired: see tasks/latex.py
    a trailing comma, single quotes, no quotes        accepted, repaired, if every letter stays in its place
    cut off in the middle                             MalformedOutput, never completed
    NaN, Infinity                                     MalformedOutput
    another key, a key that lacks, another type       MalformedOutput
    a score of 4.0, "4", true, 6; a level that lacks  OutOfContract; never clamped or defaulted
    what a validator of the type refuses              OutOfContract
    a lone surrogate, NUL                             U+FFFD, sanitized

The messages of both errors are written to be shown to the model.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError

from tasks.latex import escapes_doubled, latex_restored

# A text field of a structured output: there must be something in it.
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]

_REPAIRABLE_LENGTH = 100_000  # characters; longer text is strict JSON or malformed
_MOST_MENDING = 5_000_000  # characters times marks: json_repair takes quadratic time, a second at this bound
_MOST_OBJECTS = 1_000  # places where an object may begin in the prose around it
_SHOWN = 80  # characters of a wrong value in a message
_MOST_MISTAKES = 5

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MARKS = re.compile("[][{}\"'\u201c\u201d]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NO_NUMBER = re.compile(r"(?<!\w)(?:nan|inf(?:inity)?)\s*[],}]", re.IGNORECASE)
_THOUGHTS = re.compile(r"\A\s*<think>.*</think>", re.DOTALL)

# Mistakes of value. All others are of shape.
_VALUE_MISTAKES = {
    "greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of", "finite_number",
    "literal_error", "enum", "value_error", "assertion_error", "too_short", "too_long",
    "string_too_short", "string_too_long", "string_pattern_mismatch",
}  # fmt: skip
# A mistake of any kind is one of value in these fields.
_VALUE_FIELDS = re.compile(r"score|level|verdict", re.IGNORECASE)

T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=BaseModel)


class MalformedOutput(ValueError):
    """The text is not one object of the wanted shape."""


class OutOfContract(ValueError):
    """The text has the wanted shape and a value that it must not have."""


class _NotJson(ValueError):
    """A constant that only looks like JSON, which no repair may make up for."""


@dataclass(frozen=True)
class Parsed(Generic[T_co]):
    """``repaired``: the JSON was not strict, or LaTeX in it was put right. ``sanitized``: U+FFFD was put in."""

    value: T_co
    repaired: bool
    sanitized: bool


def parse_structured(text: str, type_: type[M]) -> Parsed[M]:
    """The value of ``type_`` that the text holds. Raises ``MalformedOutput`` or ``OutOfContract``."""
    reader = _Reader()
    try:
        data = reader.read(text.strip(), set(type_.model_fields))
    except _NotJson as problem:
        raise MalformedOutput(str(problem)) from None
    if reader.twice:
        raise MalformedOutput(f"the key {', '.join(reader.twice)} stands twice, with different values")
    if not isinstance(data, dict):
        raise MalformedOutput("expected one JSON object, and nothing but that object")
    strings = _Strings(reader.unescaped)
    try:
        data = strings.each(data)
        value = type_.model_validate(data, strict=True, extra="forbid")
        mistake = next(_untrue_integers(data, value.model_dump(), ""), None)
    except ValidationError as problem:
        raise _mistakes(problem) from None
    except RecursionError:
        raise MalformedOutput("nested too deeply") from None
    if mistake:
        raise OutOfContract(mistake)
    return Parsed(value, reader.repaired or strings.restored, strings.sanitized)


def sanitize(text: str) -> tuple[str, bool]:
    """The text with U+FFFD for each lone surrogate and NUL, and whether there were any."""
    text, replaced = _UNSTORABLE.subn("\ufffd", text)
    return text, replaced > 0


class _Reader:
    """Reads JSON, and remembers what was done to read it."""

    def __init__(self) -> None:
        self.twice: list[str] = []  # keys with two values
        self.repaired = False
        self.unescaped = False  # the writer did not escape backslashes
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=_refuse)
        self._lenient = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=_refuse, strict=False)

    def read(self, text: str, keys: set[str]) -> Any:
        """The object of the text; None where there is none to be sure of."""
        try:
            return self._decode(self._decoder.decode, text)
        except _Failed:
            pass
        if len(text) > _REPAIRABLE_LENGTH:
            return None
        self.twice.clear()
        self.repaired = True
        text = _THOUGHTS.sub("", text).strip().removeprefix("\ufeff")
        doubled = escapes_doubled(text)
        found = [(data, source) for data, source in self._objects(doubled) if keys & data.keys()]
        if not found:
            self.unescaped = doubled != text
            return self._mended(doubled)
        self.unescaped = any(source not in text for _, source in found)
        first, *others = (json.dumps(data, sort_keys=True) for data, _ in found)
        return found[0][0] if all(other == first for other in others) else None

    def _objects(self, text: str) -> Iterator[tuple[dict[str, Any], str]]:
        """The objects that stand in a text, one after the other, whatever is between them, and their JSON."""
        begin = -1
        for _ in range(_MOST_OBJECTS):
            begin = text.find("{", begin + 1)
            if begin < 0:
                return
            kept = len(self.twice)
            try:
                data, end = self._decode(self._lenient.raw_decode, text, begin)
            except _Failed:
                del self.twice[kept:]
            else:
                yield data, text[begin:end]
                begin = end - 1

    def _mended(self, text: str) -> Any:
        """What json_repair makes of it, if it only moved punctuation: no letter added, lost or moved.

        What ends without its last brace, or with a quote that was never closed, was cut off.
        """
        from json_repair import loads

        begin, end = text.find("{"), text.rfind("}") + 1
        if not 0 <= begin < end or text[end:].strip("`\n\r\t ") or _ESCAPE.sub("", text[begin:end]).count('"') % 2:
            return None
        text = text[begin:end]
        if len(text) * len(_MARKS.findall(text)) > _MOST_MENDING or _NO_NUMBER.search(text):
            return None
        try:
            data = loads(text, skip_json_loads=True)
            again = json.dumps(data, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError, IndexError, KeyError):
            return None
        return data if _letters(again) == _letters(text) else None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) < len(pairs):
            self.repaired = True
            self.twice += sorted({key for key, value in pairs if value != data[key]})
        return data

    def _decode(self, decode: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return decode(*arguments)
        except _NotJson:
            raise
        except (ValueError, RecursionError):
            raise _Failed from None


class _Failed(Exception):
    """Not JSON as it stands."""


def _refuse(constant: str) -> Any:
    raise _NotJson(f"{constant} is not a JSON value")


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, _ESCAPE.sub("", text).casefold()))


class _Strings:
    """Puts right every string of a value, and remembers whether any was."""

    def __init__(self, unescaped: bool) -> None:
        self._unescaped = unescaped
        self.restored = False
        self.sanitized = False

    def each(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._one(value)
        if isinstance(value, list):
            return [self.each(item) for item in value]
        if isinstance(value, dict):
            return {self._one(key): self.each(item) for key, item in value.items()}
        return value

    def _one(self, text: str) -> str:
        text, replaced = sanitize(text)
        restored = latex_restored(text, unescaped=self._unescaped)
        self.sanitized |= replaced
        self.restored |= restored != text
        return restored


def _mistakes(problem: ValidationError) -> MalformedOutput | OutOfContract:
    kinds, lines = set(), []
    for mistake in problem.errors(include_url=False):
        place = ".".join(map(str, mistake["loc"]))
        field = next((str(part) for part in reversed(mistake["loc"]) if isinstance(part, str)), "")
        of_value = mistake["type"] in _VALUE_MISTAKES
        if mistake["type"] != "extra_forbidden" and _VALUE_FIELDS.search(field):
            of_value = True
        kinds.add(of_value)
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            message = "this key is not wanted"
        elif mistake["type"] == "missing":
            message = "this key is missing"
        elif mistake["type"] not in ("value_error", "assertion_error"):
            message = f"{message} (not {_shown(mistake['input'])})"
        lines.append(f"{place}: {message}" if place else message)
    text = "; ".join(lines[:_MOST_MISTAKES])
    if len(lines) > _MOST_MISTAKES:
        text += f"; and {len(lines) - _MOST_MISTAKES} more mistakes"
    return OutOfContract(text) if kinds == {True} else MalformedOutput(text)


def _untrue_integers(data: Any, dumped: Any, place: str) -> Iterator[str]:
    """Where the type took 4.0 or true for an integer, as pydantic's Literal does."""
    if isinstance(data, dict) and isinstance(dumped, dict):
        for key in data.keys() & dumped.keys():
            yield from _untrue_integers(data[key], dumped[key], f"{place}.{key}" if place else key)
    elif isinstance(data, list) and isinstance(dumped, list | tuple) and len(data) == len(dumped):
        for number, (item, other) in enumerate(zip(data, dumped, strict=True)):
            yield from _untrue_integers(item, other, f"{place}.{number}")
    elif type(dumped) is int and type(data) is not int:
        yield f"{place}: Input should be an integer (not {_shown(data)})"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

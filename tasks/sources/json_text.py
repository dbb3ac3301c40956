"""JSON from outside: strict, but for what real data sets hold all the same.

orjson reads nearly everything. What it refuses or rounds goes to Python's own parser: a lone surrogate in a
string (taken here, replaced later) and an integer beyond 64 bits (kept exactly).
"""

import json
import math
from collections.abc import Callable
from typing import Any

import orjson

BOM = b"\xef\xbb\xbf"


def parse_object(line: bytes) -> dict[str, Any]:
    """One JSON object. Raises ``ValueError`` with the reason in words."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _parse(line.rstrip(), _refuse)
    if type(value) is dict and any(type(field) is float and abs(field) >= 2**53 for field in value.values()):
        value = _parse(line.rstrip(), _refuse)
    if type(value) is not dict:
        raise ValueError("not a JSON object")
    return value


def parse_list(data: bytes) -> list[tuple[Any, bool]]:
    """The elements of one JSON list, each with whether it is free of NaN and infinities.

    Raises ``ValueError`` with the reason in words where the text is not JSON, or no list.
    """
    marks: list[object] = []

    def mark(text: str) -> object:
        marks.append(object())
        return marks[-1]

    value = _parse(data, mark)
    if type(value) is not list:
        raise ValueError("not a JSON list")
    return [(element, not (marks and _holds_mark(element))) for element in value]


def _parse(data: bytes, not_a_number: Callable[[str], Any]) -> Any:
    def number(text: str) -> Any:
        value = float(text)
        return value if math.isfinite(value) else not_a_number(text)

    try:
        return json.loads(data.decode("utf-8"), parse_constant=not_a_number, parse_float=number)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ValueError(f"not UTF-8: byte 0x{data[error.start]:02x} at {_place(line, column)}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg.removesuffix(' at')} at {_place(error.lineno, error.colno)}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None


def _place(line: int, column: int) -> str:
    return f"column {column}" if line == 1 else f"line {line}, column {column}"


def _refuse(text: str) -> Any:
    raise ValueError(f"not JSON: {text[:20]} is no number there")


def _holds_mark(value: Any) -> bool:
    todo = [value]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            todo.extend(value.values())
        elif type(value) is list:
            todo.extend(value)
        elif type(value) is object:
            return True
    return False

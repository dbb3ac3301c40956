"""A vendor's answer as it came over the wire: bytes to text, text to JSON, and values dug out of JSON of any shape.

Nothing here raises for what a server can send. A body may be cut off, not JSON, or JSON of another shape.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

BROKEN = "a successful answer whose body is cut off or not JSON"

_LARGEST_COUNT = 2**63 - 1  # a 64-bit column of the ledger
_SHORTEST_KEY, _SHORTEST_WORD = 8, 12  # characters; a word has no digit
_DEEPEST = 8  # backslashes before one character of a key: more than JSON in JSON in JSON has
_KEY_LIKE = re.compile(r"\b(?:sk|xai|gsk|AIza)[-_][\w*-]{8,}|\bAIza[\w*-]{8,}")


def decode(body: bytes, key: str = "") -> str:
    """The body as text, without the API key. Bytes that are not UTF-8 stay readable as ``\\xNN``."""
    return without_key(body.decode("utf-8", "backslashreplace"), key)


def load(body: str) -> Any:
    """The body's JSON. What orjson refuses, as an escaped lone surrogate, is left to ``json``.

    Raises ``ValueError`` where it is not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def load_object(body: str) -> dict[str, Any] | None:
    """The body's JSON object, or None where it is cut off, not JSON, or JSON of another kind.

    Google wraps an error in a list of one.
    """
    try:
        value = load(body)
    except ValueError:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else None


def dig(value: Any, *path: str) -> Any:
    """``value[path[0]][path[1]]...``, None where something on the way is missing or no object."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def word(value: Any) -> str | None:
    """A short text that goes into a record of its own: an id, a finish reason. Always valid UTF-8."""
    return clean(value) if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """A token count: an integer from 0 that fits 64 bits, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT:
        return value
    return None


def total(*counts: int | None) -> int | None:
    """The sum of the counts that are known, None where none is."""
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


def joined(texts: list[str]) -> str | None:
    """The texts as one, None where there is none at all (which is not the same as an empty one)."""
    return "".join(texts) if texts else None


def clean(text: str) -> str:
    """The text without lone surrogates, which no file takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def without_key(text: str, key: str) -> str:
    """The text without the API key: plain, as JSON escapes it, in JSON in JSON too, or as URLs do.

    A stand-in of a few letters is no secret, and may be a word of the text.
    """
    if len(key) < (_SHORTEST_KEY if any(map(str.isdigit, key)) else _SHORTEST_WORD):
        return text
    return _in_text(key, "%" in text or r"\u00" in text).sub("[key]", text)


@cache
def _in_text(key: str, escaped: bool) -> re.Pattern[str]:
    """Finds the key in a text; ``escaped``: also where letters and digits, which need not be, are escaped."""

    def one(character: str) -> str:
        plain = re.escape(character)
        if character.isalnum() and not escaped:
            return plain
        return rf"(?:\\{{0,{_DEEPEST}}}{plain}|(?:%|\\{{1,{_DEEPEST}}}u00)(?i:{ord(character):02x}))"

    return re.compile("".join(map(one, key)))


def without_any_key(text: str) -> str:
    """An error text without what looks like a key, as vendors quote one half blotted out."""
    return _KEY_LIKE.sub("[key]", text)


def header(headers: Mapping[str, str], *names: str) -> str | None:
    """The first of these headers that is there."""
    for name in names:
        if value := headers.get(name):
            return value
    return None

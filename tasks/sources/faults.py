"""What can be wrong with a source: all of it (``SourceError``), or one row.

A row that cannot be read is a ``BadRow``; one that is read but gives no question raises ``UnusableRow``, which
becomes a ``BadRow`` where its file and number are known. Their kinds are broken (not the format, or the wrong
type), missing_field, empty and too_long.
"""

from dataclasses import dataclass
from typing import Any

from storage.errors import UserError


class SourceError(UserError):
    """A source cannot be used; the message says which, what is wrong, and what to do."""


@dataclass(frozen=True)
class BadRow:
    """A row without a question. ``row`` is its number in ``file``, from 1; ``kind`` is what it is counted under."""

    file: str
    row: int
    reason: str
    kind: str = "broken"

    def __str__(self) -> str:
        return f"{self.file}:{self.row}: {self.reason}"


class UnusableRow(Exception):
    """The reason why a row gives no question, and its kind."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def described(value: Any) -> str:
    """A value's type in words for a message."""
    words = {
        dict: "an object", list: "a list", str: "text", bool: "true or false",
        int: "a number", float: "a number", type(None): "null",
    }  # fmt: skip
    return words.get(type(value), f"a {type(value).__name__}")

"""A question as one source's row holds it, and how fields are taken from a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tasks.sources.faults import UnusableRow, described

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """The text as it stands in the source; None where the source has no reference, or its licence is not known."""

    text: str
    reference_answer: str | None = None
    reference_solution: str | None = None
    licence: str | None = None


def required(row: Row, field: str) -> str:
    """A field's text. Raises ``UnusableRow`` where it is missing, null, blank or not text."""
    value = row.get(field)
    if type(value) is str:
        if not value or value.isspace():
            raise UnusableRow("empty", f"{field!r} is empty")
        return value
    if value is None:
        there = ", ".join(map(repr, list(row)[:8])) or "nothing"
        state = "is null" if field in row else f"is missing (the row has {there}{', ...' if len(row) > 8 else ''})"
        raise UnusableRow("missing_field", f"{field!r} {state}")
    raise UnusableRow("broken", f"{field!r} is not text but {described(value)}")


def optional(row: Row, field: str) -> str | None:
    """A field's text, None where it is missing, null, blank or Parquet's NaN.

    A number is written out, a whole one without its ``.0``. Raises ``UnusableRow`` for lists and objects.
    """
    value = row.get(field)
    if type(value) is str:
        return value if value and not value.isspace() else None
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, int | Decimal):
        return str(value)
    raise UnusableRow("broken", f"{field!r} is not text but {described(value)}")

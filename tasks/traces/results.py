"""Verdicts on traces from a file: a row's label and a model's verdict on it, in any of the usual spellings.

A column of an object in a row is named with a dot, as MR-GSM8K has it: ``gpt3_5_eval_output.correctness_pred``.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from storage.errors import UserError
from tasks.sources.faults import BadRow
from tasks.sources.rows import read_rows
from tasks.traces.figures import FIGURES, count, patch_completion

_CORRECT = {"correct", "right", "true", "yes", "1", "1.0", "valid", "pass", "passed"}
_INCORRECT = {"incorrect", "wrong", "false", "no", "0", "0.0", "invalid", "not correct", "not right", "fail", "failed"}


class ResultError(UserError):
    """A results file that cannot be used; the message names file, row and column."""


def read_verdict(said: Any) -> bool | None:
    """True for correct, False for incorrect, None for what says neither: never a guess."""
    text = " ".join(re.sub(r"[^\w.]+", " ", str(said)).lower().strip(" .").split())
    return True if text in _CORRECT else False if text in _INCORRECT else None


def classified(path: Path, label: str = "label", verdict: str = "verdict") -> dict[str, Any]:
    """The figures of one file. Rows without a readable verdict are counted beside and in no class.

    Raises ``ResultError`` for a column that is missing or a label that says neither.
    """
    labels, verdicts, unread = [], [], Counter[str]()
    for number, row in _rows(path):
        truth = read_verdict(_value(row, label, path, number))
        if truth is None:
            raise ResultError(
                f"{path}:{number}: {label} {_value(row, label, path, number)!r} says neither correct nor wrong"
            )
        said = _value(row, verdict, path, number)
        labels.append(truth)
        verdicts.append(read_verdict(said))
        if verdicts[-1] is None:
            unread[str(said)[:60]] += 1
    if not labels:
        raise ResultError(f"{path}: no row in it")
    counts = count(labels, verdicts)
    return {
        "traces": len(labels),
        **counts._asdict(),
        "unread_verdicts": dict(unread.most_common(5)),
        "figures": {name: figure(counts)._asdict() for name, figure in FIGURES.items()},
    }


def patches(path: Path, patch: str = "patch", passed: str = "passed") -> dict[str, Any]:
    """Patch completion from rows with a patch's text and whether it passed its tests. Raises ``ResultError``."""
    texts, results = [], []
    for number, row in _rows(path):
        text, said = _value(row, patch, path, number), _value(row, passed, path, number)
        result = read_verdict(said)
        if result is None and text is not None and str(text).strip():
            raise ResultError(f"{path}:{number}: {passed} {said!r} is neither true nor false")
        texts.append(None if text is None else str(text))
        results.append(bool(result))
    found = patch_completion(texts, results)
    empty = sum(text is None or not text.strip() for text in texts)
    return {"patches": len(texts), "empty": empty, "patch_completion": found._asdict()}


def _rows(path: Path) -> Any:
    for number, row in read_rows(path.absolute()):
        if isinstance(row, BadRow):
            raise ResultError(str(row))
        yield number, row


def _value(row: dict[str, Any], name: str, path: Path, number: int) -> Any:
    value: Any = row
    for part in [name] if name in row else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ResultError(f"{path}:{number}: no column {name!r}; the row has {', '.join(map(str, row))}")
        value = value[part]
    return value

"""Trace classification (Generating Data-Driven Reasoning Rubrics, rubric-reward-eval); a positive is a correct trace.

    specificity        TN / (TN + FP)
    recall             TP / (TP + FN)
    balanced accuracy  the mean of the two
    F0.5               1.25 P R / (0.25 P + R), P = TP / (TP + FP)

The recipe prints TP / (2 (TN + TP)) as balanced accuracy's second term, which is not half the recall; the sentence
beside it ("the average of the specificity and recall") is what ``balanced_accuracy`` is. The printed formula is
``balanced_accuracy_as_published``. A figure whose class is empty is null, with the reason.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tasks.agreement import Figure


class Counts(NamedTuple):
    """Traces by label and verdict; ``unread`` have a verdict that says neither."""

    tp: int
    fp: int
    tn: int
    fn: int
    unread: int = 0


def count(labels: Sequence[bool], verdicts: Sequence[bool | None]) -> Counts:
    """Counts of true labels against verdicts. Raises ``ValueError`` for different lengths."""
    pairs = list(zip(labels, verdicts, strict=True))
    return Counts(
        tp=pairs.count((True, True)),
        fp=pairs.count((False, True)),
        tn=pairs.count((False, False)),
        fn=pairs.count((True, False)),
        unread=sum(verdict is None for _, verdict in pairs),
    )


def specificity(counts: Counts) -> Figure:
    return _ratio(counts.tn, counts.tn + counts.fp, "no incorrect trace")


def recall(counts: Counts) -> Figure:
    return _ratio(counts.tp, counts.tp + counts.fn, "no correct trace")


def precision(counts: Counts) -> Figure:
    return _ratio(counts.tp, counts.tp + counts.fp, "no trace was called correct")


def balanced_accuracy(counts: Counts) -> Figure:
    parts = specificity(counts), recall(counts)
    if parts[0].value is None or parts[1].value is None:
        return Figure(None, "; ".join(part.note for part in parts if part.note))
    return Figure((parts[0].value + parts[1].value) / 2)


def balanced_accuracy_as_published(counts: Counts) -> Figure:
    """TN / (2 (FP + TN)) + TP / (2 (TN + TP)): the formula as it is printed."""
    first = _ratio(counts.tn, 2 * (counts.fp + counts.tn), "no incorrect trace")
    second = _ratio(counts.tp, 2 * (counts.tn + counts.tp), "no trace was classified rightly")
    if first.value is None or second.value is None:
        return Figure(None, "; ".join(part.note for part in (first, second) if part.note))
    return Figure(first.value + second.value)


def f_half(counts: Counts) -> Figure:
    """0 where precision and recall both are."""
    parts = precision(counts), recall(counts)
    if parts[0].value is None or parts[1].value is None:
        return Figure(None, "; ".join(part.note for part in parts if part.note))
    below = 0.25 * parts[0].value + parts[1].value
    return Figure(1.25 * parts[0].value * parts[1].value / below if below else 0.0)


FIGURES = {
    "specificity": specificity,
    "recall": recall,
    "precision": precision,
    "balanced_accuracy": balanced_accuracy,
    "balanced_accuracy_as_published": balanced_accuracy_as_published,
    "f_half": f_half,
}


def patch_completion(patches: Sequence[str | None], passed: Sequence[bool]) -> Figure:
    """Of the patches that are not empty, the share that passes its tests."""
    written = [ok for patch, ok in zip(patches, passed, strict=True) if patch is not None and patch.strip()]
    return _ratio(sum(written), len(written), "every patch is empty")


def _ratio(part: int, whole: int, empty: str) -> Figure:
    return Figure(part / whole) if whole else Figure(None, empty)

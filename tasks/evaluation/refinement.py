"""Refined answers: a verifier scores the original and the refined one under the same item (CriticGen, 4.1)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tasks.evaluation.scores import Interval

RATES = ("improved", "unchanged", "degraded", "non_degraded")


def refinement_figures(before: ArrayLike, after: ArrayLike) -> dict[str, Any]:
    """``n`` pairs with both scores, ``without_score``, and each of ``RATES`` with Wilson's 95 % interval.

    Rates are null, with a note, where no pair has both. Raises ``ValueError`` for arrays of different lengths.
    """
    first, second = np.asarray(before, float), np.asarray(after, float)
    if first.shape != second.shape:
        raise ValueError(f"refinement: {first.size} scores before against {second.size} after")
    both = ~np.isnan(first) & ~np.isnan(second)
    change = second[both] - first[both]
    counts = (change > 0, change == 0, change < 0, change >= 0)
    return {
        "n": int(both.sum()),
        "without_score": int((~both).sum()),
        **{name: share(int(count.sum()), len(change))._asdict() for name, count in zip(RATES, counts, strict=True)},
    }


def share(count: int, total: int) -> Interval:
    """``count / total`` with Wilson's 95 % interval; null where there is nothing to count."""
    if not total:
        return Interval(None, note="nothing to count")
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Interval(count / total, float(interval.low), float(interval.high))

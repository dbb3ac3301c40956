"""What weights are worth: how often the better response gets the higher score (section 4.1)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.agreement import Figure

SAME = 1e-9  # scores closer than this are a tie: sums of the same weights in another order


def response_scores(weights: ArrayLike, verdicts: ArrayLike) -> NDArray[np.float64]:
    """s(x, y) = sum_k w_k v_k(x, y) for each row of ``verdicts``, responses x criteria."""
    scores: NDArray[np.float64] = np.asarray(verdicts, float) @ np.asarray(weights, float)
    return scores


def preference_accuracy(preferred: ArrayLike, other: ArrayLike) -> Figure:
    """The share of samples whose preferred response has the higher score, a tie counting half; null without samples."""
    first, second = np.asarray(preferred, float), np.asarray(other, float)
    if first.shape != second.shape:
        raise ValueError(f"preferences: {first.size} scores against {second.size}")
    if not first.size:
        return Figure(None, "no sample")
    tie = np.abs(first - second) <= SAME
    return Figure(float(np.where(tie, 0.5, first > second).mean()))


def relative_improvement(accuracy: Figure, uniform: Figure) -> Figure:
    """Accuracy over uniform weighting's, less 1."""
    if accuracy.value is None or uniform.value is None:
        return Figure(None, accuracy.note or uniform.note)
    if uniform.value == 0:
        return Figure(None, "uniform weighting is never right")
    return Figure(accuracy.value / uniform.value - 1)


def weighted_accuracy(weights: Sequence[ArrayLike], verdicts: Sequence[ArrayLike], preferred: Sequence[int]) -> Figure:
    """Accuracy over samples with criteria of their own: for each, K weights, 2 x K verdicts, and which is preferred."""
    scores = [response_scores(one, table) for one, table in zip(weights, verdicts, strict=True)]
    better = [pair[place] for pair, place in zip(scores, preferred, strict=True)]
    worse = [pair[1 - place] for pair, place in zip(scores, preferred, strict=True)]
    return preference_accuracy(better, worse)

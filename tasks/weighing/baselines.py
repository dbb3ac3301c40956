"""The weightings that ICW is held against (section 4.1), each K weights that sum to 1."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# RaR's (Gunjal et al., Rubrics as Rewards) levels and their weights.
LEVELS = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}
SHRINKAGE = 0.1


def uniform(criteria: int) -> Array:
    """1/K each."""
    if criteria < 1:
        raise ValueError("weights: no criterion")
    return np.full(criteria, 1 / criteria)


def direct(numbers: ArrayLike) -> Array:
    """Weights that a model gave, brought to the sum 1. Raises ``ValueError`` for a negative one or none above 0."""
    weights = np.asarray(numbers, float)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise ValueError(f"weights: {weights.tolist()} are no weights: none may be negative, and one is above 0")
    shares: Array = weights / weights.sum()
    return shares


def averaged(repeated: Sequence[ArrayLike]) -> Array:
    """RACE-SC: the mean of several direct weightings, each brought to the sum 1 first."""
    if not len(repeated):
        raise ValueError("weights: no weighting to average")
    return direct(np.mean([direct(numbers) for numbers in repeated], axis=0))


def from_levels(levels: Sequence[str]) -> Array:
    """RaR: weights from named importance levels, whatever their case. Raises ``ValueError`` for another name."""
    unknown = [level for level in levels if level.strip().lower() not in LEVELS]
    if unknown:
        raise ValueError(f"weights: importance {unknown[0]!r} is none of {', '.join(LEVELS)}")
    return direct([LEVELS[level.strip().lower()] for level in levels])


def whitened_uniform(verdicts: ArrayLike) -> Array:
    """RRD-WU: uniform weights of the whitened verdicts, so that criteria which agree share their weight.

    ``verdicts`` is responses x criteria, 0 or 1. With C their correlations over the responses, shrunk a tenth of the
    way to the identity (there are few responses), w is C^(-1/2) 1, what is negative taken as 0. A criterion with the
    same verdict for every response correlates with none. Raises ``ValueError`` for an empty table.
    """
    table = np.asarray(verdicts, float)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"weights: verdicts of shape {table.shape}; they are responses x criteria")
    centred = table - table.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12)
    correlations = scaled.T @ scaled
    np.fill_diagonal(correlations, 1)
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * correlations + SHRINKAGE * np.eye(table.shape[1]))
    weights = vectors @ ((vectors.T @ np.ones(table.shape[1])) / np.sqrt(values))
    return direct(np.maximum(weights, 0))

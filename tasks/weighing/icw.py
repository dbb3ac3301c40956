"""ICW: weights from pairwise importance comparisons (Importance-Aware Criteria Weighting, section 3).

A round's judgments are a K x K array: ``judged[i, j]`` is what was said when criterion i was shown first and j second,
1 for the first, -1 for the second, 0 for neutral. Eq. 2 to 5:

    a_ij = alpha where both orders name i, 1/alpha where both name j, else 1
    w    = the principal eigenvector of A, summing to 1, with the eigenvalue lambda_max
    CI   = (lambda_max - K) / (K - 1)          CR = CI / RI_K

    >>> beats = np.array([[0, 1, 1], [-1, 0, 0], [-1, 0, 0]])    # the first over both others, in both orders
    >>> settled([beats]).weights.round(3).tolist()
    [0.6, 0.2, 0.2]
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Judged = NDArray[np.int8]

ALPHA = 3.0
TAU = 0.1
ROUNDS = 1

# Saaty (1980) for K = 3 to 15; beyond, that of 15.
RANDOM_INDEX = (0.58, 0.90, 1.12, 1.24, 1.32, 1.41, 1.45, 1.49, 1.51, 1.48, 1.56, 1.57, 1.59)

Status = Literal["agreed", "both_neutral", "one_neutral", "opposite"]


class Consistency(NamedTuple):
    """How far a comparison matrix contradicts itself."""

    eigenvalue: float  # lambda_max
    ci: float
    ratio: float  # CR


class Weighing(NamedTuple):
    """The weights so far; ``again`` says that another round of comparisons is wanted."""

    weights: Array
    matrix: Array
    consistency: Consistency
    round: int  # whose matrix it is, from 0
    again: bool


def comparison_matrix(judged: Judged, alpha: float = ALPHA) -> Array:
    """A of Eq. 2. Raises ``ValueError`` for an array that is not square, other judgments, or alpha below 1."""
    if judged.ndim != 2 or judged.shape[0] != judged.shape[1] or not judged.size:
        raise ValueError(f"comparisons: {judged.shape} is no K x K array")
    if not np.isin(judged, (-1, 0, 1)).all() or alpha < 1:
        raise ValueError("comparisons: a judgment is 1, 0 or -1, and alpha at least 1")
    return np.asarray(float(alpha) ** preferred(judged), np.float64)


def preferred(judged: Judged) -> NDArray[np.int64]:
    """1 where both display orders name i over j, -1 where both name j, else 0."""
    forward, backward = judged.astype(np.int64), judged.T.astype(np.int64)
    both = np.where((forward == 1) & (backward == -1), 1, 0)
    np.fill_diagonal(both, 0)
    return both - both.T


def principal_weights(matrix: Array) -> tuple[Array, float]:
    """The principal eigenvector of a positive reciprocal matrix, summing to 1, and its eigenvalue."""
    values, vectors = np.linalg.eig(matrix)
    place = int(np.argmax(values.real))
    vector = np.abs(vectors[:, place].real)
    return vector / vector.sum(), float(values[place].real)


def random_index(criteria: int) -> float:
    """RI of K criteria: 0 for one and two, which cannot contradict each other."""
    return 0.0 if criteria < 3 else RANDOM_INDEX[min(criteria, 15) - 3]


def consistency(matrix: Array) -> Consistency:
    """lambda_max, CI and CR; rounding below zero is zero."""
    criteria = len(matrix)
    eigenvalue = principal_weights(matrix)[1]
    if criteria < 3:
        return Consistency(float(criteria), 0.0, 0.0)
    index = max(0.0, (eigenvalue - criteria) / (criteria - 1))
    index = 0.0 if index < 1e-12 else index
    return Consistency(eigenvalue, index, index / random_index(criteria))


def settled(rounds: Sequence[Judged], *, alpha: float = ALPHA, tau: float = TAU, most: int = ROUNDS) -> Weighing:
    """The weights after the rounds asked so far: the first, then the revisions (section 3.4).

    A revision's matrix is taken only if its CR is strictly lower than the current one's. Another is wanted while that
    is over ``tau`` and fewer than ``most`` were asked. Raises ``ValueError`` without a round.
    """
    if not rounds:
        raise ValueError("comparisons: no round")
    matrix, place = comparison_matrix(rounds[0], alpha), 0
    found = consistency(matrix)
    for number, judged in enumerate(rounds[1 : most + 1], 1):
        if found.ratio <= tau:
            break
        revised = comparison_matrix(judged, alpha)
        if (ratio := consistency(revised)).ratio < found.ratio:
            matrix, found, place = revised, ratio, number
    again = found.ratio > tau and len(rounds) <= most
    return Weighing(principal_weights(matrix)[0], matrix, found, place, again)


def status(forward: int, backward: int) -> Status:
    """What a pair's two judgments say together, as a revision's prompt has it."""
    if forward == backward == 0:
        return "both_neutral"
    if forward == 0 or backward == 0:
        return "one_neutral"
    return "agreed" if forward == -backward else "opposite"

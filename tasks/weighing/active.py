"""ICW from part of the comparisons: which to ask next, and the matrix completed from those asked.

Each comparison (two criteria in one display order) is an observation of x_i - x_j, +1, -1 or 0; x is their least
squares with a small ridge. The comparisons most worth asking are those whose order is least certain: the smallest
|x_i - x_j| over its standard error, first in one order, then, if they stay close, in the other too. Orders alternate,
so that a liking for the first shown cancels. It stops when the ranking and CR have settled, or at a share of all.

What was not asked is then taken as x has it, so that weights and CR are those of a whole matrix.

    plan = Plan.start(criteria=20, seed=0)
    while plan.wanted():
        plan = plan.told({(i, j): ask(i, j) for i, j in plan.wanted()})    # 1 the first, -1 the second, 0 neutral
    plan.judged()                                                          # for icw.settled([...])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tasks.weighing.icw import ALPHA, Judged, comparison_matrix, consistency

RIDGE = 1.0
SECOND_ORDER = 1.0  # how much surer a pair asked once counts than one that was not
SETTLED_BATCHES = 4
FEW = 4  # criteria that are compared in full

Pair = tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """The comparisons told so far, in batches; everything else follows from them."""

    criteria: int
    seed: int
    most: int  # comparisons in all
    batches: tuple[tuple[tuple[Pair, int], ...], ...] = ()

    @classmethod
    def start(cls, criteria: int, *, share: float = 0.35, seed: int = 0) -> "Plan":
        """For K criteria: at most that share of the K(K - 1) comparisons, and all of them for K up to 4."""
        if criteria < 1 or not 0 < share <= 1:
            raise ValueError("a plan has at least one criterion and a share in (0, 1]")
        every = criteria * (criteria - 1)
        return cls(criteria, seed, every if criteria <= FEW else max(int(share * every), 2 * criteria))

    @property
    def asked(self) -> int:
        return sum(map(len, self.batches))

    def wanted(self) -> list[Pair]:
        """The next batch, (first shown, second shown); none when it is done."""
        left = self.most - self.asked
        if left <= 0 or self.settled():
            return []
        if not self.batches:
            order = np.random.default_rng(self.seed).permutation(self.criteria).tolist()
            pairs = list(zip(order[::2], order[1::2], strict=False))
        else:
            pairs = self._closest(max(1, self.criteria // 4))
        return pairs[:left]

    def told(self, results: Mapping[Pair, int]) -> "Plan":
        """The plan with a batch's results: 1 the first shown, -1 the second, 0 neutral. Raises ``ValueError``."""
        known = {pair for batch in self.batches for pair, _ in batch}
        for (first, second), result in results.items():
            if first == second or not {first, second} <= set(range(self.criteria)) or result not in (-1, 0, 1):
                raise ValueError(f"a comparison of {first} and {second} with {result} is none of this plan")
            if (first, second) in known:
                raise ValueError(f"{first} and {second} were compared in this order before")
        return replace(self, batches=(*self.batches, tuple(results.items())))

    def positions(self) -> NDArray[np.float64]:
        """x of every criterion, the most important highest."""
        return self._estimate(self.batches)[0]

    def judged(self) -> Judged:
        """A whole round of judgments: those told, and for the others the order of x."""
        return self._completed(self.batches)

    def settled(self) -> bool:
        """Whether the last batches changed neither the ranking nor CR (by 0.01)."""
        if self.criteria <= FEW or len(self.batches) <= SETTLED_BATCHES or self.asked < 2 * self.criteria:
            return False
        ends = [self.batches[: len(self.batches) - back] for back in range(SETTLED_BATCHES)]
        rankings = [tuple(np.argsort(self._estimate(end)[0], kind="stable")) for end in ends]
        if len(set(rankings)) > 1:
            return False
        ratios = [consistency(comparison_matrix(self._completed(end), ALPHA)).ratio for end in ends]
        return all(abs(one - other) < 0.01 for one, other in pairwise(ratios))

    def _estimate(
        self, batches: Sequence[Sequence[tuple[Pair, int]]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x, and the covariance of its errors up to a factor."""
        laplacian, sums = RIDGE * np.eye(self.criteria), np.zeros(self.criteria)
        for (i, j), result in (told for batch in batches for told in batch):
            sums[i] += result
            sums[j] -= result
            laplacian[[i, j], [i, j]] += 1
            laplacian[[i, j], [j, i]] -= 1
        covariance = np.asarray(np.linalg.inv(laplacian), np.float64)
        return covariance @ sums, covariance

    def _completed(self, batches: Sequence[Sequence[tuple[Pair, int]]]) -> Judged:
        x = self._estimate(batches)[0]
        judged = np.sign(np.round(x[:, None] - x[None, :], 12)).astype(np.int8)
        for (i, j), result in (told for batch in batches for told in batch):
            judged[i, j] = result
        return judged

    def _closest(self, count: int) -> list[Pair]:
        """The least certain pairs, no criterion twice."""
        x, covariance = self._estimate(self.batches)
        spread = np.diag(covariance)
        error = np.sqrt(np.maximum(spread[:, None] + spread[None, :] - 2 * covariance, 1e-12))
        known = np.zeros((self.criteria, self.criteria), bool)
        for pair, _ in (told for batch in self.batches for told in batch):
            known[pair] = True
        certain = np.abs(x[:, None] - x[None, :]) / error + SECOND_ORDER * (known | known.T)
        certain[(known & known.T) | np.tri(self.criteria, dtype=bool)] = np.inf
        first_shown = known.sum(axis=1) - known.sum(axis=0)
        pairs: list[Pair] = []
        used: set[int] = set()
        for place in np.argsort(certain, axis=None, kind="stable"):
            i, j = divmod(int(place), self.criteria)
            if len(pairs) == count or not np.isfinite(certain[i, j]):
                break
            if not used & {i, j}:
                used |= {i, j}
                turned = known[i, j] or (not known[j, i] and first_shown[i] > first_shown[j])
                pairs.append((j, i) if turned else (i, j))
        return pairs

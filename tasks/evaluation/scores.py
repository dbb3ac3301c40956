"""A critic's scores against reference scores (CriticGen, section 4.1; Kendall's tau too, appendix F).

Scores are levels of a scale (0 to 5, 1 to 5), so all there is to know of n pairs is the table of counts ``N[i, j]``:
how often the reference gave level i and the critic level j. Every figure is a function of that table, over any
number of tables at once, and a bootstrap resample of the pairs is one multinomial draw of it.

    >>> score_figures([1, 2, 3, 4], [1, 2, 3, 5])["spearman"].value
    1.0
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tasks.agreement import Figure, weighted_kappa

Array = NDArray[np.float64]

MAX_LEVELS = 101
RESAMPLES = 2_000
GROUPINGS = ("source", "family", "generator")


class Interval(NamedTuple):
    """A figure with its 95 % interval; None, with the reason, where it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    note: str | None = None


class TooManyLevels(ValueError):
    """More different scores than a scale has."""


def score_figures(
    reference: ArrayLike, predicted: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Every figure of ``FIGURES`` over the pairs in which neither score is NaN, with percentile bootstrap intervals.

    Pairs are drawn independently, so rows of one answer count as independent. Resamples in which a figure is
    undefined (all scores equal) are left out of its interval. Kappa wants whole numbers. Raises ``TooManyLevels`` for
    more than 101 different scores, ``ValueError`` for arrays of different lengths.
    """
    first, second = np.asarray(reference, float), np.asarray(predicted, float)
    if first.shape != second.shape:
        raise ValueError(f"scores: {first.size} references against {second.size} predictions")
    both = ~np.isnan(first) & ~np.isnan(second)
    levels, table = _table(first[both], second[both])
    total = int(table.sum())
    if total == 0:
        return {name: Interval(None, note="no pair has both scores") for name in FIGURES}
    cells = np.flatnonzero(table)
    draws = np.zeros((resamples, table.size), np.int64)
    draws[:, cells] = np.random.default_rng(seed).multinomial(total, table.flat[cells] / total, size=resamples)
    draws = draws.reshape(-1, *table.shape)
    note = _constant(levels, table)
    return {
        name: _interval(_point(name, figure, levels, table), figure, levels, draws, note)
        for name, figure in FIGURES.items()
    }


def score_report(pairs: pl.DataFrame, *, resamples: int = RESAMPLES) -> list[dict[str, Any]]:
    """A row of figures overall, by source, family and generator where ``pairs`` has them, and by reference level.

    ``pairs`` has reference and predicted, null where there is none. A row: grouping, group, n (pairs with both),
    without_prediction, without_reference, figures.
    """
    rows = []
    for grouping, group, frame in _groups(pairs):
        reference, predicted = (frame[name].cast(pl.Float64).to_numpy() for name in ("reference", "predicted"))
        rows.append(
            {
                "grouping": grouping,
                "group": group,
                "n": int((~np.isnan(reference) & ~np.isnan(predicted)).sum()),
                "without_prediction": int(np.isnan(predicted).sum()),
                "without_reference": int(np.isnan(reference).sum()),
                "figures": {
                    name: interval._asdict()
                    for name, interval in score_figures(reference, predicted, resamples=resamples).items()
                },
            }
        )
    return rows


def score_table(reference: ArrayLike, predicted: ArrayLike) -> tuple[list[float], list[list[int]]]:
    """The levels and the table of counts, the reference's level down, the critic's across."""
    first, second = np.asarray(reference, float), np.asarray(predicted, float)
    both = ~np.isnan(first) & ~np.isnan(second)
    levels, table = _table(first[both], second[both])
    return levels.tolist(), table.tolist()


def pearson(levels: Array, tables: Array) -> Array:
    return _correlation(levels, levels, tables)


def spearman(levels: Array, tables: Array) -> Array:
    """Pearson's of the ranks, equal scores sharing the mean of theirs."""
    return _correlation(_midranks(tables.sum(axis=-1)), _midranks(tables.sum(axis=-2)), tables)


def kendall(levels: Array, tables: Array) -> Array:
    """Tau-b: (concordant - discordant) / sqrt((pairs not tied in one) (pairs not tied in the other))."""
    after = np.flip(np.flip(tables, (-2, -1)).cumsum(-2).cumsum(-1), (-2, -1))  # at or after (i, j) in both
    later = np.flip(np.flip(tables, -2).cumsum(-2), -2)
    up = np.zeros_like(tables)
    up[..., :-1, :-1] = after[..., 1:, 1:]
    down = np.zeros_like(tables)
    down[..., :-1, 1:] = later.cumsum(-1)[..., 1:, :-1]
    total = tables.sum((-2, -1))
    free = [total**2 - (tables.sum(axis) ** 2).sum(-1) for axis in (-1, -2)]
    return _over(2 * (tables * (up - down)).sum((-2, -1)), np.sqrt(free[0] * free[1]))


def absolute_error(levels: Array, tables: Array) -> Array:
    mean: Array = (tables * np.abs(levels[:, None] - levels)).sum((-2, -1)) / tables.sum((-2, -1))
    return mean


def exact_agreement(levels: Array, tables: Array) -> Array:
    share: Array = np.trace(tables, axis1=-2, axis2=-1) / tables.sum((-2, -1))
    return share


def quadratic_kappa(levels: Array, tables: Array) -> Array:
    """As ``agreement.weighted_kappa``, over many tables; NaN for scores that are not whole numbers."""
    if (levels % 1).any():
        return np.full(tables.shape[:-2], np.nan)
    weights = (levels[:, None] - levels) ** 2
    expected = np.einsum("ij,...i,...j->...", weights, tables.sum(-1), tables.sum(-2)) / tables.sum((-2, -1))
    ratio = _over((weights * tables).sum((-2, -1)), expected)
    return 1 - ratio


FIGURES: Mapping[str, Callable[[Array, Array], Array]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
    "mean_absolute_error": absolute_error,
    "exact_agreement": exact_agreement,
    "quadratic_kappa": quadratic_kappa,
}


def _table(reference: Array, predicted: Array) -> tuple[Array, NDArray[np.int64]]:
    """Whole scores stand on their whole scale, so that a level nobody gave keeps its place in kappa's distances."""
    levels = np.unique(np.concatenate([reference, predicted]))
    if len(levels) and not (levels % 1).any() and levels[-1] - levels[0] < MAX_LEVELS:
        levels = np.arange(levels[0], levels[-1] + 1)
    if len(levels) > MAX_LEVELS:
        raise TooManyLevels(f"{len(levels)} different scores: a scale has at most {MAX_LEVELS} levels")
    table = np.zeros((len(levels), len(levels)), np.int64)
    np.add.at(table, (np.searchsorted(levels, reference), np.searchsorted(levels, predicted)), 1)
    return levels, table


def _point(
    name: str, figure: Callable[[Array, Array], Array], levels: Array, table: NDArray[np.int64]
) -> Figure | float:
    if name == "quadratic_kappa" and not (levels % 1).any():
        return weighted_kappa(table)
    return float(figure(levels, table.astype(float)))


def _interval(
    point: Figure | float,
    figure: Callable[[Array, Array], Array],
    levels: Array,
    draws: NDArray[np.int64],
    constant: str | None,
) -> Interval:
    if isinstance(point, Figure):
        value, note = point
    else:
        value, note = (None, constant or "the scores are not whole numbers") if np.isnan(point) else (point, None)
    if value is None:
        return Interval(None, note=note)
    values = np.concatenate(
        [figure(levels, part.astype(float)) for part in np.array_split(draws, max(1, draws.size // 2**22))]
    )
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(value, note="undefined in every resample")
    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(value, float(low), float(high))


def _constant(levels: Array, table: NDArray[np.int64]) -> str | None:
    if table.sum() == 1:
        return "one pair only"
    for axis, who in ((1, "reference"), (0, "predicted")):
        given = np.flatnonzero(table.sum(axis))
        if len(given) == 1:
            return f"every {who} score is {levels[given[0]]:g}: no correlation is defined"
    return None


def _midranks(counts: Array) -> Array:
    return counts.cumsum(-1) - (counts - 1) / 2


def _correlation(first: Array, second: Array, tables: Array) -> Array:
    total = tables.sum((-2, -1))
    rows, columns = tables.sum(-1), tables.sum(-2)
    first = first - ((rows * first).sum(-1) / total)[..., None]
    second = second - ((columns * second).sum(-1) / total)[..., None]
    together = (first * np.einsum("...ij,...j->...i", tables, second)).sum(-1)
    spreads = (rows * first**2).sum(-1) * (columns * second**2).sum(-1)
    return _over(together, np.sqrt(spreads))


def _over(numerator: Array, denominator: Array) -> Array:
    """The ratio, NaN over zero."""
    ratio: Array = np.full(np.shape(numerator), np.nan)
    return np.divide(numerator, denominator, out=ratio, where=denominator > 1e-12)


def _groups(pairs: pl.DataFrame) -> Sequence[tuple[str, str | None, pl.DataFrame]]:
    groups: list[tuple[str, str | None, pl.DataFrame]] = [("overall", None, pairs)]
    named = [name for name in GROUPINGS if name in pairs.columns]
    levelled = pairs.filter(pl.col("reference").is_not_null())
    for grouping, frame in [*((name, pairs) for name in named), ("reference", levelled)]:
        for (group,), inside in frame.sort(grouping, nulls_last=True, maintain_order=True).group_by(
            grouping, maintain_order=True
        ):
            label = None if group is None else f"{group:g}" if grouping == "reference" else str(group)
            groups.append(("level" if grouping == "reference" else grouping, label, inside))
    return groups

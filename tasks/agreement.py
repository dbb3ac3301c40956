"""How far the teacher and the judges agree, from the table ``consensus`` alone.

Raters are the teacher and each judge; scores are 0 to 5. For each pair of raters, over the items both scored:

- the 6 x 6 matrix of counts, the first rater's score down, the second's across;
- the share of equal scores;
- quadratic weighted kappa (Cohen, 1968): ``1 - sum(w O) / sum(w E)`` with ``w_ij = (i - j)^2``, O the matrix and
  E_ij = (row i's sum)(column j's sum) / N, what two unrelated raters with these habits would give. It is undefined
  (null, with a note) where E has no disagreement at all: both raters gave one and the same score to every item.

For each group, Krippendorff's alpha over all raters and all items with two scores or more, missing scores allowed
(Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011). The metric is ordinal: an item's levels are ordered
descriptions of its own, so a step from 0 to 1 need not be as large as one from 4 to 5; ordinal distances count the
ratings in between instead. Undefined where no item has two scores, or all scores are equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from storage.schemas import LEVELS

TEACHER = "teacher"
GROUPINGS = ("family", "source", "generator")

Counts = NDArray[np.int64]

REPORT: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "grouping": pl.String,  # overall, family, source or generator
    "group": pl.String,  # the family, ...; null for overall, and for items that `by` does not place
    "items": pl.Int64,  # rubric items of the group
    "kept": pl.Int64,  # of these kept by the consensus
    "share_kept": pl.Float64,
    "alpha": pl.Float64,  # over all raters of the group
    "alpha_note": pl.String,  # why it is null
    "first": pl.String,  # the pair's raters: teacher, or a judge's vendor/model
    "second": pl.String,
    "scored": pl.Int64,  # items that both scored
    "equal": pl.Float64,  # share of these with equal scores, null when there are none
    "kappa": pl.Float64,
    "kappa_note": pl.String,  # why it is null
    "matrix": pl.List(pl.List(pl.Int64)),
}


class Figure(NamedTuple):
    """A value, or None and the reason why there is none."""

    value: float | None
    note: str | None = None


def agreement_report(consensus: pl.DataFrame, by: pl.DataFrame) -> pl.DataFrame:
    """A row for each pair of raters in each group: overall, then by family, source and generator of the items.

    ``by`` has item_id, at most one row each, and those of the columns family, source and generator that are to be
    reported. What is of the group and not of the pair (items, kept, alpha) stands in each of its rows. Columns:
    ``REPORT``. Raises ``ValueError`` when the rows of ``consensus`` are not of the same judges, or an item has two
    rows in ``by``.
    """
    raters = [TEACHER, *_judges(consensus)]
    scores = score_columns(consensus)
    kept = consensus["kept"].to_numpy()
    if len(twice := by.filter(pl.col("item_id").is_duplicated())):
        raise ValueError(f"agreement: item {twice['item_id'][0]} has more than one row in the groups")
    groupings = [grouping for grouping in GROUPINGS if grouping in by.columns]
    groups = consensus.select("item_id").join(
        by.select("item_id", *groupings), on="item_id", how="left", maintain_order="left"
    )
    rows = [
        {"grouping": grouping, "group": group, **row}
        for grouping, group, inside in _groups(groups)
        for row in _pairs(raters, scores[inside], kept[inside])
    ]
    return pl.DataFrame(rows, schema=REPORT)


def score_columns(consensus: pl.DataFrame) -> NDArray[np.float64]:
    """items x raters: the teacher's scores, then each judge's in the order of the votes; NaN where there is none."""
    judges = len(_judges(consensus))
    columns = [pl.col("teacher_score")]
    columns += [pl.col("votes").list.get(place).struct.field("score").alias(f"{place}") for place in range(judges)]
    return consensus.select(columns).cast(pl.Float64).fill_null(float("nan")).to_numpy()


def score_matrix(first: NDArray[np.float64], second: NDArray[np.float64]) -> Counts:
    """6 x 6 counts of the items that both scored: the first rater's score down, the second's across."""
    both = ~np.isnan(first) & ~np.isnan(second)
    matrix = np.zeros((len(LEVELS), len(LEVELS)), np.int64)
    np.add.at(matrix, (first[both].astype(int), second[both].astype(int)), 1)
    return matrix


def weighted_kappa(matrix: Counts, *, power: int = 2) -> Figure:
    """Weighted kappa of a matrix of counts, quadratic, or linear with ``power=1``.

    0 where only one of the raters gave one score to all.
    """
    total = matrix.sum()
    if not total:
        return Figure(None, "no item was scored by both")
    levels = np.arange(len(matrix))
    weights = np.abs(levels[:, None] - levels[None, :]) ** power
    expected = (weights * np.outer(matrix.sum(axis=1), matrix.sum(axis=0))).sum() / total
    if not expected:
        return Figure(None, f"both gave {int(matrix.sum(axis=1).argmax())} to every item: no disagreement is possible")
    return Figure(float(1 - (weights * matrix).sum() / expected))


def krippendorff_alpha(scores: NDArray[np.float64]) -> Figure:
    """Ordinal alpha of items x raters, NaN where a rater gave no score."""
    # Values from 0 to 5 per item, how often each was given.
    counts = (scores[:, :, None] == np.array(LEVELS)).sum(axis=1)
    counts = counts[counts.sum(axis=1) > 1]
    if not len(counts):
        return Figure(None, "no item has two scores")
    if np.count_nonzero(counts.sum(axis=0)) == 1:
        return Figure(None, f"every score is {int(counts.sum(axis=0).argmax())}: no disagreement is possible")
    import krippendorff

    return Figure(float(krippendorff.alpha(value_counts=counts, level_of_measurement="ordinal")))


def _judges(consensus: pl.DataFrame) -> Sequence[str]:
    different = consensus.select(pl.col("votes").list.eval(pl.element().struct.field("model"))).unique()["votes"]
    if len(different) > 1:
        raise ValueError(f"agreement: rows of different judges: {' and '.join(map(str, different.head(2).to_list()))}")
    return different[0].to_list() if len(different) else []


def _groups(groups: pl.DataFrame) -> Iterator[tuple[str, str | None, NDArray[np.bool_]]]:
    yield "overall", None, np.ones(len(groups), np.bool_)
    for grouping in groups.columns[1:]:
        for group in groups[grouping].unique().sort(nulls_last=True):
            yield grouping, group, groups.select(pl.col(grouping).eq_missing(group)).to_series().to_numpy()


def _pairs(raters: Sequence[str], scores: NDArray[np.float64], kept: NDArray[np.bool_]) -> Iterator[dict[str, object]]:
    alpha = krippendorff_alpha(scores)
    for first, second in combinations(range(len(raters)), 2):
        matrix = score_matrix(scores[:, first], scores[:, second])
        kappa = weighted_kappa(matrix)
        scored = int(matrix.sum())
        yield {
            "items": len(kept),
            "kept": int(kept.sum()),
            "share_kept": float(kept.mean()) if len(kept) else None,
            "alpha": alpha.value,
            "alpha_note": alpha.note,
            "first": raters[first],
            "second": raters[second],
            "scored": scored,
            "equal": float(np.trace(matrix)) / scored if scored else None,
            "kappa": kappa.value,
            "kappa_note": kappa.note,
            "matrix": matrix.tolist(),
        }

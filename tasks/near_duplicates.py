"""Near-duplicates (CriticGen, Appendix B, Eq. 9): an instance that repeats one already retained is dropped.

    J(x, y) = |G(x) and G(y)| / |G(x) or G(y)|,   G: the set of word n-grams (n = 4) of an instance's text

The instances are walked in the order of their ids as UTF-8 bytes (a workspace's ids are hashes, so the order means
nothing, and is the same on every machine whatever order the rows come in), or in the order they come in. One is
dropped when its largest J with an instance *retained before it* is greater than the threshold; its twin is the
retained instance of that largest J, the earliest where several have it. An instance of fewer than n tokens has no
n-gram: it repeats another such one when their normalized texts are equal, which counts as J = 1.

The result is exactly that of this walk, whatever the number of threads (tasks/gram_join.py says how). Instances are
read once, in any order, and only their hashed n-grams are kept, so the texts need not be in memory together.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from storage.errors import UserError
from tasks.gram_join import Join
from tasks.gram_sets import GramSets, gram_sets
from tasks.text import Mode

Order = Literal["id", "input"]
Frames = pl.DataFrame | Iterable[pl.DataFrame]
Ints = NDArray[np.int64]


class IdTwice(UserError, ValueError):
    """An id stands for two instances, so that a decision about it would be about neither."""


def near_duplicates(
    instances: Frames, *, data_set: str, threshold: float = 0.75, n: int = 4, mode: Mode = "word"
) -> pl.DataFrame:
    """The table ``near_duplicates`` for ``instances`` (instance_id, text), in the order of their ids.

    Raises as ``decisions`` does.
    """
    try:
        found = decisions(instances, threshold=threshold, n=n, mode=mode)
    except IdTwice as error:
        raise IdTwice(f"{data_set}: {error}") from None
    return found.sort("instance_id").select(pl.lit(data_set).alias("data_set"), pl.all())


def decisions(
    instances: Frames, *, threshold: float = 0.75, n: int = 4, mode: Mode = "word", order: Order = "id"
) -> pl.DataFrame:
    """For each of ``instances`` (instance_id, text), as they come: kept, twin_id, shared, union, jaccard.

    ``instances`` is a frame, or frames one after another. A null text counts as an empty one. With threshold 1 nothing
    is dropped. Raises ``IdTwice`` when an id stands twice, and ``ValueError`` when the threshold is not within 0 and 1.
    """
    limit = exact(threshold)
    parts = [pl.Series("instance_id", [], pl.String)]

    def texts() -> Iterable[pl.Series]:
        for frame in [instances] if isinstance(instances, pl.DataFrame) else instances:
            parts.append(frame["instance_id"].cast(pl.String))
            yield frame["text"]

    sets = gram_sets(texts(), n, mode)
    ids = pl.concat(parts)
    if ids.n_unique() < len(ids):
        raise IdTwice(f"instance {ids.filter(ids.is_duplicated())[0]} stands twice")
    walked = ids.arg_sort().to_numpy().astype(np.int64) if order == "id" else np.arange(len(ids))
    twin, shared, union = Join(sets, limit, order=walked).walk()
    if limit < 1:
        for row, other in _equal_short(sets, walked):
            twin[row] = other
    found = pl.DataFrame(
        {"row": walked, "twin": np.where(twin < 0, -1, walked[twin]), "shared": shared, "union": union}
    )
    return (
        found.sort("row")
        .with_columns(ids.alias("instance_id"), kept=pl.col("twin") < 0)
        .select(
            "instance_id",
            "kept",
            pl.when(~pl.col("kept")).then(pl.col("instance_id").gather(pl.col("twin").clip(0))).alias("twin_id"),
            pl.when(pl.col("union") > 0).then("shared").alias("shared"),
            pl.when(pl.col("union") > 0).then("union").alias("union"),
            pl.when(pl.col("union") > 0)
            .then(pl.col("shared") / pl.col("union"))
            .when(~pl.col("kept"))
            .then(1.0)
            .alias("jaccard"),
        )
    )


def pairs_over(
    left: pl.Series, right: pl.Series | None = None, *, threshold: float, n: int = 4, mode: Mode = "word"
) -> pl.DataFrame:
    """Every pair of a text of ``left`` and one of ``right`` whose J is greater than the threshold.

    Without ``right``: every pair within ``left``, the earlier row as ``left``. Columns ``left`` and ``right`` (row
    numbers), ``shared`` and ``union``, both null for equal texts of fewer than n tokens. Sorted by left and right.
    Rows that all repeat one another make quadratically many pairs.
    """
    limit = exact(threshold)
    border = len(left)
    within = right is None
    # The right ones are stored, the left ones looked up among them.
    sets = gram_sets([left] if right is None else [right, left], n, mode)
    before = len(sets) - border
    first, second, shared, union = Join(sets, limit, before=before).pairs(within=within).T
    found = pl.DataFrame(
        {
            "left": first if within else second - before,
            "right": second if within else first,
            "shared": shared,
            "union": union,
        }
    )
    if limit < 1:
        found = pl.concat([found, _short_pairs(sets, before, within)])
    return found.sort("left", "right")


def exact(threshold: float) -> Fraction:
    """The threshold as the decimal fraction it is written as: 0.7 is 7/10, not the nearest binary float.

    Raises ``ValueError`` when it is not within 0 and 1, or has more than nine decimals.
    """
    limit = Fraction(str(threshold))
    if not 0 <= limit <= 1 or limit.denominator > 10**9:
        raise ValueError(f"threshold {threshold}: a Jaccard lies within 0 and 1 (at most nine decimals)")
    return limit


def _equal_short(sets: GramSets, order: Ints) -> Iterable[tuple[int, int]]:
    """Of the rows without n-grams, by their place in the walk, those whose text an earlier one has, and the first."""
    first: dict[bytes, int] = {}
    places = np.argsort(order)
    for place, text in sorted((int(places[row]), text) for row, text in sets.short.items()):
        if first.setdefault(text, place) != place:
            yield place, first[text]


def _short_pairs(sets: GramSets, before: int, within: bool) -> pl.DataFrame:
    short = pl.DataFrame(
        {"row": list(sets.short), "text": list(sets.short.values())}, schema={"row": pl.Int64, "text": pl.Binary}
    )
    pairs = short.join(short, on="text", suffix="_other")
    if within:
        pairs = pairs.filter(pl.col("row") < pl.col("row_other")).select(left="row", right="row_other")
    else:
        pairs = pairs.filter(pl.col("row") >= before, pl.col("row_other") < before).select(
            left=pl.col("row") - before, right="row_other"
        )
    return pairs.with_columns(pl.lit(None, pl.Int64).alias("shared"), pl.lit(None, pl.Int64).alias("union"))

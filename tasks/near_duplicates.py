"""Near-duplicates (CriticGen, Appendix B, Eq. 9): an instance that repeats one already retained is dropped.

    J(x, y) = |G(x) and G(y)| / |G(x) or G(y)|,   G: the set of word n-grams (n = 4) of an instance's text

The instances are walked in the order of their ids (as UTF-8 bytes: ids are hashes, so the order means nothing, and
is the same on every machine whatever order the rows come in). One is dropped when its largest J with an instance
*retained before it* is greater than the threshold; its twin is the retained instance of that largest J, the
earliest where several have it. An instance of fewer than n tokens has no n-gram: it repeats another such one when
their normalized texts are equal, which counts as J = 1.

The result is exactly that of this walk. J > p/q is I * q > U * p in integers, and no pair above it is missed: put
all n-grams in one order, rarest first. Of two rows of a <= b n-grams that are above p/q, the first n-gram they
share is among the first ``a - floor(2pa / (p + q))`` of the shorter row (its tight zone) and among the first
``b - floor(pb / q)`` of the longer (its wide zone). So a row is stored under its wide zone's n-grams only and looked
up by them, and never wide against wide: a template that all rows share makes no candidates. N-grams that one row
alone has match nothing and are only counted.
"""

from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.text import Mode, Ragged, ngram_hashes, normalized

Ints = NDArray[np.int64]

_AT_A_TIME = 4096  # candidates checked in one step: bounds the memory of a row that has very many
_LOW = np.int64(0xFFFF_FFFF)


def near_duplicates(
    instances: pl.DataFrame, *, data_set: str, threshold: float = 0.75, n: int = 4, mode: Mode = "word"
) -> pl.DataFrame:
    """The table ``near_duplicates`` for ``instances`` (instance_id, text), in the order of the walk.

    A null text counts as an empty one. With threshold 1 nothing is dropped. Raises ``ValueError`` when an id
    stands twice or the threshold is not within 0 and 1.
    """
    walked = instances.select(pl.col("instance_id").cast(pl.String), "text").sort("instance_id")
    ids = walked["instance_id"]
    if ids.n_unique() < len(ids):
        raise ValueError(f"{data_set}: instance {ids.filter(ids.is_duplicated())[0]} stands twice")
    limit = exact(threshold)
    grams = ngram_hashes(walked["text"], n, mode)
    twin = _first_equal(walked["text"], grams, mode) if limit < 1 else np.full(len(ids), -1)
    shared, union = np.zeros((2, len(ids)), np.int64)
    index = Index(grams, limit)
    for row in index.rows.tolist():
        others, common, either = index.above(row)
        if not len(others):
            index.add(row)
            continue
        # Quotients of integers below 2^26 are equal only when the fractions are; argmax takes the first of equals.
        best = int(np.argmax(common / either))
        twin[row], shared[row], union[row] = others[best], common[best], either[best]
    return pl.DataFrame({"instance_id": ids, "twin": twin, "shared": shared, "union": union}).select(
        pl.lit(data_set).alias("data_set"),
        "instance_id",
        (pl.col("twin") < 0).alias("kept"),
        pl.when(pl.col("twin") >= 0).then(pl.col("instance_id").gather(pl.col("twin").clip(0))).alias("twin_id"),
        pl.when(pl.col("union") > 0).then("shared").cast(pl.Int32).alias("shared"),
        pl.when(pl.col("union") > 0).then("union").cast(pl.Int32).alias("union"),
        pl.when(pl.col("union") > 0)
        .then(pl.col("shared") / pl.col("union"))
        .when(pl.col("twin") >= 0)
        .then(1.0)
        .alias("jaccard"),
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
    texts = left if right is None else pl.concat([left.alias("text"), right.alias("text")])
    grams = ngram_hashes(texts, n, mode)
    index = Index(grams, limit)
    border = len(left)
    found = [np.empty((4, 0), np.int64)]
    if right is None:
        for row in index.rows.tolist():
            others, common, either = index.above(row)
            found.append(np.stack([others, np.full(len(others), row), common, either]))
            index.add(row)
    else:
        for row in index.rows[index.rows >= border].tolist():
            index.add(row)
        for row in index.rows[index.rows < border].tolist():
            others, common, either = index.above(row)
            found.append(np.stack([np.full(len(others), row), others - border, common, either]))
    columns = np.concatenate(found, axis=1)
    pairs = pl.DataFrame(dict(zip(("left", "right", "shared", "union"), columns, strict=True)))
    if limit < 1:
        pairs = pl.concat([pairs, _short_pairs(texts, grams, mode, border if right is not None else None)])
    return pairs.sort("left", "right")


def exact(threshold: float) -> Fraction:
    """The threshold as the decimal fraction it is written as: 0.7 is 7/10, not the nearest binary float.

    Raises ``ValueError`` when it is not within 0 and 1, or has more than nine decimals.
    """
    limit = Fraction(str(threshold))
    if not 0 <= limit <= 1 or limit.denominator > 10**9:
        raise ValueError(f"threshold {threshold}: a Jaccard lies within 0 and 1 (at most nine decimals)")
    return limit


class Index:
    """Rows of n-grams, looked up among the rows added so far. Give it all rows at once, then add them one by one.

    ``rows`` are those that can have a partner at all; the others need be neither looked up nor added.
    """

    def __init__(self, grams: Ragged, limit: Fraction) -> None:
        self._over, self._under = limit.numerator, limit.denominator
        count = len(grams.counts)
        hashes, ids = np.unique(grams.values, return_inverse=True)
        keys = np.repeat(np.arange(count) << 32, grams.counts) | ids
        keys.sort()
        keys = keys[np.diff(keys, prepend=-1) > 0]
        frequency = np.bincount(keys & _LOW, minlength=len(hashes))
        self._sizes = np.bincount(keys >> 32, minlength=count)
        # Ids follow the hashes, so a stable sort by frequency breaks ties by hash. N-grams of one row come first.
        rank = np.empty(len(hashes), np.int64)
        rank[np.argsort(frequency, kind="stable")] = np.arange(len(hashes))
        rank -= np.count_nonzero(frequency == 1)
        keys = keys[rank[keys & _LOW] >= 0]
        keys = keys >> 32 << 32 | rank[keys & _LOW]
        keys.sort()
        self._grams = (keys & _LOW).astype(np.int32)
        held = np.bincount(keys >> 32, minlength=count)
        self._offsets = np.concatenate(([0], np.cumsum(held)))
        alone = self._sizes - held
        p, q = self._over, self._under
        self._wide = np.maximum(self._sizes - p * self._sizes // q - alone, 0)
        self._tight = np.maximum(self._sizes - 2 * p * self._sizes // (p + q) - alone, 0)
        self.rows: Ints = np.flatnonzero(self._wide)
        place = np.arange(len(keys)) - np.repeat(self._offsets[:-1], held)
        tight, wide = place < np.repeat(self._tight, held), place < np.repeat(self._wide, held)
        different = int(self._grams.max()) + 1 if len(keys) else 0
        self._in_tight = _Postings(self._grams[tight], different)
        self._in_wide = _Postings(self._grams[wide & ~tight], different)
        self._mark = np.zeros(different, np.bool_)
        self._seen = np.zeros(count, np.bool_)

    def add(self, row: int) -> None:
        tight, wide = self._zones(row)
        self._in_tight.add(tight, row)
        self._in_wide.add(wide, row)

    def above(self, row: int) -> tuple[Ints, Ints, Ints]:
        """The added rows whose J with ``row`` is greater than the limit, ascending; n-grams in both; in either."""
        return self.check(row, self.candidates(row))

    def candidates(self, row: int) -> Ints:
        """Added rows, ascending, that hold all those whose J with ``row`` is greater than the limit, and others."""
        tight, wide = self._zones(row)
        size = self._sizes[row]
        longer, shorter = self._in_wide.of(tight), self._in_tight.of(wide)
        longer = longer[self._sizes[longer] >= size]
        shorter = shorter[self._sizes[shorter] <= size]
        others = self._different(np.concatenate([self._in_tight.of(tight), longer, shorter]))
        sizes = self._sizes[others]
        fits: NDArray[np.bool_] = np.minimum(sizes, size) * self._under > np.maximum(sizes, size) * self._over
        return others[fits]

    def check(self, row: int, others: Ints) -> tuple[Ints, Ints, Ints]:
        """Those of ``others`` whose J with ``row`` is greater than the limit; n-grams in both; in either."""
        if not len(others):
            return others, others, others
        shared = self._shared(row, others)
        union = self._sizes[row] + self._sizes[others] - shared
        above = shared * self._under > union * self._over
        return others[above], shared[above], union[above]

    def _zones(self, row: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        start, tight, wide = self._offsets[row], self._tight[row], self._wide[row]
        return self._grams[start : start + tight], self._grams[start + tight : start + wide]

    def _different(self, rows: Ints) -> Ints:
        if len(rows) * 16 < len(self._seen):
            return np.unique(rows)
        self._seen[rows] = True  # cheaper than sorting rows that repeat one another many times
        different = np.flatnonzero(self._seen)
        self._seen[different] = False
        return different

    def _shared(self, row: int, others: Ints) -> Ints:
        own = self._grams[self._offsets[row] : self._offsets[row + 1]]
        self._mark[own] = True
        counts = []
        for first in range(0, len(others), _AT_A_TIME):
            some = others[first : first + _AT_A_TIME]
            places, borders = _ranges(self._offsets[some], self._offsets[some + 1])
            counts.append(np.add.reduceat(self._mark[self._grams[places]], borders, dtype=np.int64))
        self._mark[own] = False
        return np.concatenate(counts)


class _Postings:
    """For each n-gram the rows stored under it, in one array of the room that all rows together need."""

    def __init__(self, grams: NDArray[np.int32], different: int) -> None:
        room = np.bincount(grams, minlength=different)
        self._starts = np.cumsum(room) - room
        self._ends = self._starts.copy()
        self._rows = np.empty(len(grams), np.int64)

    def add(self, grams: NDArray[np.int32], row: int) -> None:
        self._rows[self._ends[grams]] = row
        self._ends[grams] += 1

    def of(self, grams: NDArray[np.int32]) -> Ints:
        places, _ = _ranges(self._starts[grams], self._ends[grams])
        return self._rows[places]


def _ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The numbers of all ranges, one after the other, and where in them each range begins."""
    lengths = ends - starts
    borders = np.cumsum(lengths) - lengths
    return np.repeat(starts - borders, lengths) + np.arange(lengths.sum()), borders


def _short(texts: pl.Series, grams: Ragged, mode: Mode) -> pl.DataFrame:
    """``row`` and normalized ``text`` of the texts that have no n-gram."""
    rows = pl.Series("row", np.flatnonzero(grams.counts == 0))
    return pl.DataFrame({"row": rows, "text": normalized(texts.gather(rows), mode)})


def _first_equal(texts: pl.Series, grams: Ragged, mode: Mode) -> Ints:
    """For each row without n-grams the first other one of equal normalized text, before it; -1 for every other row."""
    short = _short(texts, grams, mode).with_columns(pl.col("row").first().over("text").alias("first"))
    twin = np.full(len(texts), -1)
    repeats = short.filter(pl.col("first") < pl.col("row"))
    twin[repeats["row"].to_numpy()] = repeats["first"].to_numpy()
    return twin


def _short_pairs(texts: pl.Series, grams: Ragged, mode: Mode, border: int | None) -> pl.DataFrame:
    short = _short(texts, grams, mode)
    pairs = short.join(short, on="text", suffix="_other")
    if border is None:
        pairs = pairs.filter(pl.col("row") < pl.col("row_other")).select(left="row", right="row_other")
    else:
        pairs = pairs.filter(pl.col("row") < border, pl.col("row_other") >= border).select(
            left="row", right=pl.col("row_other") - border
        )
    return pairs.with_columns(pl.lit(None, pl.Int64).alias("shared"), pl.lit(None, pl.Int64).alias("union"))

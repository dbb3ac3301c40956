"""Which rows of n-gram sets are above a Jaccard of p/q: found without comparing each with each, and none is missed.

Put all n-grams in one order. Of two rows of a <= b n-grams that are above p/q, the first n-gram they share is among
the first ``a - floor(2pa / (p + q))`` of the shorter row (its tight zone) and among the first ``b - floor(pb / q)`` of
the longer (its wide zone). So a row is stored under its wide zone's n-grams only and looked up by them, and never wide
against wide. That holds for any order. Here the n-grams that a sample of the rows shows to be frequent come last, so
that a template that all rows share makes no candidates.

A candidate is compared only if its size and its bitmap allow the two to be above p/q (I * q > U * p in integers).
"""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tasks import gram_kernel, walk_kernel
from tasks.gram_sets import THREADS, GramSets, lines

Ints = NDArray[np.int64]
Small = NDArray[np.int32]

SAMPLE = 25_000  # rows that say which n-grams are frequent
BLOCK = 2048  # rows worked on before the file's pages are let go
Frequent = tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint8]]


class Join:
    """The rows of ``sets`` in the order ``order`` (row numbers), from here on called by their place in it.

    The first ``before`` of them are stored and never looked up. Takes less than 1 KB a row. For one walk.
    """

    def __init__(self, sets: GramSets, limit: Fraction, *, order: Ints | None = None, before: int = 0) -> None:
        rows = len(sets)
        if rows > gram_kernel.ROW:
            raise ValueError(f"{rows:,} rows: at most {gram_kernel.ROW:,} in one call")
        order = np.arange(rows) if order is None else order
        self.rows, self.before = rows, before
        self._sets = sets
        self._p, self._q = limit.numerator, limit.denominator
        entries = _entries(sets, order, self._p, self._q)
        entries.sort()
        keys, ends = gram_kernel.shared_keys(entries, rows)
        own, begins = gram_kernel.entries_by_row(entries[: ends[-1]], keys, ends)
        del entries
        bitmaps, starts = sets.bitmaps, sets.starts
        if not np.array_equal(order, np.arange(rows)):
            bitmaps, starts = np.take(bitmaps, order, axis=0, out=lines(rows)), starts[order]
        longest = int(sets.sizes.max()) if rows else 0
        self._index = walk_kernel.Index(
            own=own,
            ends=ends,
            begins=begins,
            fill=begins[:-1].copy(),
            postings=np.empty(len(own), np.int32),
            bitmaps=bitmaps,
            grams=sets.grams,
            starts=starts,
            p=self._p,
            q=self._q,
            seen=np.full(rows, -1, np.int32),
            found=np.empty(rows, np.int32),
            table=np.empty(max(4 * longest, 16), np.uint64),
        )
        walk_kernel.post(before, self._index)

    def walk(self) -> tuple[Small, Small, Small]:
        """For each row the stored one that it is above the limit with, -1 where there is none and it is stored itself;
        n-grams in both; in either. Of several it is that of the largest Jaccard, and of these the first.
        """
        twin = np.full(self.rows, -1, np.int32)
        shared, union = np.zeros((2, self.rows), np.int32)
        for first in range(self.before, self.rows, BLOCK):
            last = min(first + BLOCK, self.rows)
            walk_kernel.walk(first, last, self._index, twin, shared, union)
            self._sets.forget()
        return twin, shared, union

    def pairs(self, *, within: bool) -> Ints:
        """Every pair above the limit of a row and one ``before``, or ``within``: and an earlier one too.

        As lines (earlier row, row, shared, union).
        """
        result = np.empty((max(2 * BLOCK, self.rows), 4), np.int64)
        found = [np.empty((0, 4), np.int64)]
        first = self.before
        while first < self.rows:
            last = min(first + BLOCK, self.rows)
            count, first = walk_kernel.pairs(first, last, within, self._index, result)
            found.append(result[:count].copy())
            self._sets.forget()
        return np.concatenate(found)

    def components(self) -> Ints:
        """For each row the same label as all rows have that a chain of pairs above the limit connects it with."""
        parents = np.arange(self.rows, dtype=np.int32)
        for first in range(0, self.rows, BLOCK):
            walk_kernel.components(first, min(first + BLOCK, self.rows), self._index, parents)
            self._sets.forget()
        return np.array([walk_kernel.root(parents, row) for row in range(self.rows)], np.int64)


def _entries(sets: GramSets, order: Ints, p: int, q: int) -> NDArray[np.uint64]:
    places = np.empty(len(sets), np.int32)
    places[order] = np.arange(len(sets), dtype=np.int32)
    frequent = _frequent(sets)
    sizes = sets.sizes.astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(sizes - p * sizes // q)))
    entries = np.empty(ends[-1], np.uint64)

    def fill(first: int) -> None:
        last = min(first + BLOCK, len(sets))
        room = entries[ends[first] : ends[last]]
        gram_kernel.prefixes(first, last, sets.grams, sets.starts, sets.sizes, places, *frequent, p, q, room)
        sets.forget()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, range(0, len(sets), BLOCK)))
    return entries


def _frequent(sets: GramSets) -> Frequent:
    """The n-grams of at least 3 of some rows taken evenly, and as many of all rows as make some hundred of them."""
    step = max(8, -(-len(sets) // SAMPLE))
    grams, parts = sets.grams, [np.empty(0, np.uint64)]
    for number, row in enumerate(range(0, len(sets), step)):
        parts.append(grams[sets.starts[row] : sets.starts[row] + sets.sizes[row]].copy())
        if number % 256 == 0:
            sets.forget()
    sample = np.sort(np.concatenate(parts))
    del parts
    sets.forget()
    borders = np.flatnonzero(np.concatenate((sample[1:] != sample[:-1], [True])))
    counts = np.diff(borders, prepend=-1)
    often = counts >= 3
    return gram_kernel.frequency_table(sample[borders[often]] if len(sample) else sample, counts[often])

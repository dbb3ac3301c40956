"""The walk over rows of n-gram sets, compiled (tasks/gram_join.py calls it): look a row up, compare, store."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.gram_kernel import SIZE
from tasks.kernel import kernel

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Int = int | np.int64

_NONE, _ONE = np.uint64(0), np.uint64(1)


class Index(NamedTuple):
    """The rows' keys and what is stored under these so far.

    Row ``r`` has the keys ``own[ends[r]:ends[r + 1]]`` (``key << 1 | zone``), key ``k`` the postings
    ``postings[begins[k]:fill[k]]`` (``row << 1 | zone``). ``seen``, ``found`` and ``table`` are room to work in.
    """

    own: Small
    ends: Ints
    begins: Ints
    fill: Ints
    postings: Small
    bitmaps: NDArray[np.uint64]
    grams: Hashes
    starts: Ints
    p: int
    q: int
    seen: Small
    found: Small
    table: Hashes


@kernel
def _post(row: int, index: Index) -> None:
    """Store the row under its keys, for later rows to find."""
    for at in range(index.ends[row], index.ends[row + 1]):
        key = index.own[at] >> 1
        index.postings[index.fill[key]] = row << 1 | index.own[at] & 1
        index.fill[key] += 1


@kernel
def post(rows: int, index: Index) -> None:
    """Store the first ``rows`` rows."""
    for row in range(rows):
        _post(row, index)


@kernel
def _bits(word: np.uint64) -> np.uint64:
    word -= word >> _ONE & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (word >> np.uint64(2) & np.uint64(0x3333333333333333))
    word = word + (word >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return word * np.uint64(0x0101010101010101) >> np.uint64(56)


@kernel
def _candidates(row: int, index: Index) -> int:
    """Write into ``index.found`` the stored rows that may be above p/q with ``row``: all that are, and few more."""
    size = np.int64(index.bitmaps[row, SIZE])
    count = 0
    for at in range(index.ends[row], index.ends[row + 1]):
        key, wide = index.own[at] >> 1, index.own[at] & 1
        for place in range(index.begins[key], index.fill[key]):
            other = index.postings[place] >> 1
            if index.seen[other] == row or (wide and index.postings[place] & 1):
                continue
            theirs = np.int64(index.bitmaps[other, SIZE])
            # The shorter row's tight zone meets the longer one's wide zone.
            if (wide and theirs > size) or (index.postings[place] & 1 and theirs < size):
                continue
            index.seen[other] = row
            needed = index.p * (size + theirs) // (index.p + index.q) + 1
            if needed > min(size, theirs):
                continue
            differing = _NONE
            for word in range(SIZE):
                differing += _bits(index.bitmaps[row, word] ^ index.bitmaps[other, word])
            if 2 * needed + np.int64(differing) <= size + theirs:
                index.found[count] = other
                count += 1
    return count


@kernel
def _tabled(row: int, index: Index) -> np.uint64:
    """Put a row's n-grams into ``index.table`` and return its mask."""
    start, size, table = index.starts[row], np.int64(index.bitmaps[row, SIZE]), index.table
    slots = 16
    while slots < 2 * size:
        slots *= 2
    table[:slots] = _NONE
    mask = np.uint64(slots - 1)
    for at in range(start, start + size):
        slot = index.grams[at] & mask
        while table[slot] != _NONE:
            slot = (slot + _ONE) & mask
        table[slot] = index.grams[at]
    return mask


@kernel
def _compared(row: int, other: int, index: Index, mask: np.uint64) -> tuple[Int, Int]:
    """N-grams in the row of the table and in the other one, and in either; 0 of both where that is not above p/q."""
    table = index.table
    size, theirs = np.int64(index.bitmaps[row, SIZE]), np.int64(index.bitmaps[other, SIZE])
    missing = theirs - (index.p * (size + theirs) // (index.p + index.q) + 1)
    shared = np.int64(0)
    for at in range(index.starts[other], index.starts[other] + theirs):
        gram = index.grams[at]
        slot = gram & mask
        while table[slot] != _NONE and table[slot] != gram:
            slot = (slot + _ONE) & mask
        if table[slot] == gram:
            shared += 1
        else:
            missing -= 1
            if missing < 0:
                return np.int64(0), np.int64(0)
    return shared, size + theirs - shared


@kernel
def walk(first: int, last: int, index: Index, twin: Small, shared: Small, union: Small) -> None:
    """Walk the rows from ``first`` to ``last``: store one, or name the stored row that it is above p/q with.

    Of several such rows the twin is that of the largest Jaccard, and of these the first in the walk.
    """
    for row in range(first, last):
        if index.ends[row] == index.ends[row + 1]:
            continue
        count = _candidates(row, index)
        if count:
            mask = _tabled(row, index)
            for at in range(count):
                other = index.found[at]
                common, either = _compared(row, other, index, mask)
                if common:
                    ahead = common * union[row] - shared[row] * either
                    if twin[row] < 0 or ahead > 0 or (ahead == 0 and other < twin[row]):
                        twin[row], shared[row], union[row] = other, common, either
        if twin[row] < 0:
            _post(row, index)


@kernel
def pairs(first: int, last: int, adds: bool, index: Index, result: Ints) -> tuple[int, int]:
    """Every pair above p/q of a row and a stored one, as lines (stored, row, shared, union) of ``result``.

    ``adds``: each row is stored in its turn. Returns the lines written and the row to go on with: one before ``last``
    when ``result`` is too short for what that row may need.
    """
    written = 0
    for row in range(first, last):
        if index.ends[row] == index.ends[row + 1]:
            continue
        count = _candidates(row, index)
        if written + count > len(result):
            index.seen[:] = -1  # this row comes again
            return written, row
        if count:
            mask = _tabled(row, index)
            for at in range(count):
                other = index.found[at]
                common, either = _compared(row, other, index, mask)
                if common:
                    line = result[written]
                    line[0], line[1], line[2], line[3] = other, row, common, either
                    written += 1
        if adds:
            _post(row, index)
    return written, last


@kernel
def root(parents: Small, row: int) -> int:
    """The row that names the component of ``row``."""
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@kernel
def components(first: int, last: int, index: Index, parents: Small) -> None:
    """Join, in ``parents``, the trees of any two rows that are above p/q. Rows joined already are not compared."""
    for row in range(first, last):
        if index.ends[row] == index.ends[row + 1]:
            continue
        count = _candidates(row, index)
        _post(row, index)
        if count:
            mask = _tabled(row, index)
            for at in range(count):
                other = index.found[at]
                if root(parents, other) != root(parents, row) and _compared(row, other, index, mask)[0]:
                    parents[root(parents, row)] = root(parents, other)

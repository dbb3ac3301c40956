"""Sets of n-grams and their entries in the index, compiled (tasks/gram_sets.py and tasks/gram_join.py call it).

A row's set is ``grams[starts[row] : starts[row] + size]``, different 64-bit hashes, none of them 0. Its line in
``bitmaps`` has 448 bits of parity (bit ``b`` is set when an odd number of the row's n-grams fall on it) and its size
in the last word, so that a candidate costs one cache line: x and y differ in at least as many n-grams as their
bitmaps differ in bits.
"""

import numpy as np
from numpy.typing import NDArray

from tasks.kernel import kernel

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]

SIZE = 7  # the word of a bitmap line that holds the size
ROW_BITS, KEY_BITS = 28, 35  # an entry: key, zone (0 tight, 1 wide), row
ROW = (1 << ROW_BITS) - 1
_ZONE = np.uint64(ROW_BITS)
_KEY_SHIFT = np.uint64(ROW_BITS + 1)
_KEY = np.uint64((1 << KEY_BITS) - 1)
_ROW = np.uint64(ROW)

_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_GRAM = np.uint64(0xC2B2AE3D27D4EB4F)
_LENGTH = np.uint64(0x165667B19E3779F9)
_SHIFT = np.uint64(33)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_WORD_BITS = np.uint64(63)


@kernel
def slots_for(size: int) -> int:
    """Slots of a hash table for ``size`` values: a power of two, half of it empty at least."""
    slots = 16
    while slots < 2 * size:
        slots *= 2
    return slots


@kernel
def distinct_ngrams(
    tokens: Hashes, offsets: Ints, n: int, values: Hashes, sizes: Small, bitmaps: NDArray[np.uint64]
) -> int:
    """Write each text's different n-grams into ``values``, one text after the other; their number and bitmap."""
    table = np.zeros(1024, np.uint64)
    line = np.zeros(8, np.uint64)
    total = 0
    for text in range(len(offsets) - 1):
        slots = slots_for(max(offsets[text + 1] - offsets[text] - n + 1, 0))
        if slots > len(table):
            table = np.zeros(slots, np.uint64)
        else:
            table[:slots] = _NONE
        mask = np.uint64(slots - 1)
        line[:] = _NONE
        size = 0
        for first in range(offsets[text], offsets[text + 1] - n + 1):
            gram = np.uint64(n) * _LENGTH
            for place in range(first, first + n):
                gram = gram * _GRAM + tokens[place]
            gram ^= gram >> _SHIFT
            gram *= _FIRST
            gram ^= gram >> _SHIFT
            gram *= _SECOND
            gram ^= gram >> _SHIFT
            if gram == _NONE:
                gram = _ONE
            slot = gram & mask
            while table[slot] != _NONE and table[slot] != gram:
                slot = (slot + _ONE) & mask
            if table[slot] == _NONE:
                table[slot] = gram
                values[total + size] = gram
                size += 1
                line[(((gram >> np.uint64(40)) * np.uint64(SIZE)) >> np.uint64(24))] ^= _ONE << (gram & _WORD_BITS)
        line[SIZE] = np.uint64(size)
        bitmaps[text] = line
        sizes[text] = size
        total += size
    return total


@kernel
def frequency_table(grams: Hashes, counts: Ints) -> tuple[Hashes, NDArray[np.uint8], NDArray[np.uint8]]:
    """A hash table of ``grams`` with the logarithm of each one's count, and a bit for each that may be in it."""
    slots = slots_for(2 * len(grams))
    keys, ranks = np.zeros(slots, np.uint64), np.zeros(slots, np.uint8)
    bits = np.zeros(1 << 18, np.uint8)
    for place in range(len(grams)):
        gram = grams[place]
        slot = (gram * _ODD) >> np.uint64(20) & np.uint64(slots - 1)
        while keys[slot] != _NONE:
            slot = (slot + _ONE) & np.uint64(slots - 1)
        keys[slot] = gram
        rank, left = 1, counts[place]
        while left > 1:
            rank, left = rank + 1, left >> 1
        ranks[slot] = rank
        bit = gram >> np.uint64(43)
        bits[bit >> np.uint64(3)] |= np.uint8(1 << (bit & np.uint64(7)))
    return keys, ranks, bits


@kernel
def _rank(gram: np.uint64, keys: Hashes, ranks: NDArray[np.uint8], bits: NDArray[np.uint8]) -> int:
    """0 for an n-gram that is not frequent, else the higher the more frequent it is."""
    bit = gram >> np.uint64(43)
    if not bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7)) & 1:
        return 0
    mask = np.uint64(len(keys) - 1)
    slot = (gram * _ODD) >> np.uint64(20) & mask
    while keys[slot] != _NONE:
        if keys[slot] == gram:
            return int(ranks[slot])
        slot = (slot + _ONE) & mask
    return 0


@kernel
def prefixes(
    first: int,
    last: int,
    grams: Hashes,
    starts: Ints,
    sizes: Small,
    places: Small,
    keys: Hashes,
    ranks: NDArray[np.uint8],
    bits: NDArray[np.uint8],
    p: int,
    q: int,
    entries: Hashes,
) -> int:
    """The entries of the rows from ``first`` to ``last``: their rarest n-grams, each with its zone and the row's place.

    N-grams are put in one order for all rows: those that are not frequent before those that are, the less frequent
    before the more frequent, and by their hash.
    """
    longest = 0
    for row in range(first, last):
        longest = max(longest, sizes[row])
    rare, frequent = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    total = 0
    for row in range(first, last):
        size = np.int64(sizes[row])
        wide = size - p * size // q
        tight = size - 2 * p * size // (p + q)
        if wide == 0:
            continue
        # A hash is as likely to be anywhere: most of those under this bound are the prefix, and few are not.
        expected = (wide + 4.0 * np.sqrt(wide) + 8.0) / size
        bound = np.uint64(min(expected, 1.0) * 18446744073709549568.0)
        under = others = often = 0
        for at in range(starts[row], starts[row] + size):
            gram = grams[at]
            if _rank(gram, keys, ranks, bits):
                frequent[often] = gram
                often += 1
            elif gram < bound:
                rare[under + others] = rare[under]
                rare[under] = gram
                under += 1
            else:
                rare[under + others] = gram
                others += 1
        chosen = under if under >= wide else under + others
        rare[:chosen].sort()
        if chosen < wide:
            frequent[:often].sort()
            order = np.empty(often, np.int64)
            for at in range(often):
                order[at] = _rank(frequent[at], keys, ranks, bits) << 32 | at
            order.sort()
            for at in range(wide - chosen):
                rare[chosen + at] = frequent[order[at] & 0xFFFFFFFF]
        for at in range(wide):
            zone = _NONE if at < tight else _ONE
            entries[total] = (rare[at] & _KEY) << _KEY_SHIFT | zone << _ZONE | np.uint64(places[row])
            total += 1
    return total


@kernel
def shared_keys(entries: Hashes, rows: int) -> tuple[int, Ints]:
    """Keep, of sorted entries, those whose key another row has too, and one of these rows in its tight zone.

    They are moved to the front of ``entries``, each as its key's number and its zone and row. Returns the number of
    keys, and where each row's part of ``entries_by_row`` ends.
    """
    ends = np.zeros(rows + 1, np.int64)
    kept = keys = 0
    at = 0
    while at < len(entries):
        key = entries[at] >> _KEY_SHIFT
        end = at + 1
        while end < len(entries) and entries[end] >> _KEY_SHIFT == key:
            end += 1
        if end - at > 1 and not entries[at] >> _ZONE & _ONE:
            for place in range(at, end):
                entries[kept] = np.uint64(keys) << _KEY_SHIFT | entries[place] & (_ONE << _KEY_SHIFT) - _ONE
                ends[np.int64(entries[kept] & _ROW) + 1] += 1
                kept += 1
            keys += 1
        at = end
    for row in range(rows):
        ends[row + 1] += ends[row]
    return keys, ends


@kernel
def entries_by_row(entries: Hashes, keys: int, ends: Ints) -> tuple[Small, Ints]:
    """Each row's keys (``key << 1 | zone``), and where each key's postings begin (there is room for all its rows)."""
    own = np.empty(len(entries), np.int32)
    begins = np.zeros(keys + 1, np.int64)
    fill = ends[:-1].copy()
    for at in range(len(entries)):
        row, number = np.int64(entries[at] & _ROW), np.int64(entries[at] >> _KEY_SHIFT)
        own[fill[row]] = number << 1 | np.int64(entries[at] >> _ZONE & _ONE)
        fill[row] += 1
        begins[number + 1] += 1
    for key in range(keys):
        begins[key + 1] += begins[key]
    return own, begins

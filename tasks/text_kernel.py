"""The tokens of tasks/text.py, found in one pass over UTF-8 bytes with one look-up per code point.

Arrays: ``data`` is the UTF-8 of all texts, text ``i`` in ``data[offsets[i]:offsets[i + 1]]``; ``table`` and ``normal``
are those of tasks/code_points.py.
"""

import numpy as np
from numpy.typing import NDArray

from tasks.code_points import ALONE, APOSTROPHE, BACKSLASH, DIGIT, LETTER, LOWER, MARK, MATH, POINT, RUN, UNSETTLED
from tasks.kernel import kernel

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]

_START = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_GRAM = np.uint64(0xC2B2AE3D27D4EB4F)
_LENGTH = np.uint64(0x165667B19E3779F9)
_SHIFT = np.uint64(33)
_FOLD = np.uint64(32)

_IN_RUN, _IN_ALONE, _IN_COMMAND = 1, 2, 3


@kernel
def mixed(value: np.uint64) -> np.uint64:
    """A bijection that spreads every bit (MurmurHash3's 64-bit finalizer)."""
    value ^= value >> _SHIFT
    value *= _FIRST
    value ^= value >> _SHIFT
    value *= _SECOND
    return value ^ (value >> _SHIFT)


@kernel
def _code_point(data: Bytes, at: int) -> tuple[np.int64, int]:
    """The code point that begins at ``at``, and where the next one begins."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, at + 1
    second = np.int64(data[at + 1]) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second, at + 2
    third = np.int64(data[at + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third, at + 3
    return (first & 0x07) << 18 | second << 12 | third << 6 | np.int64(data[at + 3]) & 0x3F, at + 4


@kernel
def unsettled(data: Bytes, offsets: NDArray[np.int64], normal: Bytes) -> NDArray[np.bool_]:
    """Which texts may not be in NFC: these are for ``unicodedata``."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    for text in range(len(found)):
        at, end = offsets[text], offsets[text + 1]
        last, marked_to = np.int64(0), -1
        while at < end:
            if at + 32 <= end:
                bits = np.uint8(0)
                for byte in range(at, at + 32):
                    bits |= data[byte]
                if bits < 0x80:
                    at += 32
                    continue
            stop = min(at + 32, end)
            while at < stop:
                point, after = _code_point(data, at)
                combining = np.int64(normal[point])
                if combining != 0:
                    if combining == UNSETTLED or (marked_to == at and last > combining):
                        found[text] = True
                        break
                    last, marked_to = combining, after
                at = after
            if found[text]:
                break
    return found


@kernel
def token_hashes(
    data: Bytes, offsets: NDArray[np.int64], table: NDArray[np.uint32], values: Hashes, ends: NDArray[np.int64]
) -> int:
    """Write each token's hash into ``values`` (room for ``len(data)``), and where each text's end into ``ends``."""
    count = 0
    for text in range(len(offsets) - 1):
        at, end = offsets[text], offsets[text + 1]
        kind = 0
        before = np.uint32(0)
        state = _START
        while at < end:
            point, at = _code_point(data, at)
            entry = table[point]
            if entry & RUN:
                if not (
                    kind == _IN_RUN or (kind == _IN_ALONE and entry & MARK) or (kind == _IN_COMMAND and entry & LETTER)
                ):
                    if kind:
                        values[count] = mixed(state)
                        count += 1
                    state = _START
                    kind = _IN_RUN
                state = (state ^ np.uint64(entry & LOWER)) * _STEP
                state ^= state >> _FOLD
            else:
                stays = False
                if kind == _IN_RUN and entry & (POINT | APOSTROPHE) and at < end:
                    following = table[_code_point(data, at)[0]]
                    stays = (entry & POINT and before & DIGIT and following & DIGIT) or (
                        entry & APOSTROPHE and following & RUN
                    )
                if not stays:
                    if kind:
                        values[count] = mixed(state)
                        count += 1
                    state = _START
                    kind = 0
                    if entry & ALONE:
                        kind = _IN_ALONE
                    elif entry & BACKSLASH and at < end and table[_code_point(data, at)[0]] & LETTER:
                        kind = _IN_COMMAND
                if stays or kind or entry & MATH:
                    state = (state ^ np.uint64(entry & LOWER)) * _STEP
                    state ^= state >> _FOLD
                if entry & MATH:
                    values[count] = mixed(state)
                    count += 1
            before = entry
        if kind:
            values[count] = mixed(state)
            count += 1
        ends[text] = count
    return count


@kernel
def ngram_hashes(tokens: Hashes, offsets: NDArray[np.int64], n: int, values: Hashes) -> None:
    """Write the hash of each text's n-grams into ``values``, which has room for exactly these."""
    count = 0
    for text in range(len(offsets) - 1):
        for first in range(offsets[text], offsets[text + 1] - n + 1):
            state = np.uint64(n) * _LENGTH
            for place in range(first, first + n):
                state = state * _GRAM + tokens[place]
            values[count] = mixed(state)
            count += 1

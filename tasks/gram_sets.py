"""The set of n-grams of each text, in little memory: sizes and bitmaps in it, the n-grams in a temporary file.

The file takes eight bytes for each different n-gram of a text, some 3 KB for a text of 400 words, in the system's
folder for temporary files (TMPDIR), and has no name, so that it is gone with the process whatever ends it.
"""

import mmap
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import polars as pl
import xxhash
from numpy.typing import NDArray

from tasks import gram_kernel
from tasks.text import Mode, normalized, token_hashes

AT_A_TIME = 1024  # texts
THREADS = min(os.cpu_count() or 1, 8)


@dataclass
class GramSets:
    """``sizes`` and ``bitmaps`` (tasks/gram_kernel.py) of the rows; ``grams[starts[row] : starts[row] + sizes[row]]``.

    ``short`` has for each row without n-grams 128 bits of hash of its normalized text.
    """

    sizes: NDArray[np.int32]
    starts: NDArray[np.int64]
    bitmaps: NDArray[np.uint64]
    short: dict[int, bytes]
    _map: mmap.mmap | None

    @property
    def grams(self) -> NDArray[np.uint64]:
        return np.frombuffer(self._map or b"", np.uint64)

    def forget(self) -> None:
        """Let go of the file's pages that were read: they are read again when they are wanted."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass
class _Part:
    sizes: NDArray[np.int32]
    bitmaps: NDArray[np.uint64]
    grams: NDArray[np.uint64]
    short: dict[int, bytes]


def gram_sets(texts: Iterable[pl.Series], n: int, mode: Mode) -> GramSets:
    """The rows of all the series, one series after the other, each read when it is its turn. Null is an empty text.

    Raises ``ValueError`` when n is less than 1, and ``OSError`` when there is no room for the file.
    """
    if n < 1:
        raise ValueError(f"n-grams of {n} tokens: n is at least 1")
    sizes, bitmaps, short = [np.empty(0, np.int32)], [np.empty((0, 8), np.uint64)], dict[int, bytes]()
    rows = size = 0
    handle, name = tempfile.mkstemp(prefix="criticgen-")
    try:
        os.unlink(name)
        with open(handle, "wb", buffering=0, closefd=False) as file:
            for part in _parts(texts, n, mode):
                file.write(part.grams.data)
                size += part.grams.nbytes
                sizes.append(part.sizes)
                bitmaps.append(part.bitmaps)
                short |= {rows + row: text for row, text in part.short.items()}
                rows += len(part.sizes)
        # A length of its own: mmap counts from the file, which a full disk may have cut.
        mapped = mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else None
    finally:
        os.close(handle)
    all_sizes = np.concatenate(sizes)
    return GramSets(all_sizes, _starts(all_sizes), np.concatenate(bitmaps, out=lines(rows)), short, mapped)


def _parts(texts: Iterable[pl.Series], n: int, mode: Mode) -> Iterator[_Part]:
    """In order; a few are worked on at the same time."""
    slices = (part for series in texts for part in _slices(series))
    waiting: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for part in slices:
            waiting.append(pool.submit(_part, part, n, mode))
            if len(waiting) > 6 * THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _slices(series: pl.Series) -> Iterator[pl.Series]:
    for first in range(0, len(series), AT_A_TIME):
        yield series.slice(first, AT_A_TIME)


def _part(texts: pl.Series, n: int, mode: Mode) -> _Part:
    tokens = token_hashes(texts, mode)
    values = np.empty(len(tokens.values), np.uint64)
    sizes, bitmaps = np.empty(len(texts), np.int32), np.empty((len(texts), 8), np.uint64)
    count = gram_kernel.distinct_ngrams(tokens.values, tokens.offsets, n, values, sizes, bitmaps)
    rows = np.flatnonzero(sizes == 0)
    alike = normalized(texts.gather(rows), mode)
    short = {int(row): xxhash.xxh3_128_digest(text) for row, text in zip(rows, alike, strict=True)}
    return _Part(sizes, bitmaps, values[:count], short)


def _starts(sizes: NDArray[np.int32]) -> NDArray[np.int64]:
    ends = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes


def lines(rows: int) -> NDArray[np.uint64]:
    """Room for bitmaps, each row's 64 bytes in one cache line."""
    room = np.empty(8 * rows + 8, np.uint64)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + 8 * rows].reshape(rows, 8)

"""How many different 64-bit values there are, exactly and in bounded memory."""

import tempfile
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tasks.kernel import kernel

Values = NDArray[np.uint64]

SLOTS = 1 << 22  # of a full table: 32 MB
PARTS = 64

_NONE, _ONE = np.uint64(0), np.uint64(1)


class Unique:
    """The different values among those added: in a hash table, and what it cannot hold sorted in a temporary file.

    Takes 32 MB (48 while it grows), and where more than three million values differ 8 bytes in the file for each of a
    table's. In the end 1/64 of the values is looked at at a time. No more can be added after ``len``.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        self._most = slots
        self._table = np.zeros(min(1 << 12, slots), np.uint64)
        self._held = 0
        self._zero = False
        self._file: BinaryIO | None = None
        self._borders: list[NDArray[np.int64]] = []

    def add(self, values: Values) -> None:
        """Values in any order, with repeats. They are left as they are."""
        first = 0
        while True:
            first, self._held, zero = _insert(values, first, self._table, self._held)
            self._zero |= zero
            if first == len(values):
                return
            if len(self._table) < self._most:
                smaller, self._table = self._table, np.zeros(min(4 * len(self._table), self._most), np.uint64)
                _, self._held, _ = _insert(smaller[smaller != 0], 0, self._table, 0)
            else:
                self._spill()

    def __len__(self) -> int:
        if self._file is None:
            return self._held + self._zero
        self._spill()
        self._table = np.zeros(0, np.uint64)
        total = int(self._zero)
        for part in range(PARTS):
            pieces = []
            for borders in self._borders:
                self._file.seek(8 * int(borders[part]))
                pieces.append(np.frombuffer(self._file.read(8 * int(borders[part + 1] - borders[part])), np.uint64))
            values = np.sort(np.concatenate(pieces))
            total += int(np.count_nonzero(values[1:] != values[:-1])) + bool(len(values))
        self._file.close()
        self._file, self._held, self._zero = None, total, False
        return total

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="criticgen-")  # noqa: SIM115
        values = np.sort(self._table[self._table != 0])
        start = self._file.seek(0, 2) // 8
        self._file.write(values.data)
        ends = np.searchsorted(values, np.arange(1, PARTS, dtype=np.uint64) << np.uint64(58))
        self._borders.append(start + np.concatenate(([0], ends, [len(values)])))
        self._table[:] = 0
        self._held = 0


@kernel
def _insert(values: Values, first: int, table: Values, held: int) -> tuple[int, int, bool]:
    """Put values into the table until it is four fifths full: the first one left out, how many it holds, any 0 met."""
    mask = np.uint64(len(table) - 1)
    room = len(table) // 5 * 4
    zero = False
    for at in range(first, len(values)):
        value = values[at]
        if value == _NONE:
            zero = True
            continue
        slot = value & mask
        while table[slot] != _NONE and table[slot] != value:
            slot = (slot + _ONE) & mask
        if table[slot] == _NONE:
            if held >= room:
                return at, held, zero
            table[slot] = value
            held += 1
    return len(values), held, zero

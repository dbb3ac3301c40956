"""``budget_usd``: a call starts only when its worst case fits what is left, over all runs of a workspace.

What a call may cost at the most is set aside before it starts, and when its answer is in the ledger its cost takes the
place. The sum that is set aside is on disk before the calls that it covers start (``ledger/budget.json``): what a
process held when it was killed, or when calls were broken off, may have been billed, and counts as spent.
"""

import asyncio
from pathlib import Path

import orjson

from storage.workspace import write_bytes
from tasks.models import Unsent

_AHEAD = 1.25  # set aside on disk, of what is in flight: each growth is a write


class Budget:
    """US dollars of one workspace. ``limit`` None: no limit, and all is counted the same.

    ``spent`` is what the ledger knows of; ``lost`` what calls may have cost whose answers never came into it.
    """

    def __init__(self, root: Path, limit: float | None, spent: float) -> None:
        self._path = root / "ledger" / "budget.json"
        self._limit = limit
        self._spent = spent
        self._held = 0.0
        self._calls = 0  # in flight, each holding a part
        self._on_disk = 0.0
        self._freed = asyncio.Event()
        self._writing = asyncio.Lock()
        self.lost = lost_usd(root)
        self._committed = 0.0

    async def reserve(self, usd: float) -> None:
        """Set this much aside; wait while calls in flight may still leave enough. Raises ``Unsent`` where none can."""
        while self._left() < usd:
            if not self._calls:
                raise Unsent(self._cause(usd))
            self._freed.clear()
            await self._freed.wait()
        self._held += usd
        self._calls += 1
        if self._held > self._on_disk:
            async with self._writing:
                if self._held > self._on_disk:
                    aside = _AHEAD * self._held
                    await asyncio.to_thread(self._write, aside)
                    self._on_disk = aside

    def settle(self, reserved: float, spent: float) -> None:
        """Give back what was reserved, and count what it cost."""
        self._calls -= 1
        self._held = max(0.0, self._held - reserved) if self._calls else 0.0
        self._spent += spent
        self._freed.set()

    def commit(self, usd: float) -> None:
        """Set aside what a vendor batch may cost, which its own file keeps. Raises ``Unsent`` where it does not fit."""
        if self._left() < usd:
            raise Unsent(self._cause(usd))
        self._committed += usd

    def restore(self, usd: float) -> None:
        """Count a vendor batch of an earlier process as committed."""
        self._committed += usd

    def settle_batch(self, committed: float, spent: float) -> None:
        """Give back what was committed to a vendor batch, and count what it cost."""
        self._committed = max(0.0, self._committed - committed)
        self._spent += spent
        self._freed.set()

    def close(self) -> None:
        """Count what is still held as lost. After the last call."""
        if self.lost or self._held or self._on_disk:
            self.lost += self._held
            self._held = 0.0
            self._write(0.0)

    def _left(self) -> float:
        if self._limit is None:
            return float("inf")
        return self._limit - self._spent - self.lost - self._held - self._committed

    def _cause(self, usd: float) -> str:
        limit = self._limit or 0.0
        parts = [f"budget_usd {limit:g} is reached: {self._spent:.4f} spent"]
        if self.lost:
            parts.append(f"{self.lost:.4f} perhaps spent by calls that were broken off")
        if self._committed:
            parts.append(f"{self._committed:.4f} set aside for vendor batches")
        return f"{', '.join(parts)}, and the next call may cost {usd:.4f}; a larger budget_usd goes on from here"

    def _write(self, in_flight: float) -> None:
        write_bytes(self._path, orjson.dumps({"lost_usd": self.lost, "in_flight_usd": in_flight}))


def lost_usd(root: Path) -> float:
    """What calls may have cost whose answers never came into the ledger."""
    try:
        kept = orjson.loads((root / "ledger" / "budget.json").read_bytes())
    except FileNotFoundError:
        return 0.0
    return float(kept["lost_usd"] + kept["in_flight_usd"])

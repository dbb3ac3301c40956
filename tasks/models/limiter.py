"""The pace of one model in one process: calls in flight, requests and tokens a minute, and pauses."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiolimiter import AsyncLimiter

from tasks.config import Limits

WINDOW_S = 6.0  # what is allowed in a minute is handed out in tenths, so that no minute sees twice its limit
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0  # where the vendor does not say how long


class Limiter:
    """Used in one event loop. A cancelled wait takes nothing with it."""

    def __init__(self, limits: Limits) -> None:
        self._places = Places(limits.max_concurrency)
        self._requests = _bucket(limits.requests_per_minute)
        self._tokens = _bucket(limits.tokens_per_minute)
        self._most_tokens = limits.tokens_per_minute or 0
        self._resume_at = 0.0
        self._next_pause = FIRST_PAUSE_S

    @asynccontextmanager
    async def slot(self, expected_tokens: int = 0, rank: int = 0) -> AsyncIterator[None]:
        """Hold a place for one call; of those that wait, the one of the smallest rank is next.

        More tokens than a minute allows count as a whole minute's.
        """
        async with self._places.one(rank):
            await self._paused()
            if self._requests is not None:
                await self._requests.acquire()
                await self._paused()
            if self._tokens is not None:
                left = float(min(expected_tokens, self._most_tokens))
                while left > 0:
                    part = min(left, self._tokens.max_rate)
                    await self._tokens.acquire(part)
                    left -= part
                await self._paused()
            yield

    def pause(self, seconds: float) -> None:
        """Let no call of this model begin for so long. A pause that lasts longer already stands."""
        self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    def rate_limited(self, retry_after: float | None) -> None:
        """Pause as the vendor says (a tenth of a second at least), or twice as long each time where it says nothing."""
        if retry_after is None:
            retry_after, self._next_pause = self._next_pause, min(LONGEST_PAUSE_S, 2 * self._next_pause)
        self.pause(max(retry_after, 0.1))

    def went_well(self) -> None:
        self._next_pause = FIRST_PAUSE_S

    async def _paused(self) -> None:
        while (seconds := self._resume_at - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(seconds)


class Places:
    """A semaphore whose waiters go by rank, the smallest first, and by arrival within a rank."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._arrived = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def locked(self) -> bool:
        """Whether a call would have to wait."""
        return not self._free

    @asynccontextmanager
    async def one(self, rank: int) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            self._arrived += 1
            given = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (rank, self._arrived, given))
            try:
                await given
            except asyncio.CancelledError:
                if given.done() and not given.cancelled():
                    self._give()
                raise
        try:
            yield
        finally:
            self._give()

    def _give(self) -> None:
        while self._waiting:
            _, _, given = heapq.heappop(self._waiting)
            if not given.done():
                given.set_result(None)
                return
        self._free += 1


def _bucket(per_minute: int | None) -> AsyncLimiter | None:
    """A bucket that holds a tenth of a minute's worth, and one request at the least."""
    if per_minute is None:
        return None
    size = max(1.0, per_minute * WINDOW_S / 60)
    return AsyncLimiter(size, 60 * size / per_minute)

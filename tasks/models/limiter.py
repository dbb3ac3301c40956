"""The pace of one model in one process: calls in flight, requests and tokens a minute, and pauses.

Calls in flight start at a few and grow with every success until the vendor says to slow down (429); then a part of
them is taken back, once for all that were in flight together, and they grow slowly. Where an answer tells the
server's own limit of a minute, calls are spread evenly over it from then on.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiolimiter import AsyncLimiter

from tasks.models.exchange import Pace
from tasks.settings import Limits

WINDOW_S = 1.0  # what is allowed in a minute is handed out in such parts
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0  # where the vendor does not say how long
FIRST_CONCURRENCY = 16
CUT = 0.7  # of the calls in flight, what is left after a 429
SLOWLY = 8  # rounds of successes for one more call in flight, once there was a 429
OF_A_TOLD_LIMIT = 0.97  # what is used of it: the server's clock is not ours


class Limiter:
    """Used in one event loop. A cancelled wait takes nothing with it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = Places(min(max(FIRST_CONCURRENCY, limits.min_concurrency), limits.max_concurrency))
        self._requests = _bucket(limits.requests_per_minute)
        self._tokens = _bucket(limits.tokens_per_minute)
        self._told: Pace | None = None
        self._resume_at = 0.0
        self._next_pause = FIRST_PAUSE_S
        self._cut_at: float | None = None
        self._growth = 0.0
        self.stopped = False  # no call begins any more: whoever waits, waits no longer

    @property
    def concurrency(self) -> int:
        """Calls that may be in flight now."""
        return self._places.number

    @asynccontextmanager
    async def slot(self, expected_tokens: int = 0, rank: int = 0) -> AsyncIterator[None]:
        """Hold a place for one call; of those that wait, the one of the smallest rank is next.

        More tokens than a minute allows count as a whole minute's.
        """
        async with self._places.one(rank):
            if not self.stopped:
                await self._paced(expected_tokens)
            yield

    async def _paced(self, expected_tokens: int) -> None:
        await self._paused()
        if self._requests is not None:
            await self._requests.acquire()
            await self._paused()
        if self._tokens is not None:
            left = min(expected_tokens, self._tokens.max_rate * 60 / WINDOW_S)
            while left > 0 and (bucket := self._tokens) is not None:
                part = min(left, bucket.max_rate)
                await bucket.acquire(part)
                left -= part
            await self._paused()

    def pause(self, seconds: float) -> None:
        """Let no call of this model begin for so long. A pause that lasts longer already stands."""
        self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    def rate_limited(self, retry_after: float | None, began: float) -> None:
        """Slow down after a 429 to a call that began at ``began`` by the loop's clock.

        Pause as the vendor says (a tenth of a second at least), or twice as long each time where it says nothing.
        """
        if retry_after is None:
            retry_after, self._next_pause = self._next_pause, min(LONGEST_PAUSE_S, 2 * self._next_pause)
        self.pause(max(retry_after, 0.1))
        if self._cut_at is None or began > self._cut_at:
            self._cut_at = asyncio.get_running_loop().time()
            self._growth = 0.0
            self._places.resize(max(self._limits.min_concurrency, int(CUT * self._places.number)))

    def went_well(self) -> None:
        """Another success: more calls in flight, where those that may be are."""
        self._next_pause = FIRST_PAUSE_S
        if self._places.number >= self._limits.max_concurrency or not self._places.locked():
            return
        self._growth += 1.0 if self._cut_at is None else 1.0 / (SLOWLY * self._places.number)
        if self._growth >= 1:
            self._growth -= 1
            self._places.resize(self._places.number + 1)

    def told(self, pace: Pace) -> None:
        """Keep to what the server says its limits are, and to the config's where those are lower."""
        if pace.wait_s > 0:
            self.pause(min(pace.wait_s, LONGEST_PAUSE_S))
        if self._told is not None and _same_limits(pace, self._told):
            return
        self._told = pace
        self._requests = _bucket(_lower(self._limits.requests_per_minute, pace.requests_per_minute))
        self._tokens = _bucket(_lower(self._limits.tokens_per_minute, pace.tokens_per_minute))

    async def _paused(self) -> None:
        while (seconds := self._resume_at - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(seconds, WINDOW_S))  # a model that is stopped meanwhile has nothing to wait for
            if self.stopped:
                return


class Places:
    """A semaphore whose waiters go by rank, the smallest first, and by arrival within a rank."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = number  # below zero while more are held than there may be
        self._arrived = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def locked(self) -> bool:
        """Whether a call would have to wait."""
        return self._free <= 0

    def resize(self, number: int) -> None:
        """Have so many places from now on; who holds one keeps it."""
        self._free += number - self.number
        self.number = number
        self._give(0)

    @asynccontextmanager
    async def one(self, rank: int) -> AsyncIterator[None]:
        if self._free > 0:
            self._free -= 1
        else:
            self._arrived += 1
            given = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (rank, self._arrived, given))
            try:
                await given
            except asyncio.CancelledError:
                if given.done() and not given.cancelled():
                    self._give(1)
                raise
        try:
            yield
        finally:
            self._give(1)

    def _give(self, back: int) -> None:
        self._free += back
        while self._free > 0 and self._waiting:
            _, _, given = heapq.heappop(self._waiting)
            if not given.done():
                self._free -= 1
                given.set_result(None)


def _same_limits(one: Pace, other: Pace) -> bool:
    pairs = (
        (one.requests_per_minute, other.requests_per_minute),
        (one.tokens_per_minute, other.tokens_per_minute),
    )
    return all(a == b for a, b in pairs)


def _lower(ours: int | None, told: float | None) -> float | None:
    known = [limit for limit in (ours, None if told is None else OF_A_TOLD_LIMIT * told) if limit]
    return min(known, default=None)


def _bucket(per_minute: float | None) -> AsyncLimiter | None:
    """A bucket that holds one window's worth, and one request at the least."""
    if per_minute is None:
        return None
    size = max(1.0, per_minute * WINDOW_S / 60)
    return AsyncLimiter(size, 60 * size / per_minute)

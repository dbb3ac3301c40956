"""What one model lets through: requests and tokens a minute, and bursts of 429 by the clock."""

import time
from math import ceil

from deployments.simulator.exchange import UNLIMITED, Excess, Level, Pace, Problem, VendorError
from deployments.simulator.knobs import Knobs


class Bucket:
    """A token bucket that holds ``burst_s`` seconds' worth of a limit, one at the least. It can run into debt."""

    def __init__(self, per_minute: int, burst_s: float) -> None:
        self._per_minute = per_minute
        self._rate = per_minute / 60
        self._room = max(1.0, self._rate * burst_s)
        self._left = self._room
        self._at = time.monotonic()

    def wait(self, need: int) -> float:
        """Seconds until so much may pass, 0 for now. More than the bucket holds may pass when it is full."""
        self._fill()
        return max(0.0, min(need, self._room) - self._left) / self._rate

    def take(self, amount: int) -> None:
        self._left -= amount

    def level(self) -> Level:
        self._fill()
        return Level(self._per_minute, max(0, int(self._left)), (self._room - self._left) / self._rate)

    def _fill(self) -> None:
        now = time.monotonic()
        self._left = min(self._room, self._left + (now - self._at) * self._rate)
        self._at = now


class Limits:
    """One model's limits. Bursts are counted from ``began``, in seconds of ``time.monotonic``."""

    @classmethod
    def of(cls, model: str, knobs: Knobs, began: float) -> "Limits | None":
        """None where the knobs set no limit."""
        limited = knobs.requests_per_minute or knobs.tokens_per_minute or knobs.burst_429_every_s
        return cls(model, knobs, began) if limited else None

    def __init__(self, model: str, knobs: Knobs, began: float) -> None:
        self._model = model
        self._began = began
        self._every_s, self._for_s = knobs.burst_429_every_s, knobs.burst_429_for_s
        self._requests = _bucket(knobs.requests_per_minute, knobs.burst_s)
        self._tokens = _bucket(knobs.tokens_per_minute, knobs.burst_s)

    def admit(self, input_tokens: int) -> None:
        """Let a request pass, and charge it and its input. Raises the ``VendorError`` of a 429."""
        rest = self._for_s - (time.monotonic() - self._began) % self._every_s if self._every_s else 0.0
        if rest > 0:
            raise too_many(self._model, self.pace(), ceil(rest * 1000) / 1000)
        charges = (("requests", self._requests, 1), ("tokens", self._tokens, input_tokens))
        for unit, bucket, need in charges:
            if bucket is not None and (wait := bucket.wait(need)):
                level = bucket.level()
                raise VendorError(
                    Problem.RATE,
                    model=self._model,
                    retry_after=float(ceil(wait)),
                    excess=Excess(unit, level.limit, level.limit - level.remaining, need),
                    pace=self.pace(),
                )
        for _, bucket, need in charges:
            if bucket is not None:
                bucket.take(need)

    def charge(self, output_tokens: int) -> None:
        """What an admitted request's answer takes, which may be more than is left."""
        if self._tokens is not None:
            self._tokens.take(output_tokens)

    def pace(self) -> Pace:
        return Pace(
            self._requests.level() if self._requests else UNLIMITED.requests,
            self._tokens.level() if self._tokens else UNLIMITED.tokens,
        )


def too_many(model: str, pace: Pace, retry_after: float) -> VendorError:
    """A 429 that no limit explains; its headers say that no request is left for so long."""
    limit = pace.requests.limit
    excess = Excess("requests", limit, limit, 1)
    return VendorError(Problem.RATE, model=model, retry_after=retry_after, excess=excess, pace=pace.spent(retry_after))


def _bucket(per_minute: int, burst_s: float) -> Bucket | None:
    return Bucket(per_minute, burst_s) if per_minute else None

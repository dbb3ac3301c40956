import asyncio
import time

import pytest

from tasks.config import Limits
from tasks.models.limiter import Limiter, Places


async def starts(limiter, calls, tokens=0, hold_s=0.0):
    """When each call began, in seconds from now."""
    began = time.perf_counter()
    times = []

    async def one():
        async with limiter.slot(tokens):
            times.append(time.perf_counter() - began)
            await asyncio.sleep(hold_s)

    await asyncio.gather(*(one() for _ in range(calls)))
    return times


def test_no_more_calls_are_in_flight_than_allowed():
    async def run():
        limiter = Limiter(Limits(max_concurrency=3))
        now = most = 0

        async def one():
            nonlocal now, most
            async with limiter.slot():
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.001)
                now -= 1

        await asyncio.gather(*(one() for _ in range(20)))
        return most

    assert asyncio.run(run()) == 3


def test_requests_are_spread_over_the_minute():
    async def run():
        return await starts(Limiter(Limits(requests_per_minute=600)), 63)

    times = asyncio.run(run())
    assert times[59] < 0.1  # a tenth of a minute's worth at once
    assert 0.25 < times[62] < 1.0  # the next three at ten a second


def test_tokens_are_spread_over_the_minute():
    async def run():
        return await starts(Limiter(Limits(tokens_per_minute=60_000)), 7, tokens=1_050)

    times = asyncio.run(run())
    assert times[4] < 0.1
    assert times[6] > 1.0  # 7,350 tokens: 6,000 at once, the rest at 1,000 a second


def test_a_call_larger_than_a_minutes_tokens_is_made_all_the_same():
    async def run():
        limiter = Limiter(Limits(tokens_per_minute=600_000))
        limiter._most_tokens = 61_000  # a minute's wait would be too long for a test
        return await starts(limiter, 1, tokens=10**9)

    assert 0.05 < asyncio.run(run())[0] < 1.0


def test_a_pause_holds_every_call_until_it_ends():
    async def run():
        limiter = Limiter(Limits(max_concurrency=2))
        limiter.pause(0.2)
        limiter.pause(0.05)
        return await starts(limiter, 5)

    assert min(asyncio.run(run())) >= 0.2


def test_a_pause_holds_the_calls_that_wait_for_their_pace():
    async def run():
        limiter = Limiter(Limits(requests_per_minute=600))
        await starts(limiter, 60)
        waiting = asyncio.create_task(starts(limiter, 1))
        await asyncio.sleep(0.01)
        limiter.pause(0.4)
        return await waiting

    assert asyncio.run(run())[0] >= 0.39


def test_pauses_grow_until_a_call_goes_well(monkeypatch):
    pauses = []

    async def run():
        limiter = Limiter(Limits())
        monkeypatch.setattr(limiter, "pause", pauses.append)
        for _ in range(7):
            limiter.rate_limited(None)
        limiter.went_well()
        limiter.rate_limited(None)
        limiter.rate_limited(0.0)
        limiter.rate_limited(33.0)

    asyncio.run(run())
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 2, 0.1, 33]


@pytest.mark.parametrize(
    "limits", [Limits(max_concurrency=1), Limits(requests_per_minute=10), Limits(tokens_per_minute=60)]
)
def test_a_cancelled_wait_takes_no_place_with_it(limits):
    async def run():
        limiter = Limiter(limits)
        async with limiter.slot(6):
            waiting = asyncio.create_task(starts(limiter, 1, tokens=6))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert not limiter._places.locked()
        if limits.max_concurrency == 1:
            await asyncio.wait_for(starts(limiter, 1), 1)

    asyncio.run(run())


def test_a_call_that_fails_gives_its_place_back():
    async def run():
        limiter = Limiter(Limits(max_concurrency=1))
        for _ in range(3):
            with pytest.raises(RuntimeError):
                async with limiter.slot():
                    raise RuntimeError
        return limiter._places.locked()

    assert asyncio.run(run()) is False


def test_the_smallest_rank_is_next_and_within_a_rank_the_first_that_came() -> None:
    async def order() -> list[str]:
        places, taken = Places(1), []

        async def take(name: str, rank: int) -> None:
            async with places.one(rank):
                taken.append(name)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for name, rank in (("first", 9), ("c", 2), ("a", 1), ("d", 2), ("b", 1)):
                group.create_task(take(name, rank))
        return taken

    assert asyncio.run(order()) == ["first", "a", "b", "c", "d"]


def test_a_cancelled_wait_leaves_its_place_to_the_next() -> None:
    async def goes_on() -> bool:
        places = Places(1)
        async with places.one(0):
            waits = [asyncio.create_task(places.one(rank).__aenter__()) for rank in (0, 1)]
            await asyncio.sleep(0)
            waits[0].cancel()
        await asyncio.wait_for(waits[1], 1)
        return waits[0].cancelled()

    assert asyncio.run(goes_on())

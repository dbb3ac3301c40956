import asyncio
import time
from unittest.mock import patch

import pytest

from tasks.models.exchange import Pace
from tasks.models.limiter import Limiter, Places
from tasks.settings import Limits


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
        return await starts(Limiter(Limits(requests_per_minute=600)), 13)

    times = asyncio.run(run())
    assert times[9] < 0.1  # a second's worth at once
    assert 0.25 < times[12] < 1.0  # the next three at ten a second


def test_tokens_are_spread_over_the_minute():
    async def run():
        return await starts(Limiter(Limits(tokens_per_minute=60_000)), 7, tokens=300)

    times = asyncio.run(run())
    assert times[2] < 0.1
    assert times[6] > 1.0  # 2,100 tokens: 1,000 at once, the rest at 1,000 a second


def test_a_call_larger_than_a_minutes_tokens_is_made_all_the_same():
    async def run():
        limiter = Limiter(Limits(tokens_per_minute=600_000))
        with patch("tasks.models.limiter.WINDOW_S", 48.0):  # a whole minute's wait would be too long for a test
            return await starts(limiter, 1, tokens=10**9)

    assert 0.1 < asyncio.run(run())[0] < 1.0


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
            limiter.rate_limited(None, 0.0)
        limiter.went_well()
        for retry_after in (None, 0.0, 33.0):
            limiter.rate_limited(retry_after, 0.0)

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


async def successes(limiter, number):
    """So many calls that go well, as many at a time as may be."""

    async def one():
        async with limiter.slot():
            await asyncio.sleep(0)
            limiter.went_well()

    await asyncio.gather(*(one() for _ in range(number)))


def test_calls_in_flight_double_until_the_first_429_and_then_grow_slowly():
    async def run():
        limiter = Limiter(Limits(max_concurrency=300))
        sizes = [limiter.concurrency]
        await successes(limiter, 100)
        sizes.append(limiter.concurrency)
        limiter.rate_limited(0.0, began=asyncio.get_running_loop().time())
        sizes.append(limiter.concurrency)
        await successes(limiter, 800)
        sizes.append(limiter.concurrency)
        return sizes

    first, grown, cut, after = asyncio.run(run())
    assert first == 16
    assert grown > 50
    assert cut == int(0.7 * grown)
    assert cut < after <= cut + 3


def test_calls_that_were_in_flight_together_cut_once_and_never_below_the_least():
    async def run():
        limiter = Limiter(Limits(max_concurrency=64, min_concurrency=5))
        now = asyncio.get_running_loop().time()
        for _ in range(9):
            limiter.rate_limited(0.0, now)
        once = limiter.concurrency
        for number in range(1, 9):
            limiter.rate_limited(0.0, now + 60 * number)
        return once, limiter.concurrency

    assert asyncio.run(run()) == (11, 5)


def test_calls_never_grow_beyond_the_most():
    async def run():
        limiter = Limiter(Limits(max_concurrency=20))
        await successes(limiter, 500)
        return limiter.concurrency

    assert asyncio.run(run()) == 20


def test_a_told_limit_paces_the_calls_and_a_lower_one_of_ours_stands():
    async def run(limits):
        limiter = Limiter(limits)
        limiter.told(Pace(requests_per_minute=1_200))
        return await starts(limiter, 26)

    for limits, at_once in ((Limits(), 20), (Limits(requests_per_minute=600), 10)):
        times = asyncio.run(run(limits))
        assert times[at_once - 2] < 0.1
        assert times[at_once + 4] > 0.15


def test_a_server_with_nothing_left_is_left_alone_for_as_long_as_it_says():
    async def run():
        limiter = Limiter(Limits())
        limiter.told(Pace(requests_per_minute=60_000, wait_s=0.2))
        return await starts(limiter, 1)

    assert asyncio.run(run())[0] >= 0.19


def test_fewer_places_let_those_that_hold_one_finish():
    async def run():
        places, inside, most = Places(4), 0, []

        async def one():
            nonlocal inside
            async with places.one(0):
                inside += 1
                most.append(inside)
                await asyncio.sleep(0.02)
                inside -= 1

        calls = [asyncio.create_task(one()) for _ in range(12)]
        await asyncio.sleep(0.01)
        places.resize(2)
        await asyncio.gather(*calls)
        return most

    assert max(asyncio.run(run())[4:]) == 2

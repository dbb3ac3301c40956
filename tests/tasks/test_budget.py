"""``budget_usd``: what is set aside before a call, what is on disk before that, what counts as spent after a crash."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from tasks.budget import Budget, lost_usd
from tasks.models import Unsent


def with_budget(root: Path, limit: float | None, spent: float, work: Callable[[Budget], Awaitable[None]]) -> Budget:
    async def run() -> Budget:
        budget = Budget(root, limit, spent)
        await work(budget)
        return budget

    return asyncio.run(asyncio.wait_for(run(), 10))


def on_disk(root: Path) -> dict[str, float]:
    found: dict[str, float] = orjson.loads((root / "ledger" / "budget.json").read_bytes())
    return found


def test_a_call_starts_only_when_its_worst_case_fits_what_is_left(tmp_path: Path) -> None:
    async def work(budget: Budget) -> None:
        await budget.reserve(0.4)
        budget.settle(0.4, 0.1)
        with pytest.raises(Unsent, match=r"budget_usd 1 is reached: 0.6000 spent, and the next call may cost 0.5000"):
            await budget.reserve(0.5)
        await budget.reserve(0.4)

    with_budget(tmp_path, 1.0, 0.5, work)


def test_a_call_waits_while_calls_in_flight_may_still_leave_enough(tmp_path: Path) -> None:
    async def work(budget: Budget) -> None:
        await budget.reserve(0.9)
        waiting = asyncio.create_task(budget.reserve(0.5))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        budget.settle(0.9, 0.2)
        await waiting

    with_budget(tmp_path, 1.0, 0.0, work)


def test_calls_in_flight_are_on_disk_before_they_start_and_count_as_spent_after_a_crash(tmp_path: Path) -> None:
    async def crash(budget: Budget) -> None:
        for _ in range(8):
            await budget.reserve(0.05)
            assert on_disk(tmp_path)["in_flight_usd"] >= 0.05
        for _ in range(4):
            budget.settle(0.05, 0.01)

    with_budget(tmp_path, 2.0, 0.0, crash)
    lost = lost_usd(tmp_path)
    assert 0.4 <= lost <= 1.25 * 0.4

    async def after(budget: Budget) -> None:
        assert budget.lost == lost
        with pytest.raises(Unsent, match="perhaps spent by calls that were broken off"):
            await budget.reserve(2.0 - lost + 0.01)
        await budget.reserve(2.0 - lost - 0.01)

    with_budget(tmp_path, 2.0, 0.0, after)


def test_what_was_settled_is_not_lost_when_a_run_closes_and_what_was_broken_off_is(tmp_path: Path) -> None:
    async def work(budget: Budget) -> None:
        await budget.reserve(0.3)
        await budget.reserve(0.2)
        budget.settle(0.3, 0.1)
        budget.close()

    with_budget(tmp_path, None, 0.0, work)
    assert on_disk(tmp_path) == {"lost_usd": 0.2, "in_flight_usd": 0.0}


def test_a_workspace_without_prices_has_no_file(tmp_path: Path) -> None:
    async def work(budget: Budget) -> None:
        await budget.reserve(0.0)
        budget.settle(0.0, 0.0)
        budget.close()

    with_budget(tmp_path, None, 0.0, work)
    assert not (tmp_path / "ledger").exists()
    assert lost_usd(tmp_path) == 0.0


def test_a_vendor_batch_is_set_aside_until_it_is_collected(tmp_path: Path) -> None:
    async def work(budget: Budget) -> None:
        budget.commit(0.7)
        with pytest.raises(Unsent, match=r"0.7000 set aside for vendor batches"):
            budget.commit(0.4)
        with pytest.raises(Unsent):
            await budget.reserve(0.4)
        budget.settle_batch(0.7, 0.2)
        await budget.reserve(0.4)

    with_budget(tmp_path, 1.0, 0.0, work)

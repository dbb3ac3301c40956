"""A run over a workspace: what everything that asks models shares, with Prefect or without."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from uuid import uuid4

from storage.ledger import Ledger, spent_usd
from storage.waits import Waits
from storage.workspace import Held, Workspace
from tasks.batches import Batch, C, Retry, Run, Stage, run_batch
from tasks.budget import Budget
from tasks.calls import Caller, Follows
from tasks.models.pool import ModelPool
from tasks.models.prices import check_prices
from tasks.vendor_batches import Desk

PATIENCE_S = 600.0  # a scheduled retry or collection of the same workspace has ended by then


@asynccontextmanager
async def afterwards(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do this too when the block failed; then the block's error is the one that is raised."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            await work()
        raise
    await work()


@asynccontextmanager
async def open_run(
    config: C,
    workspace: Workspace,
    served: C | None,
    progress: Follows,
    stage_of: Callable[[Batch], Stage[C]],
    *,
    retry: Retry | None = None,
    wait: bool = True,
) -> AsyncIterator[Run[C]]:
    """A run over a workspace whose lock is held. ``served`` is the config with its servers' addresses.

    Without it no model is asked: tables come from the ledger. Raises ``ConfigError`` for a budget without prices.
    """
    ledger = Ledger(workspace.root, uuid4().hex[:12], simulated=config.simulated)
    spent = 0.0 if config.budget_usd is None else await asyncio.to_thread(spent_usd, workspace.root)
    budget = Budget(workspace.root, config.budget_usd, spent)
    caller = Caller(None, ledger, budget, progress, config.give_up_after)
    run = Run(config, workspace, ledger, caller, stage_of, retry)
    waits = Waits(workspace.root, ledger.run)
    try:
        if served is None:
            yield run
        else:
            check_prices(config)
            async with (
                ModelPool(served, budget, waits.add) as caller.pool,
                Desk(served, ledger, workspace.root, budget, caller.keep, wait=wait) as caller.desk,
            ):
                yield run
    finally:
        waits.write()
        try:
            budget.close()
        finally:
            await ledger.close()


async def hold(stack: ExitStack, place: Workspace, patience_s: float = PATIENCE_S) -> None:
    """Take the workspace's lock. Raises ``Held`` where it is not free within so many seconds."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return stack.enter_context(place.lock())
        except Held:
            if time.monotonic() >= end:
                raise
            await asyncio.sleep(1)


async def do_batch(run: Run[C], batch: Batch) -> None:
    """One batch as it is, without Prefect."""
    await run_batch(run, run.stage_of(batch), batch)

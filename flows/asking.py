"""A run, and its annotation batches as Prefect task runs: what every flow that asks models shares."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from prefect import runtime, task
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.watch import tell
from storage.errors import UserError
from storage.ledger import Ledger, spent_usd
from storage.waits import Waits
from storage.workspace import Held, Workspace
from tasks.batches import Batch, BatchFailed, BatchWaits, C, Retry, Run, Stage, run_batch, state_message
from tasks.budget import Budget
from tasks.calls import Caller, Follows
from tasks.models.pool import ModelPool
from tasks.models.prices import check_prices
from tasks.vendor_batches import Desk

RUN: ContextVar[Run[Any]] = ContextVar("run")
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
    stages: Mapping[str, Stage[C]],
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
    run = Run(config, workspace, ledger, caller, dict(stages), retry)
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


@task(task_run_name="{stage} {shard} {part}", persist_result=False)
async def annotation_batch(stage: str, shard: str, part: str) -> State[None]:
    """A retry of the task run asks failed calls anew."""
    retry = Retry() if runtime.task_run.run_count > 1 else None
    try:
        run = RUN.get()
        manifest = await run_batch(run, run.stages[stage], Batch(stage, shard, part), retry)
    except BatchFailed as failed:
        return Failed(message=str(failed))
    except BatchWaits as waits:
        return Completed(name="Waiting", message=str(waits))
    return Completed(message=state_message(manifest))


async def batch_as_task_run(run: Run[C], batch: Batch) -> None:
    """One batch as one Prefect task run, named and tagged for its stage. Raises what ``run_batch`` raises.

    What is wrong with more than the batch, as a full disk, is raised as it is and ends the build.
    """
    models = {model.name for model in run.stages[batch.stage].models(run.config)}
    tags = [batch.stage, run.config.name, *sorted(models)]
    annotate = annotation_batch.with_options(name=batch.stage, tags=tags)
    state = await annotate(*batch.place, return_state=True)  # type: ignore[misc]  # Prefect types it as not async
    if not state.is_completed():
        error = await state.aresult(raise_on_failure=False)
        if isinstance(error, UserError):
            raise error
        tell("batch.failed", run, batch=batch.name, why=state.message or state.name)
        raise BatchFailed(state.message or f"{batch.name}: {state.name}")
    if state.name == "Waiting":
        raise BatchWaits(state.message)


async def do_batch(run: Run[C], batch: Batch) -> None:
    """One batch as it is, without Prefect."""
    await run_batch(run, run.stages[batch.stage], batch)

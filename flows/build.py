"""The main job: questions in, RubricData and RefineData out.

    questions         read the sources, cluster what repeats, cut into shards
    for each shard, independently of the others:
      answers           every generator answers every question
      rubrics           the teacher induces a rubric for each answer
      trajectories      the teacher scores, explains, suggests and rewrites under each rubric item
      coverage          the teacher writes answers of the levels that are missing, and then
      rubrics             their rubrics
      trajectories        and their trajectories
      judges            independent models score again, blind to the teacher
    consensus         kept where every judge gives the teacher's score
    near_duplicates   what repeats a retained instance goes
    diversity         Distinct-n before and after
    split             train and test, whole question clusters
    export            RubricData and RefineData, with their card

Shards overlap, so generators, teacher and judges work at the same time. An annotation batch (one of the
stages between questions and consensus, for one shard) is one Prefect task run. No data pass through Prefect.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from uuid import uuid4

from prefect import flow, runtime, task
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.artifacts import publish
from flows.orphans import settle_orphans
from flows.plan import STAGES, batch_stands, chain, config_file, config_of, keep_config, nothing_wanted, prune
from flows.progress import Progress
from flows.simulator import with_simulator
from flows.watch import tell, watched
from storage.errors import UserError
from storage.ledger import Ledger, spent_usd
from storage.waits import Waits
from storage.workspace import Held, Workspace
from tasks import curation, questions
from tasks.batches import Batch, BatchFailed, BatchWaits, Retry, Run, all_of, run_batch, state_message, still_waits
from tasks.budget import Budget
from tasks.calls import Caller, Follows
from tasks.config import Config, load_config
from tasks.curation import STEPS, Step, run_step
from tasks.models.pool import ModelPool, require_keys
from tasks.models.prices import check_prices
from tasks.unwanted import write_unwanted_calls
from tasks.vendor_batches import Desk

RUN: ContextVar[Run] = ContextVar("run")
PATIENCE_S = 600.0  # a scheduled retry or collection of the same workspace has ended by then


class BatchesFailed(UserError):
    """Some batches ended red; what they lack can be asked for again."""


class StillWaiting(Exception):
    """Calls are in vendor batches that this run does not wait for; a later one goes on."""


def name_of_run() -> str:
    """The data set's name."""
    config = runtime.flow_run.parameters["config"]
    try:
        return str(_loaded(config).name)
    except UserError:  # the run itself will say so
        return str(config)


def _loaded(config: Config | str) -> Config:
    return load_config(config_file(Path(config))) if isinstance(config, str) else config


@flow(name="build-dataset", flow_run_name=name_of_run, persist_result=False)
async def build_dataset(
    config: Config | str, workspace: str, skip_bad_rows: bool = False, wait: bool = True
) -> State[None] | None:
    """Build both data sets. What is done already is not done again.

    A retry of the flow run asks failed calls anew.

    Args:
        config: The settings, or the path of a YAML file with them on the worker's machine (or demo.yaml).
        workspace: The data set's folder on the worker's machine.
        skip_bad_rows: Go on without source rows that cannot be used.
        wait: Wait for vendor batches. Without it the run submits and collects what it can, and a later one goes on.
    """
    retry = Retry() if runtime.flow_run.run_count > 1 else None
    return await run_all(_loaded(config), Workspace(workspace), retry, skip_bad_rows=skip_bad_rows, wait=wait)


async def run_where_free(
    config: Config | None, workspace: str, retry: Retry | None, *, wait: bool
) -> State[None] | None:
    """``run_all`` under the workspace's own settings where none are given; nothing while another run is at work."""
    place = Workspace(workspace, create=False)
    try:
        return await run_all(config or config_of(place), place, retry, wait=wait, patience_s=0)
    except Held as held:
        return Completed(name="Skipped", message=str(held))


async def run_all(
    config: Config,
    place: Workspace,
    retry: Retry | None,
    *,
    skip_bad_rows: bool = False,
    wait: bool = True,
    patience_s: float = PATIENCE_S,
) -> State[None] | None:
    """All that does not stand; a state where nothing was to be done, or the build waits for vendor batches.

    Raises ``Held`` where another run is still at work after ``patience_s`` seconds.
    """
    if nothing_wanted(place, config, retry):
        return Completed(name="NothingToDo", message="All that the config asks for is there.")
    require_keys(config)
    # Prefect raises its own signal wherever the loop happens to be, where it can get lost: end as Ctrl-C does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    with ExitStack() as stack:
        await hold(stack, place, patience_s)
        served = stack.enter_context(with_simulator(config))
        await settle_orphans(place.root)
        place.claim(config.name, simulated=config.simulated)
        await read_questions(place, config, skip_bad_rows)
        progress = stack.enter_context(Progress(config.name))
        async with (
            open_run(config, place, served, progress, retry=retry, wait=wait) as run,
            afterwards(lambda: publish(place)),
            watched(run, progress),
        ):
            RUN.set(run)
            try:
                await build(run, batch_as_task_run, step_as_task_run)
            except StillWaiting as waiting:
                return Completed(name="Waiting", message=str(waiting))
    return None


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


async def build(
    run: Run, do_batch: Callable[[Run, Batch], Awaitable[None]], do_step: Callable[[Run, Step], Awaitable[None]]
) -> None:
    """All that does not stand: every shard's batches, then the steps over all shards."""
    keep_config(run.workspace, run.config)
    prune(run.workspace, run.config)
    async with afterwards(lambda: asyncio.to_thread(write_unwanted_calls, run, STAGES.values())):
        await build_shards(run, do_batch)
    await build_steps(run, do_step)


async def build_steps(run: Run, do_step: Callable[[Run, Step], Awaitable[None]]) -> None:
    """The steps over all shards that do not stand, in order."""
    for step in STEPS:
        if not curation.stands(step, run.workspace, run.config):
            await do_step(run, step)


async def build_shards(run: Run, do_batch: Callable[[Run, Batch], Awaitable[None]]) -> None:
    """Every shard through its batches, in order. Raises ``BatchesFailed`` when any ended red, else ``StillWaiting``."""
    places = asyncio.Semaphore(run.config.shards_in_flight)
    red: list[str] = []
    waiting: list[str] = []

    async def build_shard(shard: str) -> None:
        async with places:
            for batch in chain(run.config, shard):
                if batch_stands(run.workspace, run.config, batch, run.retry):
                    continue
                if (manifest := still_waits(run, STAGES[batch.stage], batch)) is not None:
                    waiting.append(state_message(manifest))
                    return
                try:
                    await do_batch(run, batch)
                except BatchFailed as failed:
                    red.append(str(failed))
                    return
                except BatchWaits as waits:
                    waiting.append(str(waits))
                    return

    shards = curation.shards_of(run.workspace)
    run.ranks = {shard: rank for rank, shard in enumerate(shards)}
    await all_of(map(build_shard, shards))
    if red:
        lines = [f"annotation batches that ended red: {len(red)}; what was answered is kept. The first:", *red[:5]]
        raise BatchesFailed("\n  ".join(lines))
    if waiting:
        lines = [f"shards that wait for vendor batches: {len(waiting)}. The first:", *waiting[:5]]
        raise StillWaiting("\n  ".join(lines))


@task(task_run_name="questions", persist_result=False)
async def read_questions(workspace: Workspace, config: Config, skip_bad_rows: bool) -> None:
    if not questions.stands(workspace, config):
        await asyncio.to_thread(questions.read_questions, workspace, config, skip_bad_rows=skip_bad_rows)


@task(task_run_name="{stage} {shard} {part}", persist_result=False)
async def annotation_batch(stage: str, shard: str, part: str) -> State[None]:
    """A retry of the task run asks failed calls anew."""
    retry = Retry() if runtime.task_run.run_count > 1 else None
    try:
        manifest = await run_batch(RUN.get(), STAGES[stage], Batch(stage, shard, part), retry)
    except BatchFailed as failed:
        return Failed(message=str(failed))
    except BatchWaits as waits:
        return Completed(name="Waiting", message=str(waits))
    return Completed(message=state_message(manifest))


async def batch_as_task_run(run: Run, batch: Batch) -> None:
    """One batch as one Prefect task run, named and tagged for its stage. Raises what ``run_batch`` raises.

    What is wrong with more than the batch, as a full disk, is raised as it is and ends the build.
    """
    models = {model.name for model in STAGES[batch.stage].models(run.config)}
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


async def step_as_task_run(run: Run, step: Step) -> None:
    """One step over all shards as one Prefect task run."""
    await curation_step.with_options(name=step.name, tags=[step.name, run.config.name])(step.name)


@task(task_run_name="{name}", persist_result=False)
async def curation_step(name: str) -> None:
    await do_step(RUN.get(), next(step for step in STEPS if step.name == name))


async def do_batch(run: Run, batch: Batch) -> None:
    """One batch as it is, without Prefect."""
    await run_batch(run, STAGES[batch.stage], batch)


async def do_step(run: Run, step: Step) -> None:
    """One step as it is, without Prefect; its work leaves the event loop by a thread."""
    await asyncio.to_thread(run_step, step, run.workspace, run.config)


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
    config: Config,
    workspace: Workspace,
    served: Config | None,
    progress: Follows,
    *,
    retry: Retry | None = None,
    wait: bool = True,
) -> AsyncIterator[Run]:
    """A run over a workspace whose lock is held. ``served`` is the config with its servers' addresses.

    Without it no model is asked: tables come from the ledger. Raises ``ConfigError`` for a budget without prices.
    """
    ledger = Ledger(workspace.root, uuid4().hex[:12], simulated=config.simulated)
    spent = 0.0 if config.budget_usd is None else await asyncio.to_thread(spent_usd, workspace.root)
    budget = Budget(workspace.root, config.budget_usd, spent)
    caller = Caller(None, ledger, budget, progress, config.give_up_after)
    run = Run(config, workspace, ledger, caller, retry)
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

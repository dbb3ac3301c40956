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
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from prefect import flow, runtime, task
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.artifacts import publish
from flows.asking import PATIENCE_S, afterwards, hold, open_run
from flows.orphans import settle_orphans
from flows.plan import STAGES, batch_stands, chain, config_file, config_of, keep_config, nothing_wanted, prune, stage_of
from flows.progress import Progress
from flows.simulator import with_simulator
from flows.task_runs import RUN, batch_as_task_run
from flows.watch import watched
from storage.errors import UserError
from storage.workspace import Held, Workspace
from tasks import curation, questions
from tasks.batches import Batch, BatchFailed, BatchWaits, Retry, Run, all_of, state_message, still_waits
from tasks.config import Config, load_config
from tasks.curation import STEPS, Step, run_step
from tasks.models.pool import require_keys
from tasks.unwanted import write_unwanted_calls


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
            open_run(config, place, served, progress, stage_of, retry=retry, wait=wait) as run,
            afterwards(lambda: publish(place)),
            watched(run, progress),
        ):
            RUN.set(run)
            try:
                await build(run, batch_as_task_run, step_as_task_run)
            except StillWaiting as waiting:
                return Completed(name="Waiting", message=str(waiting))
    return None


async def build(
    run: Run[Config],
    do_batch: Callable[[Run[Config], Batch], Awaitable[None]],
    do_step: Callable[[Run[Config], Step], Awaitable[None]],
) -> None:
    """All that does not stand: every shard's batches, then the steps over all shards."""
    keep_config(run.workspace, run.config)
    prune(run.workspace, run.config)
    async with afterwards(lambda: asyncio.to_thread(write_unwanted_calls, run, STAGES.values())):
        await build_shards(run, do_batch)
    await build_steps(run, do_step)


async def build_steps(run: Run[Config], do_step: Callable[[Run[Config], Step], Awaitable[None]]) -> None:
    """The steps over all shards that do not stand, in order."""
    for step in STEPS:
        if not curation.stands(step, run.workspace, run.config):
            await do_step(run, step)


async def build_shards(run: Run[Config], do_batch: Callable[[Run[Config], Batch], Awaitable[None]]) -> None:
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


async def step_as_task_run(run: Run[Config], step: Step) -> None:
    """One step over all shards as one Prefect task run."""
    await curation_step.with_options(name=step.name, tags=[step.name, run.config.name])(step.name)


@task(task_run_name="{name}", persist_result=False)
async def curation_step(name: str) -> None:
    await do_step(RUN.get(), next(step for step in STEPS if step.name == name))


async def do_step(run: Run[Config], step: Step) -> None:
    """One step as it is, without Prefect; its work leaves the event loop by a thread."""
    await asyncio.to_thread(run_step, step, run.workspace, run.config)

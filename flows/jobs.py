"""A job that asks models, beside the build: in this process, or as a Prefect flow."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeVar

from flows.asking import do_batch, hold, open_run
from flows.progress import Progress
from flows.simulator import with_simulator
from flows.vendor_batches import leave_or_cancel
from storage.workspace import Workspace
from tasks.batches import Batch, Retry, Stage
from tasks.jobs import Asker, Job
from tasks.models.pool import require_keys

T = TypeVar("T")
Work = Callable[[Asker], Awaitable[T]]


def run_job(job: Job, place: Workspace, work: Work[T], *, retry: bool = False) -> T:
    """Do the job in this process; what was answered before is not asked again.

    ``retry`` asks anew what has failed. Raises ``Held``, ``ConfigError``, ``JobFailed``.
    """

    async def asking(served: Job, progress: Progress) -> T:
        stages: dict[Batch, Stage[Job]] = {}
        asked_again = Retry() if retry else None
        async with open_run(job, place, served, progress, stages.__getitem__, retry=asked_again) as run:
            return await work(Asker(run, do_batch, stages))

    require_keys(job)
    with place.lock(), with_simulator(job) as served, Progress(job.name) as progress:
        place.claim(job.name, simulated=job.simulated)
        try:
            return asyncio.run(asking(served, progress))
        except KeyboardInterrupt:
            leave_or_cancel(job, place)
            raise


async def run_job_in_flow(job: Job, place: Workspace, work: Work[T]) -> T:
    """Do the job in a Prefect flow run, each annotation batch a task run. A retry of it asks failed calls anew."""
    from prefect import runtime

    from flows.orphans import settle_orphans
    from flows.task_runs import RUN, batch_as_task_run
    from flows.watch import watched

    require_keys(job)
    retry = Retry() if runtime.flow_run.run_count > 1 else None
    stages: dict[Batch, Stage[Job]] = {}
    with ExitStack() as stack:
        await hold(stack, place)
        served = stack.enter_context(with_simulator(job))
        await settle_orphans(place.root)
        place.claim(job.name, simulated=job.simulated)
        progress = stack.enter_context(Progress(job.name))
        async with (
            open_run(job, place, served, progress, stages.__getitem__, retry=retry) as run,
            watched(run, progress),
        ):
            RUN.set(run)
            return await work(Asker(run, batch_as_task_run, stages))

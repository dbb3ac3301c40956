"""Annotation batches as Prefect task runs."""

from contextvars import ContextVar
from typing import Any

from prefect import runtime, task
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.watch import tell
from storage.errors import UserError
from tasks.batches import Batch, BatchFailed, BatchWaits, C, Retry, Run, run_batch, state_message

RUN: ContextVar[Run[Any]] = ContextVar("run")


@task(task_run_name="{stage} {shard} {part}", persist_result=False)
async def annotation_batch(stage: str, shard: str, part: str) -> State[None]:
    """A retry of the task run asks failed calls anew."""
    retry = Retry() if runtime.task_run.run_count > 1 else None
    try:
        run = RUN.get()
        batch = Batch(stage, shard, part)
        manifest = await run_batch(run, run.stage_of(batch), batch, retry)
    except BatchFailed as failed:
        return Failed(message=str(failed))
    except BatchWaits as waits:
        return Completed(name="Waiting", message=str(waits))
    return Completed(message=state_message(manifest))


async def batch_as_task_run(run: Run[C], batch: Batch) -> None:
    """One batch as one Prefect task run, named and tagged for its stage. Raises what ``run_batch`` raises.

    What is wrong with more than the batch, as a full disk, is raised as it is and ends the build.
    """
    models = {model.name for model in run.stage_of(batch).models(run.config)}
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

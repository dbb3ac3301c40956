"""Ask failed calls again, and go on with the build."""

from typing import Literal

from prefect import flow
from prefect.client.schemas.objects import State

from flows.build import run_where_free
from tasks.batches import Retry
from tasks.config import Config

# What the forms of the Prefect UI offer.
StageName = Literal["answers", "rubrics", "trajectories", "coverage", "judges"]
Failure = Literal[
    "server", "timeout", "connection", "truncated", "refused", "empty", "malformed", "out_of_contract", "too_long",
    "rejected", "missing", "abandoned",
]  # fmt: skip


@flow(name="retry-failed", flow_run_name="retry {workspace}", persist_result=False)
async def retry_failed(
    workspace: str,
    stage: StageName | None = None,
    model: str | None = None,
    outcome: Failure | None = None,
    config: Config | None = None,
    wait: bool = True,
    shard: str | None = None,
) -> State[None] | None:
    """Ask failed calls again, and go on with the build: those of a stage, a model, a class or a shard, or all.

    Calls that are ok are never asked again.

    Args:
        workspace: The data set's folder on the worker's machine.
        stage: Failed calls of this stage only.
        model: Failed calls to this model only, as vendor/model.
        outcome: Failed calls of this class only.
        config: Other settings; the workspace's own where none are given.
        wait: Wait for vendor batches.
        shard: Failed calls of this shard only.
    """
    return await run_where_free(config, workspace, Retry(stage, model, outcome, shard), wait=wait)

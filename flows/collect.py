"""Look at the vendor batches without waiting for them."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.build import run_where_free
from tasks.config import Config


@flow(name="collect-batches", flow_run_name="collect {workspace}", persist_result=False)
async def collect_batches(workspace: str, config: Config | None = None) -> State[None] | None:
    """Look once at every vendor batch, and go on with the build as far as their answers reach.

    Args:
        workspace: The data set's folder on the worker's machine.
        config: Other settings; the workspace's own where none are given.
    """
    return await run_where_free(config, workspace, None, wait=False)

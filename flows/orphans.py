"""Flow runs whose process died, which Prefect takes for Running: the next run over the workspace ends them."""

from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run
from prefect.states import Crashed


async def settle_orphans(workspace: Path) -> int:
    """Set the other Running flow runs over this workspace to Crashed: hold its lock, so that none of them lives."""
    running = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))
    settled = 0
    async with get_client() as client:
        for run in await client.read_flow_runs(flow_run_filter=running):
            place = Path(str(run.parameters.get("workspace"))).resolve()
            if str(run.id) != flow_run.id and place == workspace.resolve():
                state: State[None] = Crashed(
                    message="Its process ended without a word; another run goes on with its work."
                )
                await client.set_flow_run_state(run.id, state, force=True)
                settled += 1
    return settled

"""The filters, the split and the export again, over what is there."""

from contextlib import ExitStack

from prefect import flow

from flows.artifacts import publish
from flows.asking import afterwards, hold, open_run
from flows.build import build_steps, step_as_task_run
from flows.orphans import settle_orphans
from flows.plan import config_of, keep_config, stage_of
from flows.progress import Progress
from flows.task_runs import RUN
from storage.workspace import Workspace
from tasks.config import Consensus, Export, NearDuplicates, Split


@flow(name="curate", flow_run_name="curate {workspace}", persist_result=False)
async def curate(
    workspace: str,
    consensus: Consensus | None = None,
    near_duplicates: NearDuplicates | None = None,
    split: Split | None = None,
    export: Export | None = None,
) -> None:
    """Filters, split and export again with these settings. No model is asked.

    The settings become the workspace's own; a section that is not given stays as it is.

    Args:
        workspace: The data set's folder on the worker's machine.
        consensus: Which rows the judges keep.
        near_duplicates: Which rows repeat another.
        split: Train and test.
        export: What is written.
    """
    place = Workspace(workspace, create=False)
    given = {"consensus": consensus, "near_duplicates": near_duplicates, "split": split, "export": export}
    changes = {name: section for name, section in given.items() if section is not None}
    config = config_of(place).model_copy(update=changes)
    with ExitStack() as stack:
        await hold(stack, place)
        await settle_orphans(place.root)
        keep_config(place, config)
        async with (
            open_run(config, place, None, Progress(config.name), stage_of) as run,
            afterwards(lambda: publish(place)),
        ):
            RUN.set(run)
            await build_steps(run, step_as_task_run)

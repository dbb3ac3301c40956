"""A critic evaluated as a Prefect flow: each annotation batch a task run."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact

from flows.evaluation import Evaluation, default_workspace, evaluate_files, prepare
from flows.jobs import run_job_in_flow
from storage.workspace import Workspace
from tasks.evaluation.report import markdown, write_report


@flow(name="evaluate-critic", flow_run_name="evaluate {evaluation.model}", persist_result=False)
async def evaluate_critic(
    evaluation: Evaluation, config: str | None = None, workspace: str | None = None
) -> dict[str, Any]:
    """Hold a critic against references; the report stands in the workspace and as an artifact. What was answered is
    not asked again; a retry of the flow run asks failed calls anew.

    Args:
        evaluation: What is evaluated, and against what.
        config: A config file with servers, limits, prices and budget; any build's.
        workspace: The folder of its calls; workspaces/evaluate-VENDOR-MODEL when not given.
    """
    if evaluation.asks:
        prepared = prepare(evaluation, None if config is None else Path(config))
        place = Workspace(workspace or default_workspace(evaluation))
        found = prepared.finish(await run_job_in_flow(prepared.job, place, prepared.work), place)
        write_report(found, place.root / "report")
    else:
        found = evaluate_files(evaluation)
    await acreate_markdown_artifact(markdown(found), key="evaluation", description="A critic held against references")
    return found

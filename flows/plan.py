"""What a run has to do: the annotation batches of each shard, in order, and which of them stand already."""

from importlib.resources import files
from pathlib import Path

import orjson

from storage.workspace import Workspace, WorkspaceError, write_bytes
from tasks import batches, curation, questions
from tasks.answers import ANSWERS
from tasks.batches import Batch, Retry, Stage
from tasks.config import Config
from tasks.coverage import COVERAGE
from tasks.curation import STEPS
from tasks.rubrics import RUBRICS
from tasks.trajectories import JUDGES, TRAJECTORIES, parts_of
from tasks.unwanted import UNWANTED

STAGES: dict[str, Stage[Config]] = {stage.name: stage for stage in (ANSWERS, RUBRICS, TRAJECTORIES, COVERAGE, JUDGES)}


def stage_of(batch: Batch) -> Stage[Config]:
    return STAGES[batch.stage]


def config_file(path: Path) -> Path:
    """The path, or that of the config which ships with the project under this name: demo.yaml, paper.yaml, ..."""
    shipped = Path(str(files("deployments") / "configs")) / path
    return shipped if path.name == str(path) and shipped.exists() and not path.exists() else path


def config_of(workspace: Workspace) -> Config:
    """The settings of the workspace's last run."""
    path = workspace.root / "config.json"
    try:
        return Config.model_validate(orjson.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{path}: cannot be read ({error}); `criticgen run CONFIG` writes it") from None


def keep_config(workspace: Workspace, config: Config) -> None:
    """Make these the settings of the workspace's last run."""
    write_bytes(workspace.root / "config.json", orjson.dumps(config.model_dump(), option=orjson.OPT_INDENT_2))


def chain(config: Config, shard: str) -> list[Batch]:
    """The annotation batches of one shard, in the paper's order."""
    pool, *rounds = parts_of(config)
    batches = [
        Batch("answers", shard, pool),
        Batch("rubrics", shard, pool),
        Batch("trajectories", shard, pool),
    ]
    for part in rounds:
        batches += [
            Batch("coverage", shard, part),
            Batch("rubrics", shard, part),
            Batch("trajectories", shard, part),
        ]
    return [*batches, Batch("judges", shard, "all")]


def batch_stands(workspace: Workspace, config: Config, batch: Batch, retry: Retry | None = None) -> bool:
    return batches.stands(STAGES[batch.stage], config, batch, workspace, retry)


def nothing_wanted(workspace: Workspace, config: Config, retry: Retry | None = None) -> bool:
    """Whether every batch and every step stands. Reads manifests only."""
    if not (workspace.root / "config.json").exists() or not questions.stands(workspace, config):
        return False
    return all(
        batch_stands(workspace, config, batch, retry)
        for shard in curation.shards_of(workspace)
        for batch in chain(config, shard)
    ) and all(curation.stands(step, workspace, config) for step in STEPS)


def prune(workspace: Workspace, config: Config) -> None:
    """Remove what the present settings do not make: shards, rounds. Nothing paid for is in these files alone."""
    keep = {workspace.manifest_path(step.name) for step in STEPS} | {workspace.manifest_path("questions")}
    keep |= {workspace.table_path(name, "all") for name in ("near_duplicates", "diversity", "splits")}
    for shard in curation.shards_of(workspace):
        keep |= {workspace.table_path(name, shard) for name in ("questions", "coverage", "consensus")}
        keep.add(workspace.manifest_path("questions", shard))
        for batch in chain(config, shard):
            stage = STAGES[batch.stage]
            keep.add(workspace.table_path(stage.writes, *stage.file(batch)))
            keep.add(workspace.table_path("calls", *batch.place))
            keep.add(workspace.manifest_path(*batch.place))
    keep.add(workspace.table_path("calls", UNWANTED))
    workspace.prune(keep)

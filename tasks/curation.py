"""The steps that ask no model: consensus, near-duplicates, diversity, split, export. Rows in, rows out, reasons.

Each step reads tables and writes tables; the rules are in the step's own file. A step's manifest, written
last, holds the fingerprint of what it was made from, so a step whose inputs and settings stand is not done again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from storage.ids import content_id
from storage.workspace import Workspace, now
from tasks.batches import Manifest, release
from tasks.config import Config
from tasks.instances import DATA_SETS, refine_candidates, retained_instances, rubric_instances, with_inputs

Counts = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """``do`` writes the files ``writes`` and returns the step's counts: rows in, rows out, and dropped by reason."""

    name: str
    after: Sequence[str]
    settings: Callable[[Config], Any]
    writes: Callable[[Workspace], Sequence[Path]]
    do: Callable[[Workspace, Config], Counts]


def consensus_step(workspace: Workspace, config: Config) -> Counts:
    from tasks.consensus import consensus
    from tasks.coverage import coverage_table

    settings = config.consensus
    counts: Counts = {"in": 0, "out": 0, "dropped": {}}
    for shard in shards_of(workspace):
        workspace.write_table("coverage", coverage_table(workspace, config, shard), shard)
        table = consensus(
            workspace.read_table("trajectories", shard, "teacher"),
            workspace.read_table("trajectories", shard, "judge"),
            workspace.read_table("rubrics", shard),
            judge_models=[judge.name for judge in config.judges],
            tolerance=settings.tolerance,
            quorum=settings.quorum,
        )
        workspace.write_table("consensus", table, shard)
        _count(counts, table.filter("kept").height, table.filter(~pl.col("kept"))["reason"])
    return counts


def near_duplicates_step(workspace: Workspace, config: Config) -> Counts:
    from tasks.near_duplicates import near_duplicates

    settings = config.near_duplicates
    kept = workspace.read_table("consensus", columns=["item_id", "kept"]).filter("kept")
    instances = {
        "rubric_data": rubric_instances(workspace),
        "refine_data": refine_candidates(workspace).join(kept, on="item_id", how="semi", maintain_order="left"),
    }
    tables = [
        near_duplicates(
            instances[name].select("instance_id", "text"),
            data_set=name,
            threshold=settings.threshold,
            n=settings.n,
            mode=config.text_mode,
        )
        for name in DATA_SETS
    ]
    workspace.write_table("near_duplicates", pl.concat(tables), "all")
    return {
        name: {"in": len(table), "out": table["kept"].sum(), "dropped": _reasons(table["kept"], "near_duplicate")}
        for name, table in zip(DATA_SETS, tables, strict=True)
    }


def diversity_step(workspace: Workspace, config: Config) -> Counts:
    from tasks.diversity import diversity

    agreed = workspace.read_table("consensus", columns=["item_id", "kept"]).filter("kept")
    retained = workspace.read_table("near_duplicates").filter("kept")
    rubrics = with_inputs(workspace, rubric_instances(workspace))
    refine = with_inputs(workspace, refine_candidates(workspace))
    frames = {
        ("rubric_data", "candidates"): rubrics,
        ("rubric_data", "near_duplicates"): rubrics.join(retained, on="instance_id", how="semi"),
        ("refine_data", "candidates"): refine,
        ("refine_data", "consensus"): refine.join(agreed, on="item_id", how="semi"),
        ("refine_data", "near_duplicates"): refine.join(retained, on="instance_id", how="semi"),
    }
    table = diversity(frames, mode=config.text_mode)
    workspace.write_table("diversity", table, "all")
    return {"rows": len(table)}


def split_step(workspace: Workspace, config: Config) -> Counts:
    from tasks.split import split

    previous = workspace.read_table("splits")
    table = split(
        retained_instances(workspace).drop("text"),
        rubric_ratio=config.split.rubric_ratio,
        refine_ratio=config.split.refine_ratio,
        seed=config.split.seed,
        previous=previous if len(previous) else None,
    )
    workspace.write_table("splits", table, "all")
    return {
        name: {split: table.filter(data_set=name, split=split).height for split in ("train", "test")}
        for name in DATA_SETS
    }


def export_step(workspace: Workspace, config: Config) -> Counts:
    from tasks.export import export

    return export(workspace, config)


def per_shard(workspace: Workspace) -> list[Path]:
    names = ("consensus", "coverage")
    return [workspace.table_path(name, shard) for name in names for shard in shards_of(workspace)]


STEPS = (
    Step(
        name="consensus",
        after=(),
        settings=lambda config: (config.consensus.model_dump(), [judge.name for judge in config.judges]),
        writes=per_shard,
        do=consensus_step,
    ),
    Step(
        name="near_duplicates",
        after=("consensus",),
        settings=lambda config: (config.near_duplicates.model_dump(), config.text_mode),
        writes=lambda workspace: [workspace.table_path("near_duplicates", "all")],
        do=near_duplicates_step,
    ),
    Step(
        name="diversity",
        after=("near_duplicates",),
        settings=lambda config: config.text_mode,
        writes=lambda workspace: [workspace.table_path("diversity", "all")],
        do=diversity_step,
    ),
    Step(
        name="split",
        after=("near_duplicates",),
        settings=lambda config: config.split.model_dump(),
        writes=lambda workspace: [workspace.table_path("splits", "all")],
        do=split_step,
    ),
    Step(
        name="export",
        after=("diversity", "split"),
        settings=lambda config: (config.name, config.export.model_dump()),
        writes=lambda workspace: [workspace.root / "exports" / "README.md"],
        do=export_step,
    ),
)


def fingerprint(step: Step, workspace: Workspace, config: Config) -> str:
    """Hash of all that decides a step's tables."""
    before: list[Any] = [(workspace.read_manifest(name) or {}).get("output") for name in step.after]
    if not step.after:
        stages = ("questions", "rubrics", "trajectories", "judges")
        before = [[manifest["output"] for manifest in workspace.manifests(stage)] for stage in stages]
    return content_id(release(), step.name, step.settings(config), before)


def stands(step: Step, workspace: Workspace, config: Config) -> bool:
    manifest = workspace.read_manifest(step.name)
    if not all(path.exists() for path in step.writes(workspace)):
        return False
    return manifest is not None and manifest["fingerprint"] == fingerprint(step, workspace, config)


def run_step(step: Step, workspace: Workspace, config: Config) -> Manifest:
    """Do one step and write its manifest."""
    mark = fingerprint(step, workspace, config)
    workspace.forget_manifest(step.name)
    counts = step.do(workspace, config)
    manifest = {"step": step.name, "fingerprint": mark, "output": mark, "counts": counts, "finished_at": now()}
    workspace.write_manifest(manifest, step.name)
    return manifest


def shards_of(workspace: Workspace) -> list[str]:
    return list((workspace.read_manifest("questions") or {"shards": []})["shards"])


def _count(counts: Counts, kept: int, reasons: pl.Series) -> None:
    counts["in"] += kept + len(reasons)
    counts["out"] += kept
    for reason, number in reasons.value_counts(sort=True).iter_rows():
        counts["dropped"][reason] = counts["dropped"].get(reason, 0) + number


def _reasons(kept: pl.Series, reason: str) -> dict[str, int]:
    dropped = len(kept) - int(kept.sum())
    return {reason: dropped} if dropped else {}

"""Where a workspace stands: per stage wanted, done, failed, dropped, tokens, cost; and whether the sums agree."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import polars as pl

from storage.ledger import unsealed_attempts
from storage.workspace import Workspace
from tasks.config import ASKING
from tasks.instances import DATA_SETS


def status(workspace: Workspace) -> dict[str, Any]:
    """Counts of every stage and step, what was spent, and the sums that must agree; from manifests and tables."""
    known = {"spent": spent(workspace), "unsealed": unsealed_attempts(workspace.root), "checks": checks(workspace)}
    return counts(workspace) | known


def counts(workspace: Workspace) -> dict[str, Any]:
    """The part of ``status`` that manifests alone tell, without a look at the tables."""
    return {
        "name": workspace.info.get("name"),
        "simulated": workspace.info.get("simulated"),
        "questions": workspace.read_manifest("questions"),
        "stages": [_stage(workspace, name) for name in ASKING],
        "steps": {name: (workspace.read_manifest(name) or {}).get("counts") for name in _STEPS},
    }


_STEPS = ("consensus", "near_duplicates", "diversity", "split", "export")


@dataclass(frozen=True)
class Step:
    """One step of the funnel: rows (or calls) in, out, and dropped by reason."""

    name: str
    entered: int
    left: int
    dropped: dict[str, int]


def funnel(found: dict[str, Any]) -> list[Step]:
    """From the source rows to what the near-duplicates leave: the steps of ``counts`` that have been made."""
    steps: list[Step] = []

    def add(name: str, made: dict[str, Any] | None) -> None:
        if made:
            steps.append(Step(name, made["in"], made["out"], made["dropped"]))

    add("questions", found["questions"])
    for stage in found["stages"]:
        dropped = stage["failed"] | ({"not asked": stage["todo"]} if stage["todo"] else {})
        add(stage["stage"], {"in": stage["wanted"], "out": stage["ok"], "dropped": dropped})
    add("consensus", found["steps"]["consensus"])
    for name in DATA_SETS:
        add(f"near-duplicates, {name}", (found["steps"]["near_duplicates"] or {}).get(name))
    return steps


def reconciles(found: dict[str, Any]) -> bool:
    return all(check["holds"] for check in found["checks"])


def spent(workspace: Workspace) -> dict[str, Any]:
    """All that was ever asked, wanted still or not: calls, attempts, tokens, and US dollars (null when not known)."""
    calls = workspace.read_table("calls", columns=["attempts", "input_tokens", "output_tokens", "cost_usd"])
    cost = None if calls["cost_usd"].has_nulls() else round(float(calls["cost_usd"].sum()), 6)
    sums = {name: int(calls[name].sum()) for name in ("attempts", "input_tokens", "output_tokens")}
    return {"calls": len(calls), **sums, "cost_usd": cost}


def _stage(workspace: Workspace, name: str) -> dict[str, Any]:
    manifests = workspace.manifests(name)
    failed: Counter[str] = Counter()
    for manifest in manifests:
        failed.update(manifest["failed"])
    costs = [manifest["cost_usd"] for manifest in manifests]
    return {
        "stage": name,
        "batches": len(manifests),
        "red": sum(manifest["red"] for manifest in manifests),
        **{
            key: sum(manifest[key] for manifest in manifests)
            for key in ("wanted", "ok", "todo", "rows", "attempts", "input_tokens", "output_tokens")
        },
        "failed": dict(failed),
        "cost_usd": None if None in costs else round(sum(costs), 6),
    }


def checks(workspace: Workspace) -> list[dict[str, Any]]:
    """The sums that must agree, each as both sides and whether they do; only those whose stages have run."""
    found: list[dict[str, Any]] = []

    def check(what: str, left: int, right: int) -> None:
        found.append({"check": what, "left": left, "right": right, "holds": left == right})

    def rows(name: str, *columns: str) -> pl.DataFrame:
        return workspace.read_table(name, columns=list(columns))

    questions = workspace.read_manifest("questions")
    if questions is None:
        return found
    dropped = sum(questions["dropped"].values())
    check("questions: rows read = kept + dropped", questions["in"], questions["out"] + dropped)
    check("questions: kept = rows of the table", questions["out"], len(rows("questions", "question_id")))
    stages = {name: _stage(workspace, name) for name in ASKING}
    for name, stage in stages.items():
        ended = stage["ok"] + sum(stage["failed"].values()) + stage["todo"]
        check(f"{name}: calls wanted = ok + failed + not asked", stage["wanted"], ended)
    answers = rows("answers", "answer_id", "origin")
    items = rows("rubrics", "item_id", "answer_id")
    trajectories = rows("trajectories", "item_id", "role")
    calls = rows("calls", "wanted", "outcome").filter("wanted")
    teacher = trajectories.filter(role="teacher").height
    check("answers: ok = pool rows", stages["answers"]["ok"], answers.filter(origin="pool").height)
    check("coverage: ok = coverage rows", stages["coverage"]["ok"], answers.filter(origin="coverage").height)
    check("rubrics: ok = answers with a rubric", stages["rubrics"]["ok"], items["answer_id"].n_unique())
    check("trajectories: ok = the teacher's rows", stages["trajectories"]["ok"], teacher)
    check("judges: ok = the judges' rows", stages["judges"]["ok"], trajectories.height - teacher)
    check("calls: ok in the table = ok of all stages", calls.filter(outcome="ok").height, _sum(stages, "ok"))
    if any(stage["todo"] or stage["red"] for stage in stages.values()):
        return found
    batches = {name: stage["batches"] for name, stage in stages.items()}
    if batches["rubrics"] == batches["answers"] + batches["coverage"]:
        check("rubrics: calls wanted = answers", stages["rubrics"]["wanted"], len(answers))
    if batches["trajectories"] == batches["rubrics"]:
        check("trajectories: calls wanted = rubric items", stages["trajectories"]["wanted"], len(items))

    steps = {name: (workspace.read_manifest(name) or {}).get("counts") for name in _STEPS}
    if (consensus := steps["consensus"]) is not None:
        check("consensus: rubric items = rows in", len(items), consensus["in"])
        check("consensus: in = kept + dropped", consensus["in"], consensus["out"] + sum(consensus["dropped"].values()))
    if (near := steps["near_duplicates"]) is not None and consensus is not None:
        expected = {"rubric_data": items["answer_id"].n_unique(), "refine_data": consensus["out"]}
        for name in DATA_SETS:
            counts = near[name]
            check(f"near_duplicates, {name}: instances = rows in", expected[name], counts["in"])
            kept_and_dropped = counts["out"] + sum(counts["dropped"].values())
            check(f"near_duplicates, {name}: in = kept + dropped", counts["in"], kept_and_dropped)
            if (split := steps["split"]) is not None:
                check(f"split, {name}: kept = train + test", counts["out"], sum(split[name].values()))
                if (export := steps["export"]) is not None:
                    check(
                        f"export, {name}: split = exported + too long",
                        sum(split[name].values()),
                        sum(export[name].values()),
                    )
    return found


def _sum(stages: dict[str, dict[str, Any]], key: str) -> int:
    return sum(stage[key] for stage in stages.values())

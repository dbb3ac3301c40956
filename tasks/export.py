"""Export: RubricData and RefineData as Parquet and as chat JSONL, with their card.

    exports/README.md                               the card (tasks/card.py)
    exports/rubric_data/{train,test}.{parquet,jsonl}  an answer and the rubric to induce for it
    exports/refine_data/{train,test}.{parquet,jsonl}  an answer, a rubric item, and the trajectory to give

The target of both is JSON in a fixed key order (RefineData: score, reason, suggestion, refined answer), so it
parses back to the columns it came from. The folder appears whole or not at all.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from storage.schemas import FAMILIES, LEVEL_COLUMNS, SCORE, TEXT, VOTE, Table
from storage.workspace import Workspace, write_parquet
from tasks.config import Config, Export
from tasks.coverage import quality
from tasks.instances import DATA_SETS
from tasks.prompts import fenced, fenced_item, load_prompt

CHUNK = 5_000

_INPUT = {
    "question": (TEXT, "the question"),
    "answer": (TEXT, "the answer to be judged"),
}
_PASSPORT = {
    "question_id": (pa.string(), "the question's id"),
    "answer_id": (pa.string(), "the answer's id, which is the id of the call that gave it"),
    "cluster": (pa.string(), "near-duplicate questions share it; never in both splits"),
    "source": (pa.string(), "the source data set"),
    "source_row": (pa.int64(), "row in the source, from 1"),
    "licence": (pa.string(), "the source's licence"),
    "reference_answer": (TEXT, "the source's final answer, null when it has none; no model was shown it"),
    "generator": (pa.string(), "the model that wrote the answer"),
    "origin": (pa.string(), "pool, or coverage: synthesized for a target score"),
    "target_score": (SCORE, "the score it was synthesized for, null for the pool"),
    "teacher": (pa.string(), "the model whose output is the target"),
    "call_ids": (pa.list_(pa.string()), "the calls this row rests on"),
    "prompt_ids": (pa.list_(pa.string()), "hashes of the prompt templates of those calls"),
    "cost_usd": (pa.float64(), "what those calls cost, shared ones counted whole; null when not known"),
    "simulated": (pa.bool_(), "made by the vendor simulator, not by real models"),
}
_ITEM = pa.struct([("family", pa.string()), ("dimension", TEXT), *((name, TEXT) for name in LEVEL_COLUMNS)])

RUBRIC_DATA = Table(
    "rubric_data",
    "an answer and its rubric",
    {
        "instance_id": (pa.string(), "the row's id: its answer's"),
        **_INPUT,
        "rubric": (pa.list_(_ITEM), "the items: family, dimension, and what each score from 0 to 5 means"),
        "quality": (SCORE, "mean of the teacher's item scores, rounded half up; null when it has none"),
        **_PASSPORT,
    },
)
REFINE_DATA = Table(
    "refine_data",
    "an answer under one rubric item, and the trajectory",
    {
        "instance_id": (pa.string(), "the row's id: its rubric item's"),
        **_INPUT,
        "family": (pa.string(), f"{', '.join(FAMILIES)}"),
        "dimension": (TEXT, "the dimension's name"),
        **{name: (TEXT, f"what score {name[-1]} means here") for name in LEVEL_COLUMNS},
        "score": (SCORE, "the teacher's score, 0 to 5, confirmed by the judges"),
        "reason": (TEXT, "why it has this score"),
        "suggestion": (TEXT, "what to change"),
        "refined_answer": (TEXT, "the answer rewritten by the suggestion"),
        "votes": (pa.list_(VOTE), "each judge's score"),
        **_PASSPORT,
    },
)
EXPORTS = {table.name: table for table in (RUBRIC_DATA, REFINE_DATA)}


def export(workspace: Workspace, config: Config) -> dict[str, dict[str, int]]:
    """Write both data sets and the card. Returns the rows written by data set and split."""
    from tasks.card import card

    final = workspace.root / "exports"
    folder = workspace.root / ".exports"
    shutil.rmtree(folder, ignore_errors=True)
    frames = {"rubric_data": rubric_rows(workspace), "refine_data": refine_rows(workspace)}
    counts: dict[str, dict[str, int]] = {}
    for name in DATA_SETS:
        splits = workspace.read_table("splits").filter(data_set=name).select("instance_id", "split")
        counts[name] = {}
        for split in ("train", "test"):
            ids = splits.filter(split=split).select("instance_id")
            rows = frames[name].join(ids, on="instance_id", how="semi").sort("instance_id")
            write_parquet(
                folder / name / f"{split}.parquet", EXPORTS[name], rows, simulated=workspace.info["simulated"]
            )
            _write_jsonl(folder / name / f"{split}.jsonl", name, rows, config.export)
            counts[name][split] = len(rows)
    (folder / "README.md").write_text(card(workspace, config, counts), encoding="utf-8")
    old = workspace.root / ".exports.old"
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    folder.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    return counts


def rubric_rows(workspace: Workspace) -> pl.DataFrame:
    """RubricData's rows before the split: every answer with a rubric."""
    items = workspace.read_table("rubrics").sort("answer_id", "position")
    rubrics = items.group_by("answer_id", maintain_order=True).agg(
        pl.col("question_id", "call_id").first(),
        teacher=pl.col("model").first(),
        rubric=pl.struct("family", "dimension", *LEVEL_COLUMNS),
    )
    scores = workspace.read_table("trajectories", columns=["answer_id", "role", "score"]).filter(role="teacher")
    rows = rubrics.join(quality(scores), on="answer_id", how="left").with_columns(
        instance_id="answer_id", call_ids=pl.concat_list("answer_id", "call_id")
    )
    return _with_passport(workspace, rows).select(list(RUBRIC_DATA.columns))


def refine_rows(workspace: Workspace) -> pl.DataFrame:
    """RefineData's rows before the split: every item that the consensus kept."""
    kept = workspace.read_table("consensus").filter("kept").select("item_id", "votes")
    trajectories = workspace.read_table("trajectories")
    judged = trajectories.filter(role="judge").group_by("item_id").agg(judge_calls=pl.col("call_id").sort())
    rubrics = workspace.read_table("rubrics").select(
        "item_id", "family", "dimension", *LEVEL_COLUMNS, rubric_call="call_id"
    )
    rows = (
        trajectories.filter(role="teacher")
        .rename({"model": "teacher"})
        .join(kept, on="item_id")
        .join(rubrics, on="item_id")
        .join(judged, on="item_id", how="left")
        .with_columns(
            instance_id="item_id",
            call_ids=pl.concat_list("answer_id", "rubric_call", "call_id", pl.col("judge_calls")),
        )
    )
    return _with_passport(workspace, rows).select(list(REFINE_DATA.columns))


def _with_passport(workspace: Workspace, rows: pl.DataFrame) -> pl.DataFrame:
    questions = workspace.read_table("questions").rename({"text": "question"}).drop("shard", "reference_solution")
    answers = workspace.read_table("answers").select(
        "answer_id", "origin", "target_score", answer="text", generator="model"
    )
    calls = workspace.read_table("calls", columns=["call_id", "prompt", "cost_usd"])
    paid = (
        rows.select("instance_id", call_id="call_ids")
        .explode("call_id")
        .join(calls, on="call_id", how="left")
        .group_by("instance_id")
        .agg(
            prompt_ids=pl.col("prompt").unique().sort(),
            cost_usd=pl.when(pl.col("cost_usd").null_count() == 0).then(pl.col("cost_usd").sum()),
        )
    )
    return (
        rows.join(questions, on="question_id")
        .join(answers, on="answer_id")
        .join(paid, on="instance_id")
        .with_columns(simulated=pl.lit(bool(workspace.info["simulated"])))
    )


def rubric_target(row: dict[str, Any]) -> str:
    """The text a rubric critic learns to write: ``{"items": [{"family": ..., ...}, ...]}``."""
    return orjson.dumps({"items": row["rubric"]}).decode()


def target_fields(options: Export) -> list[str]:
    """The fields of RefineData's target, in the paper's order, less those an ablation leaves out."""
    if options.rewrite_only:
        return ["refined_answer"]
    return [name for name in ("score", "reason", "suggestion", "refined_answer") if name not in options.without]


def refine_target(row: dict[str, Any], options: Export) -> str:
    """The text a refining critic learns to write: ``{"score": 3, "reason": ..., ...}``."""
    return orjson.dumps({name: row[name] for name in target_fields(options)}).decode()


def _write_jsonl(path: Path, name: str, rows: pl.DataFrame, options: Export) -> None:
    with path.open("wb") as file:
        for line in _chats(name, rows, options):
            file.write(orjson.dumps(line) + b"\n")


def _chats(name: str, rows: pl.DataFrame, options: Export) -> Iterator[dict[str, Any]]:
    fields = ", ".join(target_fields(options))
    for chunk in rows.iter_slices(CHUNK):
        for row in chunk.iter_rows(named=True):
            shown = {"question": fenced("question", row["question"]), "answer": fenced("answer", row["answer"])}
            if name == "rubric_data":
                asked, target = load_prompt("critic_rubric").render(**shown), rubric_target(row)
            else:
                item = fenced_item(row["family"], row["dimension"], [row[level] for level in LEVEL_COLUMNS])
                asked = load_prompt("critic_refine").render(**shown, rubric_item=item, fields=fields)
                target = refine_target(row, options)
            messages = [{"role": message.role, "content": message.text} for message in asked]
            yield {
                "id": row["instance_id"],
                "simulated": row["simulated"],
                "messages": [*messages, {"role": "assistant", "content": target}],
            }

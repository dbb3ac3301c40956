"""Export: RubricData and RefineData in the shapes that trainers take, with their card.

    exports/README.md                   the card (tasks/card.py)
    exports/dataset_info.json           LLaMA-Factory's list of the data sets
    exports/{rubric,refine}_data/
        {train,test}.parquet                  every column, with each row's passport
        {train,test}.jsonl                    chats: messages, the last of them the target
        {train,test}.prompt_completion.jsonl  the same, prompt and completion apart
        {train,test}.verl.parquet             the same messages as Parquet
        too_long.parquet                      rows over max_tokens, which are in none of the others

Rows stand in the order of their shards and, in a shard, of their ids; a shard at a time is in memory. The same
workspace and settings give the same bytes, and ``version.json`` has their hash. The folder appears whole or not at all.
"""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from storage.schemas import FAMILIES, LEVEL_COLUMNS, SCORE, TEXT, VOTE, Table
from storage.workspace import Workspace, not_written, write_bytes
from tasks.config import ASKING, Config
from tasks.coverage import quality
from tasks.export_files import SplitFiles
from tasks.instances import DATA_SETS
from tasks.lengths import measure

SPLITS = ("train", "test")

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


def export(workspace: Workspace, config: Config, final: Path | None = None) -> dict[str, dict[str, int]]:
    """Write both data sets and the card to ``final``, the workspace's ``exports`` where it is not given.

    Returns the rows by data set: ``train``, ``test``, and ``too_long`` where there are such rows. Raises ``UserError``
    for a tokenizer that cannot be loaded and ``WriteError`` where a file cannot be written; what was there stays.
    """
    final = final or workspace.root / "exports"
    folder = final.with_name(f".{final.name}")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        counts = _write(workspace, config, folder)
        old = final.with_name(f".{final.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():
            final.rename(old)
        folder.rename(final)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise not_written(folder, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return counts


def _write(workspace: Workspace, config: Config, folder: Path) -> dict[str, dict[str, int]]:
    from tasks.card import card

    lengths = measure(config.export.tokenizer)
    simulated = bool(workspace.info["simulated"])
    splits = workspace.read_table("splits").select("data_set", "instance_id", "split")
    histograms: dict[str, dict[int, int]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name in DATA_SETS:
        table = EXPORTS[name]
        with SplitFiles(folder / name, table, config.export, lengths, SPLITS, simulated=simulated) as files:
            for rows in _rows(workspace, name):
                placed = rows.join(splits.filter(data_set=name).drop("data_set"), on="instance_id").sort("instance_id")
                for split in SPLITS:
                    files.write(split, placed.filter(split=split).drop("split"))
        counts[name], histograms[name] = files.counts, files.histogram
    write_bytes(folder / "dataset_info.json", orjson.dumps(_llama_factory(), option=orjson.OPT_INDENT_2))
    version = _version(folder)
    write_bytes(folder / "version.json", orjson.dumps(version, option=orjson.OPT_INDENT_2))
    write_bytes(folder / "README.md", card(workspace, config, counts, histograms, version["version"]).encode())
    return counts


def _rows(workspace: Workspace, name: str) -> Iterator[pl.DataFrame]:
    make = rubric_rows if name == "rubric_data" else refine_rows
    for shard in (workspace.read_manifest("questions") or {"shards": []})["shards"]:
        yield make(workspace, shard)


def _llama_factory() -> dict[str, Any]:
    tags = {"role_tag": "role", "content_tag": "content"} | {
        f"{role}_tag": role for role in ("user", "assistant", "system")
    }
    return {
        name if split == "train" else f"{name}_{split}": {
            "file_name": f"{name}/{split}.jsonl",
            "formatting": "sharegpt",
            "columns": {"messages": "messages"},
            "tags": tags,
        }
        for name in DATA_SETS
        for split in SPLITS
    }


def _version(folder: Path) -> dict[str, Any]:
    """Each file's SHA-256, and over all of them the version: 16 hexadecimal digits."""
    hashes = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            hashes[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return {"version": hashlib.sha256(orjson.dumps(hashes)).hexdigest()[:16], "sha256": hashes}


def rubric_rows(workspace: Workspace, shard: str) -> pl.DataFrame:
    """RubricData's rows of a shard before the filters and the split: every answer with a rubric."""
    items = workspace.read_table("rubrics", shard).sort("answer_id", "position")
    rubrics = items.group_by("answer_id", maintain_order=True).agg(
        pl.col("question_id", "call_id").first(),
        teacher=pl.col("model").first(),
        rubric=pl.struct("family", "dimension", *LEVEL_COLUMNS),
    )
    scores = workspace.read_table("trajectories", shard, columns=["answer_id", "role", "score"]).filter(role="teacher")
    rows = rubrics.join(quality(scores), on="answer_id", how="left").with_columns(
        instance_id="answer_id", call_ids=pl.concat_list("answer_id", "call_id")
    )
    return _with_passport(workspace, shard, rows).select(list(RUBRIC_DATA.columns))


def refine_rows(workspace: Workspace, shard: str) -> pl.DataFrame:
    """RefineData's rows of a shard before the last filter and the split: every item that the consensus kept."""
    kept = workspace.read_table("consensus", shard).filter("kept").select("item_id", "votes")
    trajectories = workspace.read_table("trajectories", shard)
    judged = trajectories.filter(role="judge").group_by("item_id").agg(judge_calls=pl.col("call_id").sort())
    rubrics = workspace.read_table("rubrics", shard).select(
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
    return _with_passport(workspace, shard, rows).select(list(REFINE_DATA.columns))


def _with_passport(workspace: Workspace, shard: str, rows: pl.DataFrame) -> pl.DataFrame:
    questions = (
        workspace.read_table("questions", shard).rename({"text": "question"}).drop("shard", "reference_solution")
    )
    answers = workspace.read_table("answers", shard).select(
        "answer_id", "origin", "target_score", answer="text", generator="model"
    )
    columns = ["call_id", "prompt", "cost_usd"]
    calls = pl.concat(workspace.read_table("calls", stage, shard, columns=columns) for stage in ASKING)
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

"""A made workspace of any size, its tables written by columns: for measures, of no other use.

    python -m tests.benchmarks.made_workspace FOLDER [--answers 50000] [--items 24]

Five answers to a question (three of generators, two synthesized), 50 questions to a shard; each item with a teacher's
and two judges' trajectories; a part for each annotation batch, as a run writes them. Texts are drawn from pools.
"""

import argparse
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from storage.ids import content_id
from storage.schemas import FAMILIES, LEDGER, LEVEL_COLUMNS, TABLES
from storage.workspace import Workspace, write_parquet

QUESTIONS_A_SHARD = 50
SOURCES = ("gsm8k", "limo", "natural_reasoning", "numinamath_cot")
GENERATORS = ("openai/sim-tiny", "anthropic/sim-small", "google/sim-medium")
TEACHER, JUDGES = "openai/sim-teacher", ("anthropic/sim-judge-a", "google/sim-judge-b")
FAILURES = ("refused", "malformed", "truncated", "server")
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)

Columns = dict[str, Any]


def ids(count: int) -> pl.Series:
    """Random 128-bit ids in hexadecimal."""
    text = os.urandom(16 * count).hex().encode()
    offsets = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pl.Series(pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text)))


class Texts:
    """Pools of made sentences, by the number of words."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        letters = np.array(list("abcdefghiklmnoprstuvwy"))
        self._words = np.array(["".join(rng.choice(letters, n)) for n in rng.integers(2, 10, 6_000)])
        self._pools: dict[int, pl.Series] = {}

    def draw(self, count: int, words: int) -> pl.Series:
        if words not in self._pools:
            sizes = self._rng.integers(words // 2, words * 3 // 2 + 1, 20_000)
            drawn = self._rng.choice(self._words, int(sizes.sum()))
            texts = [" ".join(part) for part in np.split(drawn, np.cumsum(sizes)[:-1])]
            self._pools[words] = pl.Series(texts)
        return self._pools[words].gather(self._rng.integers(0, 20_000, count))


def make(root: Path, answers: int = 50_000, items: int = 24, seed: int = 0) -> Workspace:
    """Write the workspace. ``answers`` are rounded up to whole shards of 250; ``items`` is of each answer."""
    rng = np.random.default_rng(seed)
    texts = Texts(rng)
    place = Workspace(root)
    place.claim("made", simulated=True)
    shards = -(-answers // (5 * QUESTIONS_A_SHARD))
    names = [f"{SOURCES[n % len(SOURCES)]}-{n // len(SOURCES):04d}" for n in range(shards)]
    ends: list[pl.DataFrame] = []
    for number, shard in enumerate(names):
        ends.append(_shard(place, shard, number, items, rng, texts))
        if number % 20 == 19:
            print(f"{number + 1} of {shards} shards", flush=True)
    _steps(place, names, pl.concat(ends), rng)
    return place


def _shard(
    place: Workspace, shard: str, number: int, items: int, rng: np.random.Generator, texts: Texts
) -> pl.DataFrame:
    questions = ids(QUESTIONS_A_SHARD)
    _write(place, "questions", (shard,), len(questions), {
        "question_id": questions, "source": shard.rsplit("-", 1)[0], "source_row": np.arange(len(questions)),
        "licence": "MIT", "text": texts.draw(len(questions), 40), "reference_answer": "42",
        "cluster": questions, "shard": shard,
    })  # fmt: skip
    counted = {"shard": shard, "output": content_id(shard), "in": len(questions), "out": len(questions), "dropped": {}}
    place.write_manifest(counted, "questions", shard)
    scored = []
    for part, models in (("pool", GENERATORS), ("coverage-1", (TEACHER, TEACHER))):
        count = len(models) * len(questions)
        answers, asked = ids(count), pl.concat([questions] * len(models))
        pool = part == "pool"
        model = np.repeat(models, len(questions))
        target = None if pool else rng.integers(0, 6, count)
        _write(place, "answers", (shard, part), count, {
            "answer_id": answers, "question_id": asked, "shard": shard, "model": model,
            "origin": "pool" if pool else "coverage", "round": 0 if pool else 1, "sample": 0, "target_score": target,
            "text": texts.draw(count, 60), "finish_reason": "stop", "sanitized": False,
        })  # fmt: skip
        stage = "answers" if pool else "coverage"
        _calls(place, (stage, shard, part), number, rng, texts, {
            "call_id": answers, "model": model, "question_id": asked, "answer_id": None, "item_id": None,
        })  # fmt: skip
        scored.append(_rubrics(place, shard, part, number, items, rng, texts, answers, asked, target))
    return pl.concat(scored)


def _rubrics(
    place: Workspace, shard: str, part: str, number: int, items: int, rng: np.random.Generator, texts: Texts,
    answers: pl.Series, asked: pl.Series, target: Any,
) -> pl.DataFrame:  # fmt: skip
    rubrics, count = ids(len(answers)), len(answers) * items
    position = np.tile(np.arange(items), len(answers))
    one = pl.DataFrame({"call_id": rubrics, "answer_id": answers, "question_id": asked})
    rows = one.select(pl.all().repeat_by(items).explode()).with_columns(position=position)
    rows = rows.with_columns(item_id=pl.concat_str("call_id", pl.lit("-"), "position"))
    keys: Columns = {name: rows[name] for name in ("item_id", "answer_id", "question_id")} | {"shard": shard}
    _write(place, "rubrics", (shard, part), count, keys | {
        "call_id": rows["call_id"], "model": TEACHER, "position": position,
        "family": np.array(FAMILIES)[position % 3], "dimension": texts.draw(count, 3),
        **{name: texts.draw(count, 12) for name in LEVEL_COLUMNS}, "repaired": False, "sanitized": False,
    })  # fmt: skip
    _calls(place, ("rubrics", shard, part), number, rng, texts, {
        "call_id": rubrics, "model": TEACHER, "question_id": asked, "answer_id": answers, "item_id": None,
    })  # fmt: skip
    middle = np.repeat(rng.integers(1, 5, len(answers)) if target is None else target, items)
    score = np.clip(middle + rng.integers(-1, 2, count), 0, 5)
    votes = []
    for role, models in (("teacher", (TEACHER,)), ("judge", JUDGES)):
        given = [np.clip(score + rng.choice([0, 0, 0, 0, 0, 1, -1], count), 0, 5) for _ in models]
        given = [score] if role == "teacher" else given
        votes = votes if role == "teacher" else given
        many = len(models) * count
        calls, model = ids(many), np.repeat(models, count)
        each = {name: pl.concat([column] * len(models)) for name, column in keys.items() if name != "shard"}
        place_of = (shard, role, part if role == "teacher" else f"all-{part}")
        _write(place, "trajectories", place_of, many, each | {
            "shard": shard, "call_id": calls, "role": role, "model": model, "score": np.concatenate(given),
            "reason": texts.draw(many, 25), "suggestion": texts.draw(many, 15),
            "refined_answer": texts.draw(many, 60), "repaired": False, "sanitized": False,
        })  # fmt: skip
        stage = "trajectories" if role == "teacher" else "judges"
        _calls(place, (stage, shard, place_of[2]), number, rng, texts, {"call_id": calls, "model": model, **each})
    agree = np.logical_and.reduce([vote == score for vote in votes])
    vote = pa.StructArray.from_arrays
    lists = [
        vote([pa.array([judge] * count), pa.array(given, pa.int8())], ["model", "score"])
        for judge, given in zip(JUDGES, votes, strict=True)
    ]
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    offsets = np.arange(0, 2 * count + 1, 2, dtype=np.int32)
    both = pa.ListArray.from_arrays(offsets, pa.concat_arrays(lists).take(order))
    _write(place, "consensus", (shard, part), count, keys | {
        "teacher_score": score, "votes": both, "kept": agree, "reason": np.where(agree, "agreement", "disagreement"),
    })  # fmt: skip
    if target is not None:
        first = score.reshape(-1, items)[:, 0]
        _write(place, "coverage", (shard,), len(answers), {
            "question_id": asked, "shard": shard, "round": 1, "level": target, "covered_before": False,
            "requested": True, "answer_id": answers, "synthesized_score": first, "hit": first == target,
            "covered_after": first == target,
        })  # fmt: skip
    return rows.select("item_id", "answer_id", "question_id").with_columns(kept=agree)


def _calls(
    place: Workspace, where: tuple[str, str, str], number: int, rng: np.random.Generator, texts: Texts, keys: Columns
) -> None:
    stage, shard, part = where
    count = len(keys["call_id"])
    failed = rng.random(count) < 0.01
    end = np.datetime64(BEGAN.replace(tzinfo=None) + timedelta(minutes=10 * number), "us")
    finished = pl.Series(end + (rng.random(count) * 9e8).astype("timedelta64[us]")).dt.replace_time_zone("UTC")
    tokens = {"input_tokens": rng.integers(200, 900, count), "output_tokens": rng.integers(50, 400, count)}
    shared: Columns = keys | tokens | {
        "stage": stage, "shard": shard, "batch": " ".join(where), "prompt": content_id(stage), "cached_tokens": 0,
        "thinking_tokens": 0, "latency_s": rng.gamma(2.0, 1.5, count), "request_id": "made", "finished_at": finished,
        "outcome": np.where(failed, rng.choice(FAILURES, count), "ok"), "cost_usd": tokens["output_tokens"] * 1e-5,
        "error": pl.Series(np.where(failed, "made to fail", "")).replace("", None),
    }  # fmt: skip
    _write(place, "calls", where, count, shared | {"attempts": 1, "wanted": True})
    ledger = _frame(LEDGER, count, shared | {
        "attempt": 1, "run": "made", "sample": 0, "raw": texts.draw(count, 80), "text": texts.draw(count, 60),
        "sanitized": False, "finish_reason": "stop",
    })  # fmt: skip
    waited = ledger.filter(pl.Series(rng.random(count) < 0.005)).with_columns(outcome=pl.lit("rate_limited"))
    path = place.root / "ledger" / "sealed" / stage / shard / f"{part}.made.000001.parquet"
    write_parquet(path, LEDGER, pl.concat([ledger, waited]), simulated=True)
    bad, cost = int(failed.sum()), float(shared["cost_usd"].sum())
    by_class = {str(k): int(v) for k, v in zip(*np.unique(shared["outcome"], return_counts=True), strict=True)}
    by_class.pop("ok", None)
    place.write_manifest({
        "stage": stage, "shard": shard, "part": part, "fingerprint": "made", "output": "made", "wanted": count,
        "ok": count - bad, "failed": by_class, "todo": 0, "rows": count - bad, "red": False, "waiting": 0, "left": {},
        "attempts": count, "input_tokens": int(tokens["input_tokens"].sum()),
        "output_tokens": int(tokens["output_tokens"].sum()), "cost_usd": cost, "run": "made",
        "finished_at": BEGAN.isoformat(),
    }, *where)  # fmt: skip


def _steps(place: Workspace, shards: list[str], items: pl.DataFrame, rng: np.random.Generator) -> None:
    """The tables and manifests over all shards; about one kept item in 25 repeats one of a few that are kept."""
    kept = items.filter("kept")
    counted = {"in": len(items), "out": len(kept), "dropped": {"disagreement": len(items) - len(kept)}}
    repeats = rng.random(len(kept)) < 0.04
    repeats[:200] = False
    twin = kept["item_id"].gather((rng.random(len(kept)) ** 3 * 200).astype(int))
    twins = pl.select(pl.when(pl.Series(repeats)).then(twin)).to_series()
    near = {"shared": 90, "union": 100, "jaccard": 0.9}
    _write(place, "near_duplicates", ("all",), len(kept), {
        "data_set": "refine_data", "instance_id": kept["item_id"], "kept": ~repeats, "twin_id": twins,
        **{name: pl.select(pl.when(pl.Series(repeats)).then(value)).to_series() for name, value in near.items()},
    })  # fmt: skip
    left = kept.filter(pl.Series(~repeats))
    _write(place, "splits", ("all",), len(left), {
        "data_set": "refine_data", "instance_id": left["item_id"], "question_id": left["question_id"],
        "cluster": left["question_id"], "split": np.where(rng.random(len(left)) < 0.02, "test", "train"),
    })  # fmt: skip
    grid = [
        (data_set, field, step, counted, n)
        for data_set in ("rubric_data", "refine_data")
        for field in ("question", "answer", "rubric")
        for step in ("candidates", "near_duplicates")
        for counted in ("distinct", "rows")
        for n in (2, 3, 4)
    ]
    names = ("data_set", "field", "step", "counted", "n")
    _write(place, "diversity", ("all",), len(grid), {
        **{name: list(column) for name, column in zip(names, zip(*grid, strict=True), strict=True)},
        "texts": 1_000, "ngrams": 10_000, "unique_ngrams": 6_000, "distinct": 0.6,
    })  # fmt: skip
    rows = len(shards) * QUESTIONS_A_SHARD
    place.write_manifest({"shards": shards, "in": rows, "out": rows, "dropped": {}, "output": "made"}, "questions")
    dropped = {"near_duplicate": int(repeats.sum())}
    refine = {"in": len(kept), "out": len(left), "dropped": dropped}
    for step, counts in (
        ("consensus", counted),
        ("near_duplicates", {"rubric_data": {"in": 0, "out": 0, "dropped": {}}, "refine_data": refine}),
    ):
        place.write_manifest({"step": step, "fingerprint": "made", "output": "made", "counts": counts}, step)


def _write(place: Workspace, name: str, parts: tuple[str, ...], count: int, columns: Columns) -> None:
    place.write_table(name, _frame(TABLES[name], count, columns), *parts)


def _frame(table: Any, count: int, columns: Columns) -> pl.DataFrame:
    """Columns by name, a single value for all rows; one that is not given is null."""
    types = pl.DataFrame(pl.from_arrow(table.schema.empty_table())).schema

    def column(name: str, type_: Any) -> pl.Series:
        value = columns.get(name)
        if value is None or isinstance(value, str | int | float):
            return pl.repeat(value, count, dtype=type_, eager=True).alias(name)
        series = pl.from_arrow(value) if isinstance(value, pa.Array) else pl.Series(value)
        return pl.Series(name, series).cast(type_)

    return pl.DataFrame([column(name, type_) for name, type_ in types.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--answers", type=int, default=50_000)
    parser.add_argument("--items", type=int, default=24)
    asked = parser.parse_args()
    make(asked.folder, asked.answers, asked.items)

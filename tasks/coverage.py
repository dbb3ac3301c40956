"""Coverage: score levels that no answer of a question has, completed (paper, "Score coverage completion").

An answer's quality is the mean of its item scores, rounded half up. For each question, each level from 0 to 5
that no answer has is asked of the teacher as a new answer of that level, which then gets its own rubric and
trajectories. With ``unit: item`` the same is done for each question and dimension. In: a question whose answers
score 4 and 5. Out: four more rows of ``answers``, origin ``coverage``, target scores 0 to 3, and rows of
``coverage`` that say whether each scored its target.
"""

from collections.abc import Sequence

import polars as pl

from storage.schemas import LEVELS
from storage.workspace import Workspace
from tasks.batches import Answered, Batch, Stage, frame_for
from tasks.calls import Row
from tasks.config import Config
from tasks.models import Message
from tasks.prompts import fenced, load_prompt
from tasks.trajectories import parts_of

KEYS = ["question_id", "dimension"]


def quality(trajectories: pl.DataFrame) -> pl.DataFrame:
    """``answer_id`` and ``quality``: the mean of the answer's item scores, rounded half up; no scores, no row."""
    total, items = pl.col("score").cast(pl.Int64).sum(), pl.len().cast(pl.Int64)
    return trajectories.group_by("answer_id", maintain_order=True).agg(
        quality=((2 * total + items) // (2 * items)).cast(pl.Int8)
    )


def levels(unit: str, scores: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Levels of answers: ``answer_id``, ``dimension`` (null for unit question), ``level``.

    ``scores`` has the teacher's ``item_id``, ``answer_id`` and ``score``, ``items`` each item's ``dimension``.
    """
    if unit == "question":
        return quality(scores).select("answer_id", pl.lit(None, pl.String).alias("dimension"), level="quality")
    named = scores.join(items.select("item_id", "dimension"), on="item_id", maintain_order="left")
    return named.select("answer_id", "dimension", level="score")


def uncovered(units: pl.DataFrame, have: pl.DataFrame) -> pl.DataFrame:
    """Every level of every unit (columns ``KEYS``), with whether ``have`` has it: ``KEYS``, ``level``, ``covered``."""
    grid = units.select(KEYS).join(pl.DataFrame({"level": pl.Series(LEVELS, dtype=pl.Int8)}), how="cross")
    covered = have.select(*KEYS, "level").unique().with_columns(covered=True)
    return grid.join(covered, on=[*KEYS, "level"], how="left", nulls_equal=True, maintain_order="left").with_columns(
        pl.col("covered").fill_null(False)
    )


def reached(workspace: Workspace, config: Config, shard: str, parts: Sequence[str]) -> pl.DataFrame:
    """Levels the answers have: ``question_id``, ``dimension`` (null for unit question), ``answer_id``, ``level``."""
    answers = _read_parts(workspace, "answers", shard, parts, ["answer_id", "question_id"])
    scores = _read_parts(
        workspace, "trajectories", shard, [f"teacher/{part}" for part in parts], ["item_id", "answer_id", "score"]
    )
    items = _read_parts(workspace, "rubrics", shard, parts, ["item_id", "dimension"])
    found = levels(config.coverage.unit, scores, items)
    return found.join(answers, on="answer_id", maintain_order="left").select(*KEYS, "answer_id", "level")


def missing(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """Levels not reached before the batch's round: ``question_id``, ``dimension``, ``level``, ``covered``."""
    have = reached(workspace, config, batch.shard, _parts_before(config, batch))
    if config.coverage.unit == "question":
        questions = workspace.read_table("questions", batch.shard, columns=["question_id"])
        units = questions.with_columns(dimension=pl.lit(None, pl.String))
    else:
        # A dimension belongs to the rubrics of the pool: what coverage adds does not ask for more.
        pool = reached(workspace, config, batch.shard, ["pool"])
        units = pool.select(KEYS).unique(maintain_order=True)
    return uncovered(units, have)


def inputs(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """A row for each level to be synthesized in this round."""
    questions = workspace.read_table("questions", batch.shard, columns=["question_id", "shard", "text"])
    return (
        missing(workspace, config, batch)
        .filter(~pl.col("covered"))
        .join(questions, on="question_id", maintain_order="left")
        .with_columns(answer_id=None, item_id=None, sample=0, round=_round(batch))
    )


def messages(config: Config, row: Row) -> tuple[Message, ...]:
    return load_prompt("coverage").render(
        question=fenced("question", row["text"]),
        target=str(row["level"]),
        dimension=None if row["dimension"] is None else fenced("dimension", row["dimension"]),
        variant=str(row["round"]),
    )


def table(answered: Sequence[Answered]) -> pl.DataFrame:
    return frame_for(
        "answers",
        [
            {
                "answer_id": call.row["call_id"],
                **{name: call.row[name] for name in ("question_id", "shard", "model", "round", "sample")},
                "origin": "coverage",
                "target_score": call.row["level"],
                "target_dimension": call.row["dimension"],
                "text": call.parsed.value,
                "finish_reason": call.finish_reason,
                "sanitized": call.parsed.sanitized,
            }
            for call in answered
        ],
    )


def coverage_table(workspace: Workspace, config: Config, shard: str) -> pl.DataFrame:
    """The coverage table's rows of one shard: every level of every unit, in each round."""
    rounds = []
    for part in parts_of(config)[1:]:
        batch = Batch("coverage", shard, part)
        levels = missing(workspace, config, batch)
        synthesized = workspace.read_table("answers", shard, part).select(
            "question_id", "answer_id", dimension="target_dimension", level="target_score"
        )
        have = reached(workspace, config, shard, [*_parts_before(config, batch), part])
        # Under unit item an answer has a score for each of its items: its target's is the one that counts.
        result = have.rename({"level": "synthesized_score"}).unique([*KEYS, "answer_id"], maintain_order=True)
        after = have.select(*KEYS, "level").unique().with_columns(covered_after=True)
        rounds.append(
            levels.join(synthesized, on=[*KEYS, "level"], how="left", nulls_equal=True, maintain_order="left")
            .join(result, on=[*KEYS, "answer_id"], how="left", nulls_equal=True, maintain_order="left")
            .join(after, on=[*KEYS, "level"], how="left", nulls_equal=True, maintain_order="left")
            .select(
                "question_id",
                pl.lit(shard).alias("shard"),
                "dimension",
                pl.lit(_round(batch), pl.Int8).alias("round"),
                "level",
                pl.col("covered").alias("covered_before"),
                (~pl.col("covered")).alias("requested"),
                "answer_id",
                "synthesized_score",
                (pl.col("synthesized_score") == pl.col("level")).alias("hit"),
                pl.col("covered_after").fill_null(False),
            )
        )
    return pl.concat([frame_for("coverage", []), *rounds])


def _round(batch: Batch) -> int:
    return int(batch.part.removeprefix("coverage-"))


def _parts_before(config: Config, batch: Batch) -> list[str]:
    parts = parts_of(config)
    return parts[: parts.index(batch.part)]


def _read_parts(workspace: Workspace, name: str, shard: str, parts: Sequence[str], columns: list[str]) -> pl.DataFrame:
    return pl.concat([workspace.read_table(name, shard, part, columns=columns) for part in parts])


COVERAGE = Stage(
    name="coverage",
    prompt="coverage",
    output=lambda config: None,
    writes="answers",
    models=lambda config: [config.teacher],
    before=lambda config, batch: [("trajectories", batch.shard, part) for part in _parts_before(config, batch)],
    inputs=inputs,
    messages=messages,
    table=table,
    asked_about=["level", "dimension", "round"],
    selects=lambda config: config.coverage.unit,
)

"""A critic examined: its rubrics, or its critiques and a verifier's scores of what it refined, asked of models.

The shards of a job's rows go one by one through critic and verifier, so that both work at the same time.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import polars as pl
from pydantic import BaseModel

from storage.schemas import FAMILIES
from tasks.critic import (
    FIELDS,
    VERIFY,
    Verification,
    Words,
    blinded,
    critique_kind,
    question_rubric_kind,
    rubric_kind,
)
from tasks.evaluation.sensitivity import answer_sensitivity
from tasks.evaluation.tables import KEYS
from tasks.job_quote import Planned
from tasks.jobs import Asker
from tasks.rubrics import Rubric
from tasks.settings import Model

SHARD = 100  # rows
CRITIQUE_TOKENS, VERIFY_TOKENS, RUBRIC_TOKENS = 450, 120, 1_700  # of an answer, where none is measured
_SCORES = ("score_before", "score_after")


class Examined(NamedTuple):
    """Who is asked, and how. Without a critic the rows have a refined_answer of their own."""

    critic: Model | None
    verifier: Model | None
    words: Words = "critic"
    fields: Sequence[str] = FIELDS
    lowest: int = 0


def planned_critiques(examined: Examined, items: pl.DataFrame) -> list[Planned]:
    """The calls that ``critiques`` makes; before there are refined answers, the answers stand in for them."""
    plans = []
    if examined.critic is not None:
        kind = critique_kind(examined.words, examined.fields, examined.lowest)
        plans.append(Planned(kind, examined.critic, items, CRITIQUE_TOKENS))
    if examined.verifier is not None:
        known = "refined_answer" in items.columns
        rows = (
            items.filter(pl.col("refined_answer").is_not_null())
            if known
            else items.with_columns(refined_answer="answer")
        )
        plans.append(Planned(VERIFY, examined.verifier, blinded(rows), VERIFY_TOKENS, known=known))
    return plans


def critiques(examined: Examined, items: pl.DataFrame) -> Callable[[Asker], Awaitable[pl.DataFrame]]:
    """The work that gives the critic's fields, score_before and score_after, with the item's ids.

    Null where a call failed.
    """

    async def work(asker: Asker) -> pl.DataFrame:
        async def shard_of(shard: str, rows: pl.DataFrame) -> pl.DataFrame:
            if examined.critic is not None:
                kind = critique_kind(examined.words, examined.fields, examined.lowest)
                rows = _with(rows, examined.fields, await asker.ask(kind, examined.critic, rows, shard))
            if examined.verifier is not None:
                rows = await _verified(asker, examined.verifier, rows, shard)
            return rows

        parts = await asker.over(items, SHARD, shard_of)
        return pl.concat(parts).select(name for name in (*KEYS, *FIELDS, *_SCORES) if name in parts[0].columns)

    return work


async def _verified(asker: Asker, verifier: Model, rows: pl.DataFrame, shard: str) -> pl.DataFrame:
    shown = blinded(rows)
    there = shown["refined_answer"].is_not_null()
    verdicts = iter(await asker.ask(VERIFY, verifier, shown.filter(there), shard))
    found: list[Verification | None] = [next(verdicts) if has else None for has in there]
    scores = _with(shown, ("first_score", "second_score"), found)
    return scores.with_columns(
        score_before=pl.when("swapped").then("second_score").otherwise("first_score"),
        score_after=pl.when("swapped").then("first_score").otherwise("second_score"),
    ).select(*rows.columns, *_SCORES)


def _with(rows: pl.DataFrame, fields: Sequence[str], values: Sequence[BaseModel | None]) -> pl.DataFrame:
    return rows.with_columns(
        pl.Series(
            name,
            [None if value is None else getattr(value, name) for value in values],
            dtype=pl.Int64 if "score" in name else pl.String,
        )
        for name in fields
    )


def planned_rubrics(critic: Model, words: Words, answers: pl.DataFrame, *, control: bool) -> list[Planned]:
    """The calls that ``rubrics`` makes."""
    plans = [Planned(rubric_kind(words), critic, answers, RUBRIC_TOKENS)]
    if control:
        plans.append(Planned(question_rubric_kind(words), critic, _twice(answers), RUBRIC_TOKENS))
    return plans


def rubrics(
    critic: Model, words: Words, answers: pl.DataFrame, *, control: bool
) -> Callable[[Asker], Awaitable[tuple[list[Rubric | None], list[Rubric | None]]]]:
    """The work that gives a rubric for each answer and, as a control, two for each question (in ``_twice``'s order)."""

    async def work(asker: Asker) -> tuple[list[Rubric | None], list[Rubric | None]]:
        def asks(kind: Any) -> Callable[[str, pl.DataFrame], Awaitable[list[Rubric | None]]]:
            return lambda shard, rows: asker.ask(kind, critic, rows, shard)

        parts = await asker.over(answers, SHARD, asks(rubric_kind(words)))
        controls = await asker.over(_twice(answers), SHARD, asks(question_rubric_kind(words))) if control else []
        return [rubric for part in parts for rubric in part], [rubric for part in controls for rubric in part]

    return work


def rubric_figures(
    answers: pl.DataFrame, found: Sequence[Rubric | None], controls: Sequence[Rubric | None]
) -> dict[str, Any]:
    """How many rubrics came, their size, families, and answer sensitivity: theirs, the reference's, the control's."""
    made = answers.select("question_id", "instance_id").with_columns(
        dimension=pl.Series([None if rubric is None else [item.dimension for item in rubric.items] for rubric in found])
    )
    rubrics = [rubric for rubric in found if rubric is not None]
    items = [item for rubric in rubrics for item in rubric.items]
    figures = {
        "asked": len(found),
        "valid": len(rubrics),
        "items": len(items) / len(rubrics) if rubrics else None,
        "families": {family: sum(item.family == family for item in items) for family in FAMILIES},
        "sensitivity": _sensitivity(made),
        "reference_sensitivity": _sensitivity(answers.rename({"dimensions": "dimension"})),
    }
    if controls:
        twice = _twice(answers).with_columns(
            instance_id=pl.col("sample"),
            dimension=pl.Series(
                [None if rubric is None else [item.dimension for item in rubric.items] for rubric in controls]
            ),
        )
        figures["control_sensitivity"] = _sensitivity(twice)
    return figures


def _sensitivity(rubrics: pl.DataFrame) -> dict[str, Any]:
    named = rubrics.drop_nulls("dimension").explode("dimension")
    return answer_sensitivity(named, "instance_id")


def _twice(answers: pl.DataFrame) -> pl.DataFrame:
    """Each question, two times."""
    questions = answers.select("question_id", "question").unique("question_id", keep="first", maintain_order=True)
    return pl.concat([questions.with_columns(sample=pl.lit(sample)) for sample in range(2)])

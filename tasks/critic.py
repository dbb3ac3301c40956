"""A critic's calls in a job: a rubric for an answer; score, reason, suggestion and refined answer under one item.

A trained critic is asked in the words it was trained with (``critic``), any other model as the teacher and the judges
of a build are (``teacher``). A verifier scores an answer and its refinement in one call, without being told which is
which (paper, section 4.1).
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, create_model

from storage.ids import content_id
from storage.schemas import FAMILIES, LEVEL_COLUMNS
from tasks.calls import Row
from tasks.jobs import Kind
from tasks.models import Message
from tasks.prompts import fenced, fenced_item, load_prompt
from tasks.rubrics import Rubric
from tasks.structured import Text

Words = Literal["critic", "teacher"]
ITEM = ("family", "dimension", *LEVEL_COLUMNS)
FIELDS = ("score", "reason", "suggestion", "refined_answer")


@cache
def critique_of(fields: tuple[str, ...], lowest: int) -> type[BaseModel]:
    """The fields of a trajectory that a critic was trained to write, its score from ``lowest`` to 5."""
    types = {"score": Annotated[int, Field(ge=lowest, le=5)], **dict.fromkeys(FIELDS[1:], Text)}
    chosen: dict[str, Any] = {name: (types[name], ...) for name in fields}
    return create_model("Critique", __config__=ConfigDict(extra="forbid", strict=True), **chosen)


def critique_kind(words: Words, fields: Sequence[str] = FIELDS, lowest: int = 0) -> Kind[BaseModel]:
    """Score, reason, suggestion and refined answer, or those named, for rows with question, answer and ``ITEM``.

    An item may have no family, and no level that the scale has not.
    """
    name = "critic_refine" if words == "critic" else "trajectory"

    def messages(row: Row) -> tuple[Message, ...]:
        return load_prompt(name).render(
            question=fenced("question", row["question"]),
            answer=fenced("answer", row["answer"]),
            rubric_item=item_text(row),
            fields=", ".join(fields),
        )

    return Kind("critique", name, critique_of(tuple(fields), lowest), ("question", "answer", *ITEM), messages)


def rubric_kind(words: Words) -> Kind[Rubric]:
    """A rubric for rows with question and answer."""
    name = "critic_rubric" if words == "critic" else "rubric"

    def messages(row: Row) -> tuple[Message, ...]:
        shown = {"question": fenced("question", row["question"]), "answer": fenced("answer", row["answer"])}
        return load_prompt(name).render(**shown, min_items=str(len(FAMILIES)))

    return Kind("rubric", name, Rubric, ("question", "answer"), messages)


def question_rubric_kind(words: Words) -> Kind[Rubric]:
    """A rubric for rows with question, no answer being shown: the control of answer sensitivity (appendix C)."""
    name = "critic_rubric" if words == "critic" else "rubric_question_only"

    def messages(row: Row) -> tuple[Message, ...]:
        shown = {"question": fenced("question", row["question"]), "answer": ""}
        return load_prompt(name).render(**shown, min_items=str(len(FAMILIES)))

    return Kind("question_rubric", name, Rubric, ("question",), messages)


class Verification(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    first_reason: Text
    first_score: Annotated[int, Field(ge=0, le=5)]
    second_reason: Text
    second_score: Annotated[int, Field(ge=0, le=5)]


def _verify_messages(row: Row) -> tuple[Message, ...]:
    return load_prompt("verify_refinement").render(
        question=fenced("question", row["question"]),
        rubric_item=item_text(row),
        first=fenced("first_answer", row["first"]),
        second=fenced("second_answer", row["second"]),
    )


VERIFY = Kind("verify", "verify_refinement", Verification, ("question", *ITEM, "first", "second"), _verify_messages)


def blinded(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with answer and refined_answer as ``VERIFY`` has them: ``first``, ``second``, and whether ``swapped``.

    The order is a bit of the hash of question, answer and item: the same for every critic.
    """
    ids = [content_id(*row) for row in rows.select("question", "answer", *ITEM).iter_rows()]
    swapped = pl.Series("swapped", [int(row_id[-1], 16) % 2 == 1 for row_id in ids], dtype=pl.Boolean)
    return rows.with_columns(swapped).with_columns(
        first=pl.when("swapped").then("refined_answer").otherwise("answer"),
        second=pl.when("swapped").then("answer").otherwise("refined_answer"),
    )


def item_text(row: Row) -> str:
    """A rubric item as a prompt shows it."""
    return fenced_item(row["family"], row["dimension"], [row[name] for name in LEVEL_COLUMNS])

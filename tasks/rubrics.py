"""Rubrics: one structured teacher call per answer (paper, section 2, "Rubric supervision generation").

In: a question and an answer. Out: a row of ``rubrics`` for each item: objective, "Product in step 1", and what
each score from 0 to 5 means for this answer. A rubric has at least ``min_items`` items, every family, names that
differ, and six levels that differ; one that has not is asked for again.
"""

from collections.abc import Sequence
from functools import cache
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from storage.schemas import FAMILIES, LEVEL_COLUMNS
from storage.workspace import Workspace
from tasks.batches import Answered, Batch, Stage, frame_for
from tasks.calls import Row
from tasks.config import Config
from tasks.models import Message
from tasks.prompts import fenced, load_prompt
from tasks.structured import Text


class RubricItem(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    family: Literal["subjective", "objective", "self_derived"]
    dimension: Text
    level_0: Text
    level_1: Text
    level_2: Text
    level_3: Text
    level_4: Text
    level_5: Text

    @property
    def levels(self) -> list[str]:
        return [getattr(self, name) for name in LEVEL_COLUMNS]

    @model_validator(mode="after")
    def _levels_differ(self) -> "RubricItem":
        if len({" ".join(level.lower().split()) for level in self.levels}) < 6:
            raise ValueError(f"dimension {self.dimension!r}: two levels say the same")
        return self


class Rubric(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    items: list[RubricItem]

    @model_validator(mode="after")
    def _covers_families(self) -> "Rubric":
        names = [" ".join(item.dimension.lower().split()) for item in self.items]
        if len(set(names)) < len(names):
            raise ValueError("two items have the same dimension name")
        if missing := set(FAMILIES) - {item.family for item in self.items}:
            raise ValueError(f"no item of family {', '.join(sorted(missing))}")
        return self


@cache
def rubric_of(min_items: int) -> type[Rubric]:
    """``Rubric`` with at least ``min_items`` items."""
    return create_model("Rubric", __base__=Rubric, items=(list[RubricItem], Field(min_length=min_items)))


def inputs(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """Each answer of the part, with its question."""
    questions = workspace.read_table("questions", batch.shard, columns=["question_id", "text"])
    answers = workspace.read_table("answers", batch.shard, batch.part)
    return (
        answers.select("answer_id", "question_id", "shard", answer="text", dimension="target_dimension")
        .join(questions.rename({"text": "question"}), on="question_id", maintain_order="left")
        .with_columns(item_id=None, sample=0, min_items=config.rubrics.min_items)
    )


def messages(config: Config, row: Row) -> tuple[Message, ...]:
    return load_prompt("rubric").render(
        question=fenced("question", row["question"]),
        answer=fenced("answer", row["answer"]),
        min_items=str(row["min_items"]),
        dimension=None if row["dimension"] is None else fenced("dimension", row["dimension"]),
    )


def table(answered: Sequence[Answered]) -> pl.DataFrame:
    return frame_for(
        "rubrics",
        [
            {
                "item_id": f"{call.row['call_id']}-{position}",
                **{name: call.row[name] for name in ("answer_id", "question_id", "shard", "call_id", "model")},
                "position": position,
                "family": item.family,
                "dimension": item.dimension,
                **dict(zip(LEVEL_COLUMNS, item.levels, strict=True)),
                "repaired": call.parsed.repaired,
                "sanitized": call.parsed.sanitized,
            }
            for call in answered
            for position, item in enumerate(call.parsed.value.items)
        ],
    )


def answers_of(config: Config, batch: Batch) -> list[tuple[str, ...]]:
    """The batch that gave the answers of this part."""
    return [("answers" if batch.part == "pool" else "coverage", batch.shard, batch.part)]


RUBRICS = Stage(
    name="rubrics",
    prompt="rubric",
    output=lambda config: rubric_of(config.rubrics.min_items),
    writes="rubrics",
    models=lambda config: [config.teacher],
    before=answers_of,
    inputs=inputs,
    messages=messages,
    table=table,
    asked_about=["min_items"],
)

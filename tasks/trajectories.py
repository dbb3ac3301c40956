"""Trajectories: score, reason, suggestion and refined answer under one rubric item (paper, section 2).

The teacher's become the training targets ("Evaluation-refinement supervision generation"). The judges get
the same prompt and are blind to the teacher: they are asked only about items that have a teacher's trajectory
("Quality filtering"). In: a question, an answer, a rubric item. Out: a row of ``trajectories``: 3, "Step 2
multiplies ...", "In step 2, write ...", and the answer rewritten.
"""

from collections.abc import Sequence
from typing import Annotated

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from storage.schemas import LEVEL_COLUMNS
from storage.workspace import Workspace
from tasks.batches import Answered, Batch, Stage, frame_for
from tasks.calls import Row
from tasks.config import Config
from tasks.models import Message
from tasks.prompts import fenced, fenced_item, load_prompt
from tasks.structured import Text


class Trajectory(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    score: Annotated[int, Field(ge=0, le=5)]
    reason: Text
    suggestion: Text
    refined_answer: Text


def parts_of(config: Config) -> list[str]:
    """The parts a shard's answers come in: the pool, then each coverage round's."""
    return ["pool", *(f"coverage-{number}" for number in range(1, config.coverage.rounds + 1))]


def _items(workspace: Workspace, shard: str, part: str) -> pl.DataFrame:
    questions = workspace.read_table("questions", shard, columns=["question_id", "text"])
    answers = workspace.read_table("answers", shard, part, columns=["answer_id", "text"])
    return (
        workspace.read_table("rubrics", shard, part)
        .select("item_id", "answer_id", "question_id", "shard", "family", "dimension", *LEVEL_COLUMNS)
        .join(questions.rename({"text": "question"}), on="question_id", maintain_order="left")
        .join(answers.rename({"text": "answer"}), on="answer_id", maintain_order="left")
        .with_columns(sample=0)
    )


def teacher_inputs(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """Each rubric item of the part, with its question and answer."""
    return _items(workspace, batch.shard, batch.part)


def judge_inputs(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """Each rubric item of the shard that the teacher has scored."""
    scored = workspace.read_table("trajectories", batch.shard, "teacher", columns=["item_id"])
    items = pl.concat([_items(workspace, batch.shard, part) for part in parts_of(config)])
    return items.join(scored, on="item_id", how="semi", maintain_order="left")


def messages(config: Config, row: Row) -> tuple[Message, ...]:
    return load_prompt("trajectory").render(
        question=fenced("question", row["question"]),
        answer=fenced("answer", row["answer"]),
        rubric_item=fenced_item(row["family"], row["dimension"], [row[name] for name in LEVEL_COLUMNS]),
    )


def _table(role: str, answered: Sequence[Answered]) -> pl.DataFrame:
    return frame_for(
        "trajectories",
        [
            {
                **{name: call.row[name] for name in ("item_id", "answer_id", "question_id", "shard", "call_id")},
                "role": role,
                "model": call.row["model"],
                **call.parsed.value.model_dump(),
                "repaired": call.parsed.repaired,
                "sanitized": call.parsed.sanitized,
            }
            for call in answered
        ],
    )


TRAJECTORIES = Stage(
    name="trajectories",
    prompt="trajectory",
    output=lambda config: Trajectory,
    writes="trajectories",
    models=lambda config: [config.teacher],
    before=lambda config, batch: [("rubrics", batch.shard, batch.part)],
    inputs=teacher_inputs,
    messages=messages,
    table=lambda answered: _table("teacher", answered),
    file=lambda batch: (batch.shard, "teacher", batch.part),
)

JUDGES = Stage(
    name="judges",
    prompt="trajectory",
    output=lambda config: Trajectory,
    writes="trajectories",
    models=lambda config: config.judges,
    before=lambda config, batch: [("trajectories", batch.shard, part) for part in parts_of(config)],
    inputs=judge_inputs,
    messages=messages,
    table=lambda answered: _table("judge", answered),
    file=lambda batch: (batch.shard, "judge", batch.part),
)

"""Answers: every question, every generator, ``samples_per_model`` times (paper, "Diverse answer pool").

In: a question, "Ann has 3 boxes of 4 pens ...". Out: a row of ``answers``, origin ``pool``,
"1. 3 * 4 = 12 ... Final answer: 12". Plain text is asked for; a truncated or empty answer is a failed call, not
an answer.
"""

from collections.abc import Sequence

import polars as pl

from storage.workspace import Workspace
from tasks.batches import Answered, Batch, Stage, frame_for
from tasks.calls import Row
from tasks.config import Config
from tasks.models import Message
from tasks.prompts import fenced, load_prompt


def inputs(workspace: Workspace, config: Config, batch: Batch) -> pl.DataFrame:
    """Each question of the shard, once for each sample."""
    questions = workspace.read_table("questions", batch.shard, columns=["question_id", "shard", "text"])
    samples = pl.DataFrame({"sample": range(config.answers.samples_per_model)})
    return questions.join(samples, how="cross").with_columns(answer_id=None, item_id=None)


def messages(config: Config, row: Row) -> tuple[Message, ...]:
    return load_prompt("answer").render(question=fenced("question", row["text"]))


def table(answered: Sequence[Answered]) -> pl.DataFrame:
    return frame_for(
        "answers",
        [
            {
                "answer_id": call.row["call_id"],
                "question_id": call.row["question_id"],
                "shard": call.row["shard"],
                "model": call.row["model"],
                "origin": "pool",
                "round": 0,
                "sample": call.row["sample"],
                "target_score": None,
                "target_dimension": None,
                "text": call.parsed.value,
                "finish_reason": call.finish_reason,
                "sanitized": call.parsed.sanitized,
            }
            for call in answered
        ],
    )


ANSWERS = Stage(
    name="answers",
    prompt="answer",
    output=lambda config: None,
    writes="answers",
    models=lambda config: config.answers.generators,
    before=lambda config, batch: [("questions", batch.shard)],
    inputs=inputs,
    messages=messages,
    table=table,
    selects=lambda config: config.answers.samples_per_model,
)

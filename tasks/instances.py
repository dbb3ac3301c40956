"""The candidate instances of the two data sets, as columns.

RubricData has an instance for each answer with a valid rubric; RefineData one for each rubric item that the
consensus kept. Both carry the text that the lexical filters compare: the generated fields, joined (Appendix B).
"""

import polars as pl

from storage.schemas import LEVEL_COLUMNS
from storage.workspace import Workspace

DATA_SETS = ("rubric_data", "refine_data")


def item_text() -> pl.Expr:
    """A rubric item as lexical text: its dimension and its six levels, a line each."""
    return pl.concat_str("dimension", *LEVEL_COLUMNS, separator="\n")


def rubric_instances(workspace: Workspace) -> pl.DataFrame:
    """``instance_id`` (the answer's), ``answer_id``, ``question_id``, ``rubric`` and ``text``, sorted by id."""
    return (
        workspace.read_table("rubrics")
        .sort("answer_id", "position")
        .group_by("answer_id", maintain_order=True)
        .agg(pl.col("question_id").first(), rubric=item_text().str.join("\n"))
        .with_columns(instance_id="answer_id", text="rubric")
    )


def refine_candidates(workspace: Workspace) -> pl.DataFrame:
    """Every item with a teacher's trajectory: its ids, its generated fields, and these joined as ``text``."""
    rubrics = workspace.read_table("rubrics", columns=["item_id", "dimension", *LEVEL_COLUMNS])
    teacher = workspace.read_table(
        "trajectories",
        columns=["item_id", "answer_id", "question_id", "role", "reason", "suggestion", "refined_answer"],
    ).filter(role="teacher")
    return (
        teacher.drop("role")
        .join(rubrics.select("item_id", rubric=item_text()), on="item_id", maintain_order="left")
        .with_columns(
            instance_id="item_id",
            text=pl.concat_str("rubric", "reason", "suggestion", "refined_answer", separator="\n"),
        )
        .sort("instance_id")
    )


def retained_instances(workspace: Workspace) -> pl.DataFrame:
    """What the filters kept: ``data_set``, ``instance_id``, ``question_id``, ``cluster``, ``text``."""
    clusters = workspace.read_table("questions", columns=["question_id", "cluster"])
    kept = workspace.read_table("near_duplicates").filter("kept").select("data_set", "instance_id")
    names = ["instance_id", "question_id", "text"]
    frames = {"rubric_data": rubric_instances(workspace), "refine_data": refine_candidates(workspace)}
    instances = pl.concat(frame.select(pl.lit(name).alias("data_set"), *names) for name, frame in frames.items())
    return instances.join(kept, on=["data_set", "instance_id"], how="semi").join(clusters, on="question_id")


def with_inputs(workspace: Workspace, instances: pl.DataFrame) -> pl.DataFrame:
    """The instances with their ``question`` and ``answer`` texts."""
    questions = workspace.read_table("questions", columns=["question_id", "text"]).rename({"text": "question"})
    answers = workspace.read_table("answers", columns=["answer_id", "text"]).rename({"text": "answer"})
    return instances.join(questions, on="question_id", maintain_order="left").join(
        answers, on="answer_id", maintain_order="left"
    )

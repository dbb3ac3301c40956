"""Consensus (CriticGen, section 2, quality filtering): a row is kept when independent judges score as the teacher does.

A judge agrees when its score differs from the teacher's by at most ``tolerance`` (0 in the paper). A row is kept
when ``quorum`` of the configured judges agree ("all" in the paper: every one). A missing judgment is neither an
agreement nor a disagreement:

    reason         kept
    agreement      yes   the quorum agrees, whatever is missing
    disagreement   no    so many disagree that the missing ones could no longer make the quorum
    unjudged       no    the missing ones decide
    no_trajectory  no    the teacher has no score

    teacher 4, judges 4 and 4     agreement
    teacher 4, judges 4 and 3     disagreement
    teacher 4, judges 4 and none  unjudged
    teacher 4, judges 3 and none  disagreement

Every judge's raw score stays in ``votes``, so other tolerances and quorums are answered from the table.
"""

from collections.abc import Sequence
from typing import Literal

import polars as pl

from storage.schemas import CONSENSUS

COLUMNS = ("item_id", "answer_id", "question_id", "shard")


def consensus(
    teacher: pl.DataFrame,
    judges: pl.DataFrame,
    items: pl.DataFrame,
    *,
    judge_models: Sequence[str],
    tolerance: int = 0,
    quorum: int | Literal["all"] = "all",
) -> pl.DataFrame:
    """The table ``consensus``: a row for each of ``items`` (item_id, answer_id, question_id, shard), in their order.

    ``teacher`` has item_id and score, ``judges`` item_id, model and score; rows of other items, and of models that
    are not among ``judge_models``, are left out, and a null score is a missing one. ``votes`` follow the order of
    ``judge_models``. Raises ``ValueError`` when a model scored an item twice, or for a quorum that the judges
    cannot make.
    """
    needed = len(judge_models) if quorum == "all" else quorum
    if len(set(judge_models)) < len(judge_models) or not 1 <= needed <= len(judge_models):
        raise ValueError(f"consensus: quorum {quorum} of the judges {', '.join(judge_models) or '(none)'}")
    judged = judges.filter(pl.col("model").is_in(list(judge_models)))
    _one_score_each(items, ["item_id"], "rubrics")
    _one_score_each(teacher, ["item_id"], "the teacher's trajectories")
    _one_score_each(judged, ["item_id", "model"], "the judges' trajectories")
    rows = items.select(COLUMNS).join(
        teacher.select("item_id", teacher_score=pl.col("score").cast(pl.Int8)),
        on="item_id",
        how="left",
        maintain_order="left",
    )
    for place, model in enumerate(judge_models):
        scores = judged.filter(pl.col("model") == model).select("item_id", pl.col("score").alias(f"vote_{place}"))
        rows = rows.join(scores, on="item_id", how="left", maintain_order="left")
    votes = {model: pl.col(f"vote_{place}").cast(pl.Int8) for place, model in enumerate(judge_models)}
    # A null vote compares to null, which the sums leave out.
    agree = [(vote - pl.col("teacher_score")).abs() <= tolerance for vote in votes.values()]
    rows = rows.with_columns(
        pl.sum_horizontal(agree).alias("agreeing"),
        pl.sum_horizontal([~each for each in agree]).alias("disagreeing"),
        pl.concat_list(
            [pl.struct(pl.lit(model).alias("model"), vote.alias("score")) for model, vote in votes.items()]
        ).alias("votes"),
    )
    reason = (
        pl.when(pl.col("teacher_score").is_null())
        .then(pl.lit("no_trajectory"))
        .when(pl.col("agreeing") >= needed)
        .then(pl.lit("agreement"))
        .when(len(judge_models) - pl.col("disagreeing").cast(pl.Int64) < needed)
        .then(pl.lit("disagreement"))
        .otherwise(pl.lit("unjudged"))
    )
    table = rows.with_columns(reason.alias("reason")).with_columns((pl.col("reason") == "agreement").alias("kept"))
    empty = pl.DataFrame(pl.from_arrow(CONSENSUS.schema.empty_table()))
    return table.select(empty.columns).cast(empty.schema)


def _one_score_each(frame: pl.DataFrame, key: list[str], what: str) -> None:
    repeated = frame.filter(pl.struct(key).is_duplicated())
    if len(repeated):
        raise ValueError(f"consensus: {what} have {' of '.join(map(str, repeated.select(key).row(0)))} more than once")

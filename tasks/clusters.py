"""Question clusters: exact and near-duplicate questions, across sources too, that must not be split apart.

NuminaMath-CoT holds questions of GSM8K, and data sets such as GSM-Hard change only the numbers of one. Two questions
belong together when their normalized texts are equal or the Jaccard of their word n-grams is greater than the
threshold; a cluster is a connected component of that relation, so its ends may be less alike than its neighbours.
A cluster's name is the least question id in it, and stays when rows that do not touch it are added.
"""

import polars as pl

from tasks.gram_join import Join
from tasks.gram_sets import gram_sets
from tasks.near_duplicates import exact
from tasks.text import Mode, normalized


def cluster_questions(
    questions: pl.DataFrame, *, threshold: float = 0.5, n: int = 4, mode: Mode = "word"
) -> pl.DataFrame:
    """``question_id`` and ``cluster``, a row for each question of ``questions`` (question_id, text), in their order.

    Equal texts cluster at any threshold. Questions of fewer than n tokens cluster by equality alone. Raises
    ``ValueError`` when a question id stands twice with different texts, or the threshold is not within 0 and 1.
    """
    different = questions.select(pl.col("question_id").cast(pl.String), "text").unique(maintain_order=True)
    ids = different["question_id"]
    if ids.n_unique() < len(ids):
        raise ValueError(f"question {ids.filter(ids.is_duplicated())[0]} stands twice, with different texts")
    named = different.with_columns(normalized(different["text"], mode).alias("normalized"))
    # Equal texts are one row from here on: they would otherwise make a pair each with each.
    texts = named.group_by("normalized").agg(pl.col("question_id").min().alias("least")).sort("least")
    labels = Join(gram_sets([texts["normalized"]], n, mode), exact(threshold)).components()
    texts = texts.with_columns(pl.Series("label", labels)).with_columns(
        pl.col("least").min().over("label").alias("cluster")
    )
    return named.join(texts, on="normalized", maintain_order="left").select("question_id", "cluster")

"""Score coverage: answers by quality before and after the completion, and how often a target was hit."""

from collections.abc import Mapping

from deployments.dashboard.reader import Reader, Row
from storage.schemas import LEVELS

_HISTOGRAM = """
    SELECT {group} AS "group", origin, quality, count(*) AS answers FROM answer_scores
    WHERE ($source IS NULL OR source = $source) AND ($generator IS NULL OR generator = $generator)
    GROUP BY ALL ORDER BY ALL
"""
_TARGETS = """
    SELECT level, count(*) AS units, count(*) FILTER (covered_before) AS before,
           count(*) FILTER (covered_after) AS after,
           count(*) FILTER (requested) AS requested, count(answer_id) AS synthesized,
           count(*) FILTER (hit) AS hit, avg(synthesized_score) FILTER (requested) AS reached
    FROM coverage
    WHERE $source IS NULL OR shard IN (SELECT DISTINCT shard FROM questions WHERE source = $source)
    GROUP BY level ORDER BY level
"""


def histogram(reader: Reader, asked: Mapping[str, str | None], grouping: str | None = None) -> list[Row]:
    """Answers by level before (the pool's) and after (all): ``group``, ``before`` and ``after`` of six counts each."""
    values = {name: asked.get(name) or None for name in ("source", "generator")}
    groups: dict[str | None, Row] = {}
    for row in reader.rows(_HISTOGRAM.format(group=grouping or "NULL"), values):
        group = groups.setdefault(
            row["group"], {"group": row["group"], "before": [0] * len(LEVELS), "after": [0] * len(LEVELS)}
        )
        group["after"][row["quality"]] += row["answers"]
        if row["origin"] == "pool":
            group["before"][row["quality"]] += row["answers"]
    return list(groups.values())


def targets(reader: Reader, source: str | None) -> list[Row]:
    """By level: units (a question, or a question and dimension) that had it before and after, and what was made for it.

    ``hit`` of ``synthesized`` answers scored their target; ``reached`` is the mean level that they scored.
    """
    return reader.rows(_TARGETS, {"source": source})

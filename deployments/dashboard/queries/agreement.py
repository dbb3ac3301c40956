"""How far teacher and judges agree, from the counts of score combinations: no row is read again for a filter."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from deployments.dashboard.queries.overview import settings
from deployments.dashboard.reader import Reader, Row
from storage.schemas import LEVELS
from tasks.agreement import GROUPINGS, Counts, weighted_kappa

TOLERANCES = (0, 1, 2)

_JUDGES = "SELECT [vote.model FOR vote IN votes] AS models FROM consensus LIMIT 1"
_COMBINATIONS = """
    SELECT {group} AS "group", teacher_score, votes, sum(items)::BIGINT AS items FROM score_counts
    WHERE votes IS NOT NULL AND ($family IS NULL OR family = $family) AND ($source IS NULL OR source = $source)
      AND ($generator IS NULL OR generator = $generator)
    GROUP BY ALL ORDER BY ALL
"""


def judges(reader: Reader) -> list[str]:
    found = reader.one(_JUDGES)
    return found["models"] if found else []


def combinations(reader: Reader, asked: Mapping[str, str | None], grouping: str | None = None) -> list[Row]:
    """Items by ``teacher_score`` and ``votes`` (as ``judges`` are ordered), and by ``group`` where one is asked for."""
    values = {name: asked.get(name) or None for name in GROUPINGS}
    return reader.rows(_COMBINATIONS.format(group=grouping or "NULL"), values)


def matrix(found: list[Row], judge: int) -> Counts:
    """6 x 6: the teacher's score down, the judge's across; items that lack either are left out."""
    counts = np.zeros((len(LEVELS), len(LEVELS)), np.int64)
    for row in found:
        if row["teacher_score"] is not None and row["votes"][judge] is not None:
            counts[row["teacher_score"], row["votes"][judge]] += row["items"]
    return counts


def pair(found: list[Row], judge: int) -> dict[str, Any]:
    """``matrix``, ``scored``, ``equal`` (share) and ``kappa`` (quadratic weights) of the teacher and one judge."""
    counts = matrix(found, judge)
    scored = int(counts.sum())
    kappa = weighted_kappa(counts)
    return {
        "matrix": counts.tolist(),
        "scored": scored,
        "equal": float(np.trace(counts)) / scored if scored else None,
        "kappa": kappa.value,
        "note": kappa.note,
    }


def by_group(reader: Reader, asked: Mapping[str, str | None], grouping: str, judge_count: int) -> list[Row]:
    """For each family, source or generator: the items, and ``pair`` of each judge."""
    groups: dict[str, list[Row]] = {}
    for row in combinations(reader, asked, grouping):
        groups.setdefault(str(row["group"]), []).append(row)
    return [
        {
            "group": group,
            "items": sum(row["items"] for row in rows),
            "pairs": [pair(rows, judge) for judge in range(judge_count)],
        }
        for group, rows in groups.items()
    ]


def kept_at(found: list[Row], tolerance: int, quorum: int | Literal["all"]) -> int:
    """Items that a consensus of this tolerance and quorum would keep; a missing vote agrees with nothing."""
    kept = 0
    for row in found:
        teacher, votes = row["teacher_score"], row["votes"]
        if teacher is None:
            continue
        agree = sum(vote is not None and abs(vote - teacher) <= tolerance for vote in votes)
        kept += row["items"] if agree >= (len(votes) if quorum == "all" else quorum) else 0
    return kept


def consensus_settings(reader: Reader) -> dict[str, Any]:
    """``tolerance`` and ``quorum`` of the last run."""
    return {"tolerance": 0, "quorum": "all"} | (settings(reader.workspace).get("consensus") or {})

"""One row's story, and the attempts behind it as they came."""

from deployments.dashboard.reader import Reader, Row
from tasks.passport import story

_ATTEMPTS = """
    SELECT call_id, attempt, model, stage, outcome, error, text, raw, finish_reason, latency_s, finished_at
    FROM ledger WHERE {where} call_id IN $ids ORDER BY finished_at, attempt
"""


def row_story(reader: Reader, row_id: str) -> Row:
    """``tasks.passport.story``, with the ledger's ``attempts`` at its calls."""
    found = story(reader.rows, row_id)
    calls = found.get("calls") or [call for call in [found.get("call")] if call]
    return found | {"attempts": attempts(reader, calls)}


def attempts(reader: Reader, calls: list[Row]) -> list[Row]:
    ids = sorted({call["call_id"] for call in calls})
    if not ids:
        return []
    here = {"ids": ids, "shards": sorted({call["shard"] for call in calls})}
    found = reader.rows(_ATTEMPTS.format(where="shard IN $shards AND"), here)
    if {row["call_id"] for row in found} == set(ids):
        return found
    # Asked while its question was in another shard.
    return reader.rows(_ATTEMPTS.format(where=""), {"ids": ids})

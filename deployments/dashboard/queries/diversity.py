"""Distinct-n by field and step, and the groups of near-duplicates with what they share."""

from typing import Any

from markupsafe import Markup, escape

from deployments.dashboard.queries.overview import settings
from deployments.dashboard.reader import Reader, Row
from storage.schemas import LEVEL_COLUMNS
from tasks.text import Mode, grams_at, token_spans

GROUPS, MEMBERS = 15, 4

_DISTINCT = """
    SELECT data_set, field, step, max(texts) AS texts, max("distinct") FILTER (n = 2) AS d2,
           max("distinct") FILTER (n = 3) AS d3, max("distinct") FILTER (n = 4) AS d4
    FROM diversity WHERE counted = $counted OR field NOT IN ('question', 'answer') GROUP BY data_set, field, step
    ORDER BY data_set DESC, list_position($fields, field), list_position($steps, step)
"""
_GROUPS = """
    SELECT data_set, twin_id, count(*) AS members, max(jaccard) AS most FROM near_duplicates
    WHERE NOT kept GROUP BY ALL ORDER BY members DESC, twin_id LIMIT $most
"""
_MEMBERS = """
    SELECT instance_id, shared, "union", jaccard FROM near_duplicates
    WHERE NOT kept AND twin_id = $twin ORDER BY jaccard DESC, instance_id LIMIT $most
"""
_ITEM = f"concat_ws(chr(10), dimension, {', '.join(LEVEL_COLUMNS)})"
_REFINE_TEXT = f"""
    SELECT r.item_id AS id, concat_ws(chr(10), {_ITEM}, t.reason, t.suggestion, t.refined_answer) AS text
    FROM (SELECT * FROM rubrics WHERE shard IN $shards AND item_id IN $ids) r
    JOIN (SELECT * FROM trajectories WHERE shard IN $shards AND item_id IN $ids AND role = 'teacher') t USING (item_id)
"""
_RUBRIC_TEXT = f"""
    SELECT answer_id AS id, string_agg({_ITEM}, chr(10) ORDER BY position) AS text
    FROM rubrics WHERE shard IN $shards AND answer_id IN $ids GROUP BY answer_id
"""
_SHARDS = "SELECT DISTINCT shard FROM items WHERE item_id IN $ids OR answer_id IN $ids"
FIELDS = ["question", "answer", "rubric", "reason", "suggestion", "refined_answer"]
STEPS = ["candidates", "consensus", "near_duplicates"]


def distinct(reader: Reader, counted: str) -> list[Row]:
    """Distinct-2, -3 and -4 by data set, field and filter step."""
    return reader.rows(_DISTINCT, {"counted": counted, "fields": FIELDS, "steps": STEPS})


def groups(reader: Reader) -> list[Row]:
    """The retained instances that most others repeat."""
    return reader.rows(_GROUPS, {"most": GROUPS})


def group(reader: Reader, twin: str) -> list[dict[str, Any]]:
    """The retained instance, then some that repeat it: ``id``, ``jaccard``, ``text`` with the shared n-grams marked."""
    members = reader.rows(_MEMBERS, {"twin": twin, "most": MEMBERS})
    ids = [twin, *(row["instance_id"] for row in members)]
    sql = _REFINE_TEXT if "-" in twin else _RUBRIC_TEXT
    shards = [row["shard"] for row in reader.rows(_SHARDS, {"ids": ids})]
    texts = {row["id"]: row["text"] for row in reader.rows(sql, {"ids": ids, "shards": shards})} if shards else {}
    near = settings(reader.workspace).get("near_duplicates") or {}
    mode: Mode = settings(reader.workspace).get("text_mode") or "word"
    n = near.get("n", 4)
    original = texts.get(twin, "")
    others = [texts.get(row["instance_id"], "") for row in members]
    return [
        {"id": twin, "jaccard": None, "text": marked(original, others, n, mode)},
        *(
            row | {"id": row["instance_id"], "text": marked(text, [original], n, mode)}
            for row, text in zip(members, others, strict=True)
        ),
    ]


def marked(text: str, others: list[str], n: int, mode: Mode) -> Markup:
    """The text as HTML, where each run of tokens whose n-grams one of ``others`` has too is in <mark>."""
    known = {gram for other in others for gram in grams_at(*token_spans(other, mode), n)}
    shown, spans = token_spans(text, mode)
    inside = [False] * len(spans)
    for place, gram in enumerate(grams_at(shown, spans, n)):
        if gram in known:
            inside[place : place + n] = [True] * n
    pieces: list[Markup] = []
    at = 0
    place = 0
    while place < len(spans):
        if not inside[place]:
            place += 1
            continue
        end = place
        while end + 1 < len(spans) and inside[end + 1]:
            end += 1
        start, stop = spans[place][0], spans[end][1]
        pieces += [escape(shown[at:start]), Markup("<mark>{}</mark>").format(shown[start:stop])]
        at, place = stop, end + 1
    return Markup("").join([*pieces, escape(shown[at:])])

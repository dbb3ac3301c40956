"""The whole story of one row: question, answer, rubric, votes, calls, and why it was kept or dropped."""

from collections.abc import Callable, Mapping
from typing import Any

from storage.errors import UserError
from storage.queries import connect
from storage.workspace import Workspace


class NoSuchRow(UserError):
    """No table has a row of that id."""


Ask = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]


def passport(workspace: Workspace, row_id: str) -> dict[str, Any]:
    """The story of a rubric item, an answer, a question or a call, by its id or a beginning of it that is unique.

    Raises ``NoSuchRow`` when there is none, or more than one.
    """
    with connect(workspace) as connection:

        def ask(sql: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = connection.sql(sql, params=dict(params)).to_arrow_table().to_pylist()
            return rows

        return {"simulated": workspace.info["simulated"]} | story(ask, row_id)


def story(ask: Ask, row_id: str) -> dict[str, Any]:
    """``passport`` by SQL over the tables: ``kind``, and what belongs to a row of that kind."""
    if not row_id:
        raise NoSuchRow("give the id of a row, or the beginning of one")
    for name, (column, tell) in _STORIES.items():
        if name == "rubrics" and "-" not in row_id:
            continue  # the id of a rubric's call begins the ids of all its items
        found = _matching(ask, name, column, row_id)
        if len(found) == 1:
            return tell(ask, found[0])
        if found:
            raise NoSuchRow(f"{row_id}: {len(found)} rows of {name} begin so; give more of the id")
    raise NoSuchRow(f"{row_id}: no question, answer, rubric item or call has this id (`criticgen query` lists ids)")


def _matching(ask: Ask, name: str, column: str, start: str) -> list[str]:
    # No character of an id comes after "g", so that these are the ids that begin so.
    found = ask(
        f"SELECT DISTINCT {column} AS id FROM {name} WHERE {column} >= $start AND {column} < $start || 'g'",
        {"start": start},
    )
    ids = [row["id"] for row in found]
    return [start] if start in ids else ids


def _rows(ask: Ask, name: str, **equal: str) -> list[dict[str, Any]]:
    where = " AND ".join(f"{column} = ${column}" for column in equal)
    return ask(f"SELECT * FROM {name} WHERE {where}", equal)


def _one(ask: Ask, name: str, **equal: str) -> dict[str, Any] | None:
    rows = _rows(ask, name, **equal)
    return rows[0] if rows else None


def _item(ask: Ask, item_id: str) -> dict[str, Any]:
    item = _one(ask, "rubrics", item_id=item_id)
    assert item is not None
    # A shard's rows lie together: with it, the database passes over the other shards.
    shard = item["shard"]
    near = _rows(ask, "near_duplicates", instance_id=item_id)
    split = _rows(ask, "splits", instance_id=item_id)
    consensus = _one(ask, "consensus", item_id=item_id, shard=shard)
    calls = ask(
        "SELECT * FROM calls WHERE shard = $shard AND (call_id IN ($answer, $rubric) OR item_id = $item) "
        "ORDER BY finished_at",
        {"shard": shard, "answer": item["answer_id"], "rubric": item["call_id"], "item": item_id},
    )
    costs = [call["cost_usd"] for call in calls]
    return {
        "kind": "rubric item",
        "fate": fate(consensus, near, split),
        "question": _one(ask, "questions", question_id=item["question_id"], shard=shard),
        "answer": _one(ask, "answers", answer_id=item["answer_id"], shard=shard),
        "item": item,
        "trajectories": sorted(
            _rows(ask, "trajectories", item_id=item_id, shard=shard),
            key=lambda row: (row["role"] != "teacher", row["model"]),
        ),
        "consensus": consensus,
        "near_duplicate": near[0] if near else None,
        "split": split[0] if split else None,
        "calls": calls,
        "cost_usd": None if None in costs else sum(costs),
    }


def fate(consensus: dict[str, Any] | None, near: list[dict[str, Any]], split: list[dict[str, Any]]) -> str:
    """Why the row is in RefineData, or why not, in a few words."""
    if consensus is None:
        return "not judged yet"
    if not consensus["kept"]:
        return f"dropped by consensus: {consensus['reason']}"
    if near and not near[0]["kept"]:
        return f"dropped as a near-duplicate of {near[0]['twin_id']} (Jaccard {near[0]['jaccard']:.3f})"
    return f"kept, {split[0]['split']} split" if split else "kept by consensus, not split yet"


def answer_fate(near: dict[str, Any] | None, split: dict[str, Any] | None) -> str:
    """Why the answer's rubric is in RubricData, or why not."""
    if near is None:
        return "without a valid rubric, or not filtered yet"
    if not near["kept"]:
        return f"dropped as a near-duplicate of {near['twin_id']}"
    return f"kept, {split['split']} split" if split else "kept, not split yet"


def _answer(ask: Ask, answer_id: str) -> dict[str, Any]:
    answer = _one(ask, "answers", answer_id=answer_id)
    assert answer is not None
    shard = answer["shard"]
    near = _one(ask, "near_duplicates", instance_id=answer_id)
    split = _one(ask, "splits", instance_id=answer_id)
    return {
        "kind": "answer",
        "fate": answer_fate(near, split),
        "question": _one(ask, "questions", question_id=answer["question_id"], shard=shard),
        "answer": answer,
        "items": sorted(_rows(ask, "rubrics", answer_id=answer_id, shard=shard), key=lambda row: row["position"]),
        "consensus": _rows(ask, "consensus", answer_id=answer_id, shard=shard),
        "near_duplicate": near,
        "split": split,
        "calls": _rows(ask, "calls", call_id=answer_id, shard=shard)
        + _rows(ask, "calls", answer_id=answer_id, shard=shard),
    }


def _question(ask: Ask, question_id: str) -> dict[str, Any]:
    question = _one(ask, "questions", question_id=question_id)
    assert question is not None
    shard = question["shard"]
    return {
        "kind": "question",
        "question": question,
        "answers": _rows(ask, "answers", question_id=question_id, shard=shard),
        "coverage": _rows(ask, "coverage", question_id=question_id, shard=shard),
    }


def _call(ask: Ask, call_id: str) -> dict[str, Any]:
    return {"kind": "call", "call": _one(ask, "calls", call_id=call_id)}


_STORIES: dict[str, tuple[str, Callable[[Ask, str], dict[str, Any]]]] = {
    "rubrics": ("item_id", _item),
    "answers": ("answer_id", _answer),
    "questions": ("question_id", _question),
    "calls": ("call_id", _call),
}

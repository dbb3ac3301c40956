"""The whole story of one row: question, answer, rubric, votes, calls, and why it was kept or dropped."""

from collections.abc import Callable
from typing import Any

import polars as pl

from storage.errors import UserError
from storage.workspace import Workspace


class NoSuchRow(UserError):
    """No table has a row of that id."""


def passport(workspace: Workspace, row_id: str) -> dict[str, Any]:
    """The story of a rubric item, an answer, a question or a call, by its id or a beginning of it that is unique.

    Raises ``NoSuchRow`` when there is none, or more than one.
    """
    if not row_id:
        raise NoSuchRow("give the id of a row, or the beginning of one")
    for name, (column, story) in _STORIES.items():
        if name == "rubrics" and "-" not in row_id:
            continue  # the id of a rubric's call begins the ids of all its items
        found = _matching(workspace, name, column, row_id)
        if len(found) == 1:
            return story(workspace, found[0])
        if found:
            raise NoSuchRow(f"{row_id}: {len(found)} rows of {name} begin so; give more of the id")
    raise NoSuchRow(f"{row_id}: no question, answer, rubric item or call has this id (`criticgen query` lists ids)")


def _matching(workspace: Workspace, name: str, column: str, start: str) -> list[str]:
    ids = workspace.read_table(name, columns=[column])[column]
    exact = ids.filter(ids == start)
    found: list[str] = (exact if len(exact) else ids.filter(ids.str.starts_with(start))).unique().to_list()
    return found


def _rows(workspace: Workspace, name: str, **equal: str) -> list[dict[str, Any]]:
    return workspace.read_table(name).filter(**equal).to_dicts()


def _one(workspace: Workspace, name: str, **equal: str) -> dict[str, Any] | None:
    rows = _rows(workspace, name, **equal)
    return rows[0] if rows else None


def _item(workspace: Workspace, item_id: str) -> dict[str, Any]:
    item = _one(workspace, "rubrics", item_id=item_id)
    assert item is not None
    near = workspace.read_table("near_duplicates").filter(instance_id=item_id).to_dicts()
    split = workspace.read_table("splits").filter(instance_id=item_id).to_dicts()
    consensus = _one(workspace, "consensus", item_id=item_id)
    calls = workspace.read_table("calls").filter(
        pl.col("call_id").is_in([item["answer_id"], item["call_id"]]) | (pl.col("item_id") == item_id)
    )
    return {
        "kind": "rubric item",
        "simulated": workspace.info["simulated"],
        "fate": fate(consensus, near, split),
        "question": _one(workspace, "questions", question_id=item["question_id"]),
        "answer": _one(workspace, "answers", answer_id=item["answer_id"]),
        "item": item,
        "trajectories": sorted(
            _rows(workspace, "trajectories", item_id=item_id), key=lambda row: (row["role"] != "teacher", row["model"])
        ),
        "consensus": consensus,
        "near_duplicate": near[0] if near else None,
        "split": split[0] if split else None,
        "calls": calls.sort("finished_at").to_dicts(),
        "cost_usd": None if calls["cost_usd"].has_nulls() else float(calls["cost_usd"].sum()),
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


def answer_fate(workspace: Workspace, answer_id: str) -> str:
    """Why the answer's rubric is in RubricData, or why not."""
    near = _one(workspace, "near_duplicates", instance_id=answer_id)
    if near is None:
        return "without a valid rubric, or not filtered yet"
    if not near["kept"]:
        return f"dropped as a near-duplicate of {near['twin_id']}"
    split = _one(workspace, "splits", instance_id=answer_id)
    return f"kept, {split['split']} split" if split else "kept, not split yet"


def _answer(workspace: Workspace, answer_id: str) -> dict[str, Any]:
    answer = _one(workspace, "answers", answer_id=answer_id)
    assert answer is not None
    return {
        "kind": "answer",
        "simulated": workspace.info["simulated"],
        "fate": answer_fate(workspace, answer_id),
        "question": _one(workspace, "questions", question_id=answer["question_id"]),
        "answer": answer,
        "items": _rows(workspace, "rubrics", answer_id=answer_id),
        "consensus": _rows(workspace, "consensus", answer_id=answer_id),
        "near_duplicate": _one(workspace, "near_duplicates", instance_id=answer_id),
        "split": _one(workspace, "splits", instance_id=answer_id),
        "calls": _rows(workspace, "calls", call_id=answer_id) + _rows(workspace, "calls", answer_id=answer_id),
    }


def _question(workspace: Workspace, question_id: str) -> dict[str, Any]:
    return {
        "kind": "question",
        "simulated": workspace.info["simulated"],
        "question": _one(workspace, "questions", question_id=question_id),
        "answers": _rows(workspace, "answers", question_id=question_id),
        "coverage": _rows(workspace, "coverage", question_id=question_id),
    }


def _call(workspace: Workspace, call_id: str) -> dict[str, Any]:
    return {
        "kind": "call",
        "simulated": workspace.info["simulated"],
        "call": _one(workspace, "calls", call_id=call_id),
    }


_STORIES: dict[str, tuple[str, Callable[[Workspace, str], dict[str, Any]]]] = {
    "rubrics": ("item_id", _item),
    "answers": ("answer_id", _answer),
    "questions": ("question_id", _question),
    "calls": ("call_id", _call),
}

"""Which instances of a workspace were dropped as near-duplicates, and what one shares with the one it repeats."""

from typing import Any

import polars as pl

from storage.errors import UserError
from storage.workspace import Workspace
from tasks.instances import refine_candidates, rubric_instances
from tasks.text import Mode, grams_at, token_spans

OPEN, CLOSE = "⟦", "⟧"


class NoSuchDuplicate(UserError):
    """No dropped instance, or more than one, has an id that begins so."""


def duplicates(workspace: Workspace) -> list[dict[str, Any]]:
    """The dropped instances: data_set, instance_id, twin_id, shared, union, jaccard; the most alike first."""
    dropped = workspace.read_table("near_duplicates").filter(~pl.col("kept")).drop("kept")
    return dropped.sort("data_set", "jaccard", "instance_id", descending=[False, True, False]).to_dicts()


def compared(workspace: Workspace, row_id: str, *, n: int, mode: Mode) -> dict[str, Any]:
    """A dropped instance by its id or the beginning of it, ``text`` and ``twin_text`` with what both have marked."""
    found = [row for row in duplicates(workspace) if row["instance_id"].startswith(row_id)]
    exact = [row for row in found if row["instance_id"] == row_id]
    if len(exact or found) != 1:
        problem = f"{len(found)} dropped instances begin so; give more of the id" if found else "no dropped instance"
        raise NoSuchDuplicate(f"{row_id}: {problem} (`criticgen duplicates` lists them)")
    (row,) = exact or found
    instances = refine_candidates(workspace) if row["data_set"] == "refine_data" else rubric_instances(workspace)
    texts = dict(instances.select("instance_id", "text").iter_rows())
    text, twin = marked(texts[row["instance_id"]], texts[row["twin_id"]], n=n, mode=mode)
    return row | {"text": text, "twin_text": twin}


def marked(text: str, other: str, *, n: int, mode: Mode) -> tuple[str, str]:
    """Both texts with the stretches that n-grams of both cover between ``⟦`` and ``⟧``. Texts in NFC."""
    shown = [token_spans(one, mode) for one in (text, other)]
    grams = [grams_at(one, spans, n) for one, spans in shown]
    both = set(grams[0]) & set(grams[1])
    left, right = (_marked(one, spans, own, both, n) for (one, spans), own in zip(shown, grams, strict=True))
    return left, right


def _marked(
    text: str,
    spans: list[tuple[int, int]],
    grams: list[tuple[str, ...]],
    both: set[tuple[str, ...]],
    n: int,
) -> str:
    covered = sorted({at + place for at, gram in enumerate(grams) if gram in both for place in range(n)})
    pieces, last, open_to = [], 0, -2
    for token in covered:
        start, end = spans[token]
        if token != open_to + 1:
            pieces += [CLOSE if open_to >= 0 else "", text[last:start], OPEN]
            last = start
        pieces.append(text[last:end])
        last, open_to = end, token
    return "".join([*pieces, CLOSE if covered else "", text[last:]])

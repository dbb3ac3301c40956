"""Any table, filtered, sorted and paged by the database: no more than a page of rows ever leaves it.

A search for text reads much, so it goes through the shards one group after the other, ends with a full page or when
``SEARCH_S`` is over, and says how far it came: the next page goes on from there.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployments.dashboard.facts import FATES
from deployments.dashboard.queries.listings import Listing, NoSuchListing
from deployments.dashboard.reader import Reader, Row
from storage.schemas import FAMILIES, LEVELS
from tasks.config import ASKING

PAGE = 50
SEARCH_S = 0.3
FIRST_SHARDS = 2


NUMBERS = {"score"}


@dataclass(frozen=True)
class Found:
    """A page of rows. ``total`` is null for a search, which has looked through ``looked`` of ``shards``.

    ``next`` are the query parameters of the page that follows, null where none does.
    """

    rows: list[Row]
    total: int | None
    looked: int
    shards: int
    next: Mapping[str, int] | None


def options(reader: Reader, listing: Listing) -> dict[str, list[Any]]:
    """The values that each filter offers; none for those that are typed in."""

    def distinct(sql: str) -> list[Any]:
        return [next(iter(row.values())) for row in reader.rows(sql)]

    models = "answers" if listing.table == "answers" else "call_counts"
    known: dict[str, Any] = {
        "source": "SELECT DISTINCT source FROM questions ORDER BY ALL",
        "model": f"SELECT DISTINCT model FROM {models} ORDER BY ALL",
        "generator": "SELECT DISTINCT model FROM answers ORDER BY ALL",
        "outcome": "SELECT DISTINCT outcome FROM call_counts ORDER BY ALL",
        "family": list(FAMILIES),
        "origin": ["pool", "coverage"],
        "role": ["teacher", "judge"],
        "score": list(LEVELS),
        "fate": ["kept", "dropped"] if listing.table == "near_duplicates" else list(FATES),
        "reason": ["agreement", "disagreement", "unjudged", "no_trajectory"],
        "stage": list(ASKING),
        "data_set": ["rubric_data", "refine_data"],
        "split": ["train", "test"],
    }
    chosen = {name: known.get(name, []) for name in listing.filters}
    return {name: distinct(value) if isinstance(value, str) else value for name, value in chosen.items()}


def find(
    reader: Reader, listing: Listing, asked: Mapping[str, str], *, sort: str | None, down: bool, offset: int, skip: int
) -> Found:
    """A page of the rows that ``asked`` lets through; ``offset`` counts rows, or shards where text is searched."""
    conditions, params = _conditions(listing, asked)
    if asked.get("q"):
        return _search(reader, listing, conditions, params, asked["q"], offset, skip)
    if sort is not None and sort not in listing.columns:
        raise NoSuchListing(f"{listing.table} cannot be sorted by {sort!r}")
    where = " AND ".join(conditions) or "true"
    way = "DESC" if down else "ASC"
    order = f'ORDER BY "{sort}" {way} NULLS LAST, {listing.id}' if sort else ""
    limit = f"LIMIT {PAGE} OFFSET {max(offset, 0)}"
    if sort and listing.unique and listing.table != "items":
        keys = reader.rows(f"SELECT {listing.id}, shard FROM {listing.table} WHERE {where} {order} {limit}", params)
        rows = _by_key(reader, listing.table, listing.id, _read(listing), keys)
    elif listing.table == "items" and sort == "dimension":
        raise NoSuchListing("items cannot be sorted by dimension; the table rubrics can")
    else:
        rows = reader.rows(f"SELECT {_read(listing)} FROM {listing.table} WHERE {where} {order} {limit}", params)
    total = reader.rows(f"SELECT count(*) AS n FROM {listing.table} WHERE {where}", params)[0]["n"]
    more = offset + len(rows) < total
    return Found(_completed(reader, listing, rows), total, 0, 0, {"offset": offset + PAGE} if more else None)


def _conditions(listing: Listing, asked: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    """The SQL of the filters, values as parameters: an integer where a score is meant."""
    params: dict[str, Any] = {}
    conditions = []
    for name, condition in listing.filters.items():
        if value := asked.get(name):
            if name in NUMBERS and not value.isdigit():
                raise NoSuchListing(f"{name}={value}: a score is a number from 0 to 5")
            params[name] = int(value) if name in NUMBERS else value
            conditions.append(condition)
    return conditions, params


def _search(
    reader: Reader, listing: Listing, conditions: list[str], params: dict[str, Any], text: str, start: int, skip: int
) -> Found:
    shards = (reader.workspace.read_manifest("questions") or {"shards": []})["shards"]
    table = "rubrics" if listing.table == "items" else listing.table
    holds = " OR ".join(f"contains(lower({name}), lower($q))" for name in listing.searched)
    if not listing.searched:
        raise NoSuchListing(f"{listing.table} has no text to search")
    inside = f"shard IN $shards AND ({holds})"
    if table != listing.table:
        inside = f"item_id IN (SELECT item_id FROM rubrics WHERE {inside}) AND shard IN $shards"
    where = " AND ".join([*conditions, inside])
    order = f"shard, {'position' if table == 'rubrics' else listing.id}, {listing.id}"
    rows: list[Row] = []
    at, group, began = max(start, 0), FIRST_SHARDS, time.monotonic()
    while at < len(shards) and len(rows) <= PAGE and (at == start or time.monotonic() - began < SEARCH_S / 2):
        these = sorted(shards[at : at + group])
        sql = f"""SELECT {_read(listing)}, shard AS in_shard FROM {listing.table} WHERE {where}
                  ORDER BY {order} LIMIT {PAGE + 1 - len(rows)} OFFSET {skip if at == start else 0}"""
        rows += reader.rows(sql, params | {"q": text, "shards": these})
        at, group = at + group, group * 2
    looked = min(at, len(shards))
    following: dict[str, int] | None = {"offset": looked, "skip": 0} if looked < len(shards) else None
    if len(rows) > PAGE:
        # The groups are sorted as the shards are, so the row that has no room tells where to go on.
        place = shards.index(rows[PAGE]["in_shard"])
        shown = sum(row["in_shard"] == rows[PAGE]["in_shard"] for row in rows[:PAGE])
        following = {"offset": place, "skip": shown + (skip if place == start else 0)}
        rows, looked = rows[:PAGE], place
    return Found(_completed(reader, listing, rows), None, looked, len(shards), following)


def _read(listing: Listing) -> str:
    names = [name for name in listing.columns if (listing.table, name) != ("items", "dimension")]
    extra = ["shard"] if listing.table == "items" else []
    return ", ".join(f'"{name}"' for name in dict.fromkeys([listing.id, *names, *extra]))


def _by_key(reader: Reader, table: str, key: str, columns: str, keys: list[Row]) -> list[Row]:
    """The rows of these ids, in their order, read from their shards alone."""
    wanted = {"ids": [row[key] for row in keys], "shards": sorted({row["shard"] for row in keys})}
    sql = f"SELECT {columns} FROM {table} WHERE shard IN $shards AND {key} IN $ids"
    found = {row[key]: row for row in reader.rows(sql, wanted)} if keys else {}
    return [found[row[key]] for row in keys if row[key] in found]


def _completed(reader: Reader, listing: Listing, rows: list[Row]) -> list[Row]:
    if listing.table != "items":
        return rows
    named = {
        row["item_id"]: row["dimension"] for row in _by_key(reader, "rubrics", "item_id", "item_id, dimension", rows)
    }
    return [row | {"dimension": named.get(row["item_id"])} for row in rows]

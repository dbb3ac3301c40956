"""The rows of any table: filters and order are query parameters, so every view is a link."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import rows
from deployments.dashboard.queries.listings import LISTINGS, listing_of
from deployments.dashboard.templates import render


def page(board: Board, request: Request, form: Form) -> str:
    asked = dict(request.query_params)
    listing = listing_of(asked.get("table", "items"))
    offset, skip = _number(asked.get("offset")), _number(asked.get("skip"))
    sort = asked.get("sort") or None
    found = rows.find(board.reader, listing, asked, sort=sort, down=asked.get("down") == "1", offset=offset, skip=skip)
    kept = {name: asked[name] for name in (*listing.filters, "q", "sort", "down") if asked.get(name)}
    return render(
        "rows.html",
        board,
        here="/rows",
        listing=listing,
        tables=list(LISTINGS),
        options=rows.options(board.reader, listing),
        asked={"table": listing.table, **kept},
        found=found,
        offset=offset,
        page_rows=rows.PAGE,
        sort=sort,
        down=asked.get("down") == "1",
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0

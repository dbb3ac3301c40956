"""Coverage: the levels that answers have, before and after the completion."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import coverage
from deployments.dashboard.queries.listings import listing_of
from deployments.dashboard.queries.rows import options
from deployments.dashboard.templates import render


def page(board: Board, request: Request, form: Form) -> str:
    asked = {name: request.query_params.get(name) or None for name in ("source", "generator")}
    return render(
        "coverage.html",
        board,
        here="/coverage",
        asked=asked,
        options=options(board.reader, listing_of("items")),
        all=coverage.histogram(board.reader, asked),
        groups={name: coverage.histogram(board.reader, asked, name) for name in ("source", "generator")},
        targets=coverage.targets(board.reader, asked["source"]),
    )

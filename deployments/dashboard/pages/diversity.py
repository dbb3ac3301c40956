"""Diversity and near-duplicates."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import diversity
from deployments.dashboard.templates import render


def page(board: Board, request: Request, form: Form) -> str:
    asked = dict(request.query_params)
    counted = "rows" if asked.get("counted") == "rows" else "distinct"
    groups = diversity.groups(board.reader)
    twin = asked.get("twin") or (groups[0]["twin_id"] if groups else None)
    return render(
        "diversity.html",
        board,
        here="/diversity",
        counted=counted,
        distinct=diversity.distinct(board.reader, counted),
        groups=groups,
        twin=twin,
        group=diversity.group(board.reader, twin) if twin else [],
    )

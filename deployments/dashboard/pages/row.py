"""One row and its whole story."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries.row import row_story
from deployments.dashboard.templates import render, row_link


def page(board: Board, request: Request, form: Form) -> str:
    row_id = request.path_params["row_id"]
    story = row_story(board.reader, row_id)
    return render("row.html", board, here="/rows", row_id=row_id, story=story, rubric=story.get("items", []))


def find(board: Board, request: Request, form: Form) -> Response:
    """The page's address from what was typed in."""
    return RedirectResponse(row_link(request.query_params.get("id", "").strip() or "-"), 303)

"""The models' page."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import models
from deployments.dashboard.templates import render


def page(board: Board, request: Request, form: Form) -> str:
    return render(
        "models.html",
        board,
        here="/models",
        models=models.models(board.reader),
        failures=models.failures(board.reader),
        over_time=models.over_time(board.reader),
        waits=models.waits_by_model(board.workspace),
    )

"""The overview: a run that goes, the funnel, the spend, the last runs."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.prefect_api import PrefectError
from deployments.dashboard.queries import overview
from deployments.dashboard.templates import render
from tasks.config import ASKING
from tasks.status import counts, funnel


def page(board: Board, request: Request, form: Form) -> str:
    found = counts(board.workspace)
    spend = overview.spend(board.reader)
    cells = {(row["model"], row["stage"]): row for row in spend}
    models = sorted({row["model"] for row in spend})
    known = [row["cost_usd"] for row in spend if row["cost_usd"] is not None]
    try:
        runs, trouble = board.prefect.last_runs(), None
    except PrefectError as error:
        runs, trouble = [], str(error)
    return render(
        "overview.html",
        board,
        here="/",
        funnel=funnel(found),
        stages=found["stages"],
        export=found["steps"]["export"],
        progress=overview.progress(board.workspace, found["stages"]),
        asking=ASKING,
        models=models,
        cells=cells,
        total_usd=sum(known) if len(known) == len(spend) else None,
        dearest=max(known, default=0.0),
        budget=overview.budget(board.reader),
        ledger_runs=overview.runs(board.reader),
        runs=runs,
        trouble=trouble,
    )

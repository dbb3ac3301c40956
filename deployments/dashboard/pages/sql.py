"""SQL of the user's own: the query is in the address, so a result is a link."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from deployments.dashboard import charts
from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import sql
from deployments.dashboard.templates import link, render
from storage.errors import UserError
from storage.limited_sql import SECONDS, run_limited
from storage.queries import VIEWS, QueryError

MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
SHAPES = ("table", "bars", "lines")


def page(board: Board, request: Request, form: Form) -> str | Response:
    trouble = None
    if form.get("do") == "save":
        try:
            sql.save(board.workspace, form.get("name", "").strip(), form.get("sql", ""))
            return RedirectResponse(link("/sql", {"sql": form.get("sql", "")}), 303)
        except UserError as error:
            trouble = str(error)
    text = form.get("sql") or request.query_params.get("sql", "")
    shape = request.query_params.get("shape", "table")
    result, drawn = None, None
    if text.strip() and not form:
        try:
            result = sql.run(board.workspace, text)
        except QueryError as error:
            trouble = str(error)
    if result and shape in ("bars", "lines"):
        labels, series = sql.series(result)
        drawn = {"bars": charts.bars, "lines": charts.lines}[shape](labels, series) if series and labels else None
        trouble = None if drawn else "A chart needs a column of labels first, and a column of numbers after it."
    return render(
        "sql.html",
        board,
        here="/sql",
        sql=text,
        shape=shape,
        shapes=SHAPES,
        result=result,
        drawn=drawn,
        trouble=trouble,
        saved=sql.saved(board.workspace),
        tables=VIEWS,
        seconds=SECONDS,
    )


def download(board: Board, request: Request, form: Form) -> Response:
    """The result as a file, to a million rows."""
    kind = "parquet" if request.query_params.get("as") == "parquet" else "csv"
    text = request.query_params.get("sql", "")
    asked = run_limited(board.workspace.root, text, rows=sql.DOWNLOADED_ROWS, form=kind, seconds=6 * SECONDS)
    file = asked.__enter__()  # what is wrong with the SQL shows here, before a byte is sent

    def blocks() -> Iterator[bytes]:
        try:
            yield from iter(lambda: file.read(2**20), b"")
        finally:
            asked.__exit__(None, None, None)

    headers = {"Content-Disposition": f'attachment; filename="query.{kind}"'}
    return StreamingResponse(blocks(), media_type=MEDIA[kind], headers=headers)

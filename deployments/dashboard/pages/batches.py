"""The batches: a grid, one batch's story, and the buttons that start a retry or a pause by Prefect."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.prefect_api import PrefectError
from deployments.dashboard.queries import batches
from deployments.dashboard.templates import render


def page(board: Board, request: Request, form: Form) -> str:
    asked = dict(request.query_params)
    offset = int(asked["offset"]) if asked.get("offset", "").isdigit() else 0
    said, link, bad = _act(board, form)
    place = [asked.get(name, "") for name in ("stage", "shard", "part")]
    # A name in a query parameter never leads out of the workspace's folder.
    known = all(place) and not any(part in (".", "..") or "/" in part for part in place)
    return render(
        "batches.html",
        board,
        here="/batches",
        grid=batches.grid(board.workspace, offset, asked.get("state")),
        states=batches.STATES,
        offset=offset,
        a_page=batches.SHARDS_A_PAGE,
        asked=asked,
        place=tuple(place),
        batch=batches.batch(board.reader, place[0], place[1], place[2]) if known else None,
        prefect_api=board.prefect.api,
        said=said,
        said_link=link,
        bad=bad,
    )


def _act(board: Board, form: Form) -> tuple[str | None, str | None, bool]:
    """What a button asked for: in words, a link to what was started, and whether it went wrong."""
    action = form.get("do")
    try:
        if action == "pause":
            return f"Paused: {board.prefect.pause()}.", None, False
        if action in ("batch", "class"):
            asked = {"stage": form.get("stage"), "outcome": form.get("outcome"), "shard": form.get("shard")}
            if action == "class":
                asked["shard"] = None
            return "A retry has been asked for in Prefect.", board.prefect.retry(**asked), False
    except PrefectError as error:
        return str(error), None, True
    return None, None, False

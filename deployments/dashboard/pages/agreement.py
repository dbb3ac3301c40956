"""Agreement: matrices, kappas by group, and what other tolerances would keep."""

from starlette.requests import Request

from deployments.dashboard.app import Board, Form
from deployments.dashboard.queries import agreement
from deployments.dashboard.queries.listings import listing_of
from deployments.dashboard.queries.rows import options
from deployments.dashboard.templates import render
from tasks.agreement import GROUPINGS


def page(board: Board, request: Request, form: Form) -> str:
    asked = {name: request.query_params.get(name) or None for name in GROUPINGS}
    models = agreement.judges(board.reader)
    found = agreement.combinations(board.reader, asked)
    quorums = [*range(1, len(models)), "all"]
    total = sum(row["items"] for row in found)
    return render(
        "agreement.html",
        board,
        here="/agreement",
        asked=asked,
        groupings=GROUPINGS,
        options=options(board.reader, listing_of("items")),
        judges=models,
        items=total,
        pairs=[agreement.pair(found, judge) for judge in range(len(models))],
        groups={name: agreement.by_group(board.reader, asked, name, len(models)) for name in GROUPINGS},
        quorums=quorums,
        tolerances={
            tolerance: [agreement.kept_at(found, tolerance, quorum) for quorum in quorums]
            for tolerance in agreement.TOLERANCES
        },
        settings=agreement.consensus_settings(board.reader),
    )

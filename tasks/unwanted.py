"""What the ledger holds beyond the calls that the present settings want: it was paid for, and stays listed."""

from collections.abc import Iterable

import polars as pl

from tasks.batches import C, Run, Stage, frame_for
from tasks.call_table import calls_table
from tasks.calls import Attempt, next_step, read_attempt
from tasks.models import Outcome

UNWANTED = "unwanted"  # the part of the calls table that no batch writes


def write_unwanted_calls(run: Run[C], stages: Iterable[Stage[C]]) -> None:
    """List what the ledger holds beyond the batches' calls: it was paid for under other settings."""
    known = run.workspace.read_table("calls", columns=["call_id", "wanted"]).filter("wanted")
    tables = [frame_for("calls", [])]
    for stage in stages:
        output = stage.output(run.config)
        unwanted = run.ledger.calls(stage.name).join(known, on="call_id", how="anti")
        for (_,), part in unwanted.group_by("path", maintain_order=True):
            records = run.ledger.records(stage.name, part["call_id"])
            attempts: dict[str, list[Attempt]] = {}
            for record in records.to_dicts():
                attempts.setdefault(record["call_id"], []).append(read_attempt(record, output))
            steps = {call_id: next_step(tried, run.config.give_up_after) for call_id, tried in attempts.items()}
            outcomes = {call_id: step if isinstance(step, Outcome) else None for call_id, step in steps.items()}
            tables.append(calls_table(records, attempts, outcomes, wanted=False))
    table = pl.concat(tables).unique("call_id", keep="any", maintain_order=True)
    run.workspace.write_table("calls", table, UNWANTED)

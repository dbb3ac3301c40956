"""``criticgen quote``: what a run of a config would still cost, from what its workspace has measured."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from flows.plan import config_of
from flows.run import run_config
from flows.summary import console
from storage.errors import UserError
from storage.workspace import Workspace
from tasks import questions
from tasks.budget import lost_usd
from tasks.config import Config, changed
from tasks.forecast import forecast, measure
from tasks.quote import Quote, price
from tasks.standing import asks, nothing_held, read_held, standing


def quote(config: Config, workspace: Path, *, pilot: int | None = None, skip_bad_rows: bool = False) -> Quote:
    """The quote of all that the config asks for and the workspace lacks, after a pilot of so many questions.

    Without a pilot it only reads, and needs no lock. Raises ``SourceError`` where the questions cannot be read,
    ``WorkspaceError`` for another data set's workspace, and in the pilot what a run raises.
    """
    remarks = [] if pilot is None else [build_pilot(config, workspace, pilot, skip_bad_rows)]
    place = _place(config, workspace)
    asked = _questions(config, place, skip_bad_rows)
    held = nothing_held() if place is None else read_held(place, config)
    found = standing(config, asked, held)
    made_with, measured_questions, measured_standing = config, asked, found
    if place is not None and (last := _last(place)) is not None and asks(last) != asks(config):
        made_with, measured_questions = last, place.read_table("questions", columns=["question_id", "source"])
        measured_standing = standing(last, measured_questions, held)
    measured = measure(made_with, measured_questions, measured_standing, held.attempts)
    forecasts = forecast(config, asked, found, measured)
    lost = 0.0 if place is None else lost_usd(place.root)
    priced = price(config, asked, found, measured, forecasts, held.attempts, lost)
    return replace(priced, remarks=[*remarks, *priced.remarks])


def build_pilot(config: Config, workspace: Path, number: int, skip_bad_rows: bool) -> str:
    """Build the first questions of each source, ``number`` in all; a run goes on from there and asks none again.

    Returns what was done. A workspace that has begun with more questions is left alone.
    """
    place = _place(config, workspace)
    begun = 0 if place is None else (place.read_manifest("questions") or {"out": 0})["out"]
    if begun > number:
        return f"No pilot was built: this workspace has begun with {begun:,} questions. `criticgen run` goes on."
    named = len(_questions(config, place, skip_bad_rows))
    if number >= named:
        raise UserError(f"--pilot {number}: the config names {named:,} questions, and a pilot is a part of them")
    run_config(changed(config, [f"limit={number}"]), workspace, skip_bad_rows, True, console(stderr=True))
    return f"A pilot of {number:,} questions is built; `criticgen run` goes on from it, and asks none of it again."


def _place(config: Config, workspace: Path) -> Workspace | None:
    if not (workspace / "workspace.json").exists():
        return None
    place = Workspace(workspace, create=False)
    place.claim(config.name, simulated=config.simulated)
    return place


def _questions(config: Config, place: Workspace | None, skip_bad_rows: bool) -> pl.DataFrame:
    """``question_id``, ``source`` and ``bytes``: of the workspace's table, where it is these questions'."""
    if place is not None and questions.stands(place, config):
        table = place.read_table("questions", columns=["question_id", "source", "text"])
    else:
        table = pl.concat(
            [source.questions for source in questions.load_questions(config, skip_bad_rows=skip_bad_rows)]
        )
    return table.select("question_id", "source", bytes=pl.col("text").str.len_bytes())


def _last(place: Workspace) -> Config | None:
    """The settings that the workspace's calls were made with."""
    return config_of(place) if (place.root / "config.json").exists() else None

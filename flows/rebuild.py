"""``criticgen rebuild``: every table anew from the ledger, no model asked."""

import asyncio
from pathlib import Path

import orjson

from flows.progress import Progress
from flows.summary import console, show_status
from storage.workspace import Workspace, WorkspaceError
from tasks import questions
from tasks.config import Config
from tasks.status import status


def rebuild(root: Path) -> None:
    """Parse the ledger again and write all tables. Calls that were never answered stay to be asked."""
    from flows.build import build, do_batch, do_step, open_run

    place = Workspace(root, create=False)
    try:
        config = Config.model_validate(orjson.loads((root / "config.json").read_bytes()))
    except (OSError, ValueError) as error:
        raise WorkspaceError(
            f"{root}/config.json: cannot be read ({error}); `criticgen run CONFIG` writes it"
        ) from None

    with place.lock():
        place.prune([])
        questions.read_questions(place, config, skip_bad_rows=True)
        with Progress(config.name) as progress, open_run(config, place, None, progress) as run:
            asyncio.run(build(run, do_batch, do_step))
    show_status(status(place), console())

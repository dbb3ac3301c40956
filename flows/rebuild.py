"""``criticgen rebuild``: every table anew from the ledger, no model asked."""

import asyncio

import orjson

from flows.progress import Progress
from storage.workspace import Workspace, WorkspaceError
from tasks import questions
from tasks.config import Config


def rebuild(place: Workspace) -> None:
    """Parse the ledger again and write all tables. Calls that were never answered stay to be asked."""
    path = place.root / "config.json"
    try:
        config = Config.model_validate(orjson.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{path}: cannot be read ({error}); `criticgen run CONFIG` writes it") from None

    with place.lock():
        questions.read_questions(place, config, skip_bad_rows=True)
        questions_files = [*place.table_files("questions"), *place.manifest_files("questions")]
        # What was held out stays held out: the splits alone do not follow from the ledger.
        place.prune([*questions_files, *place.table_files("splits")])
        with Progress(config.name) as progress:
            asyncio.run(parse_ledger(config, place, progress))


async def parse_ledger(config: Config, place: Workspace, progress: Progress) -> None:
    """Every batch and step, without a model to ask."""
    from flows.build import build, do_batch, do_step, open_run

    async with open_run(config, place, None, progress) as run:
        await build(run, do_batch, do_step)

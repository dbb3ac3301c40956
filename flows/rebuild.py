"""``criticgen rebuild``: every table anew from the ledger, no model asked."""

import asyncio

from flows.plan import STAGES, config_of, stage_of
from flows.progress import Progress
from storage.workspace import Workspace
from tasks import questions
from tasks.config import Config
from tasks.sources import SourceError


def rebuild(place: Workspace) -> None:
    """Parse the ledger again and write all tables. Calls that were never answered stay to be asked."""
    config = config_of(place)
    with place.lock(), Progress(config.name) as progress:
        asyncio.run(parse_ledger(config, place, progress))


async def parse_ledger(config: Config, place: Workspace, progress: Progress) -> None:
    """Every batch and step, without a model to ask."""
    from flows.asking import do_batch, open_run
    from flows.build import build, do_step

    async with open_run(config, place, None, progress, stage_of) as run:
        for stage in STAGES:
            run.ledger.calls(stage)  # what cannot be read shows before anything is deleted
        if not _questions_stand(place, config):
            questions.read_questions(place, config, skip_bad_rows=True)
        known = [*place.table_files("questions"), *place.manifest_files("questions")]
        # What was held out stays held out: the splits alone do not follow from the ledger.
        place.prune([*known, *place.table_files("splits")])
        await build(run, do_batch, do_step)


def _questions_stand(place: Workspace, config: Config) -> bool:
    """Also where a source is not there any more: its questions are in their table."""
    try:
        return questions.stands(place, config)
    except SourceError:
        return place.read_manifest("questions") is not None

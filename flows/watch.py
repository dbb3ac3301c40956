"""What Prefect hears of a run while it goes: progress by stage, and events that an automation can act on.

    criticgen.batch.failed     a batch ended red: which, and the counts by class
    criticgen.model.stopped    no call is made to a model any more: which, and the cause
    criticgen.budget.reached   the next call may cost more than is left
    criticgen.run.finished     how the run ended

Each event's resource is the data set (``criticgen.data-set.NAME``), and Prefect relates it to the flow run.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact
from prefect.events import emit_event

from flows.artifacts import key_of
from flows.progress import Progress
from tasks.batches import Run

LOOK_S = 5.0


def tell(event: str, run: Run[Any], **payload: Any) -> None:
    """Emit ``criticgen.EVENT`` of the run's data set."""
    name = run.config.name
    resource = {"prefect.resource.id": f"criticgen.data-set.{name}", "prefect.resource.name": name}
    emit_event(f"criticgen.{event}", resource, payload={"workspace": str(run.workspace.root), **payload})


@asynccontextmanager
async def watched(run: Run[Any], progress: Progress) -> AsyncIterator[None]:
    """Tell of the run while the block lasts, and how it ended."""
    seen: set[str] = set()
    artifacts: dict[str, UUID] = {}

    async def look() -> None:
        for model, cause in list(run.caller.left.items()):
            event = "budget.reached" if cause.startswith("budget_usd") else "model.stopped"
            subject = event if event == "budget.reached" else model
            if subject not in seen:
                seen.add(subject)
                tell(event, run, model=model, cause=cause)
        for stage, tally in list(progress.tallies.items()):
            percent = 100.0 * tally.done / tally.wanted if tally.wanted else 100.0
            if stage in artifacts:
                await aupdate_progress_artifact(artifacts[stage], percent, tally.line())
            else:
                artifacts[stage] = await acreate_progress_artifact(percent, key_of(run.workspace, stage, "progress"))

    async def keep_looking() -> None:
        while True:
            with suppress(Exception):  # what Prefect does not take must not stop the run
                await look()
            await asyncio.sleep(LOOK_S)

    looking = asyncio.create_task(keep_looking())
    ended = "stopped"
    try:
        yield
        ended = "completed"
    except Exception as error:
        ended = str(error)
        raise
    finally:
        looking.cancel()
        with suppress(Exception):
            await look()
        tell("run.finished", run, ended=ended)

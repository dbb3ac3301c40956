"""``criticgen run`` and ``retry``: plan first; where something is wanted, run the flow under a real Prefect server."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.plan import config_of, nothing_wanted
from flows.server import prefect_server, wait_recorded
from flows.summary import console, show_outputs
from flows.vendor_batches import leave_or_cancel
from storage.errors import UserError
from storage.workspace import Workspace
from tasks import questions
from tasks.batches import Retry
from tasks.config import Config, changed, load_config
from tasks.models.pool import require_keys
from tasks.status import counts, reconciles, status


class RunFailed(UserError):
    """The run has not done all that was asked; the message says what is left and what to do."""


SEND_S = 10.0  # for the last of Prefect's history

Flow = Callable[[Config, str], Awaitable[Any]]


def run(
    path: Path, workspace: Path | None, limit: int | None, overrides: list[str], skip_bad_rows: bool, wait: bool
) -> None:
    """Build what the config asks for. Raises a ``UserError`` for what the user has to mend."""
    config = load_config(path, overrides, limit)
    run_config(config, workspace or Path("workspaces") / config.name, skip_bad_rows, wait, console())


def run_config(config: Config, workspace: Path, skip_bad_rows: bool, wait: bool, out: Console) -> None:
    """``run`` of a config that is read; what there is to say goes to ``out``."""

    def flow(config: Config, workspace: str) -> Awaitable[Any]:
        from flows.build import build_dataset

        return build_dataset(config, workspace, skip_bad_rows, wait, return_state=True)

    _run(config, Workspace(workspace), flow, None, skip_bad_rows, out)


def retry(place: Workspace, asked: Retry, overrides: list[str], wait: bool) -> None:
    """Ask again what has failed, under the settings of the workspace's last run and these changes to them."""
    config = changed(config_of(place), overrides)

    def flow(config: Config, workspace: str) -> Awaitable[Any]:
        from flows.retry import retry_failed

        outcome: Any = asked.outcome
        stage: Any = asked.stage
        return retry_failed(workspace, stage, asked.model, outcome, config, wait, asked.shard, return_state=True)

    _run(config, place, flow, asked, False, console())


def _run(config: Config, place: Workspace, flow: Flow, retry: Retry | None, skip_bad_rows: bool, out: Console) -> None:
    if nothing_wanted(place, config, retry):
        out.print("Nothing to do: all that this config asks for is there.")
        show_outputs(place.root, counts(place), out)
        return
    require_keys(config)
    _read_questions_first(place, config, skip_bad_rows)
    own_server = not os.environ.get("PREFECT_API_URL")
    if own_server:
        print("Starting a Prefect server for this run ...", file=sys.stderr, flush=True)
    with prefect_server(place.root / "prefect") as url:
        if own_server:
            print(f"Prefect shows this run at {url.removesuffix('/api')} while it lasts.", file=sys.stderr)
        waiting = _run_flow(config, place, flow, url if own_server else None)
    found = status(place)
    if waiting:
        out.print(waiting)
        out.print(
            f"The same command goes on when they have ended; `criticgen batches --workspace {place.root}` lists them."
        )
        return
    show_outputs(place.root, found, out)
    if not reconciles(found):
        raise RunFailed(f"the sums do not agree: `criticgen status --workspace {place.root}` shows which")


def _read_questions_first(place: Workspace, config: Config, skip_bad_rows: bool) -> None:
    """Before anything is started: most of what can be wrong shows here."""
    with place.lock():
        place.claim(config.name, simulated=config.simulated)
        if not questions.stands(place, config):
            questions.read_questions(place, config, skip_bad_rows=skip_bad_rows)


def _run_flow(config: Config, place: Workspace, flow: Flow, own_url: str | None) -> str | None:
    """Run the flow; what it waits for, None when it has done all. Raises ``RunFailed``."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    async def flow_run() -> tuple[Any, object]:
        state = await flow(config, str(place.root.resolve()))
        return state, await state.aresult(raise_on_failure=False)

    try:
        state, result = asyncio.run(flow_run())
    except BaseException as error:
        if _is_interrupt(error):
            print("Stopping: what is answered is kept ...", file=sys.stderr, flush=True)
            leave_or_cancel(config, place)
            raise KeyboardInterrupt from None
        raise
    finally:
        # While there is a server to send it to: at exit Prefect would wait for one that is gone.
        for worker in (EventsWorker, APILogWorker):
            worker.drain_all(timeout=SEND_S)
    flow_run_id = state.state_details.flow_run_id
    if own_url and flow_run_id and not wait_recorded(own_url, flow_run_id):
        print("Prefect's history of this run may lack its last task runs.", file=sys.stderr)
    if not state.is_completed():
        why = result if isinstance(result, UserError) else state.message
        raise RunFailed(
            f"{why}\nThe same command asks what was not asked; `criticgen failures --workspace {place.root}` shows "
            "what failed, and `criticgen retry` asks it again. More failures than max_failed allows keep a shard back."
        )
    return str(state.message) if state.name == "Waiting" else None


def _is_interrupt(error: BaseException) -> bool:
    """Ctrl-C, or SIGTERM as Prefect raises it, also in a group."""
    from prefect.exceptions import TerminationSignal

    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_interrupt, error.exceptions))
    return isinstance(error, KeyboardInterrupt | TerminationSignal | asyncio.CancelledError)

"""``criticgen batches``: the vendor batches of a workspace, and their end where it is asked for."""

import asyncio
import sys
from typing import Any

from flows.simulator import with_simulator
from storage.vendor_batches import RUNNING, VendorBatch, load_batches
from storage.workspace import Workspace
from tasks.models import Unsent
from tasks.models.batch import BatchFailure
from tasks.models.pool import batch_client
from tasks.settings import Asking, Model


def list_batches(place: Workspace) -> list[dict[str, Any]]:
    """Every vendor batch, the oldest first: its ids, model, items, state, the vendor's word, and its calls by class."""
    names = ("submission", "vendor_batch", "model", "items", "state", "status", "created_at", "looked_at", "strays")
    return [
        {name: getattr(batch, name) for name in names} | {"counts": batch.counts} for batch in load_batches(place.root)
    ]


def cancel(config: Asking, place: Workspace, submission: str | None = None) -> list[str]:
    """Ask the vendors to end the running batches, or the one; a line for each. What has run is collected later."""
    running = [batch for batch in load_batches(place.root) if batch.state == RUNNING]
    chosen = [batch for batch in running if submission in (None, batch.submission, batch.vendor_batch)]
    return asyncio.run(_cancel(config, chosen)) if chosen else []


async def _cancel(config: Asking, chosen: list[VendorBatch]) -> list[str]:
    lines = []
    with with_simulator(config) as served:
        for batch in chosen:
            assert batch.vendor_batch is not None
            try:
                client = batch_client(served, Model(name=batch.model))
                try:
                    await client.cancel(batch.vendor_batch)
                finally:
                    await client.aclose()
            except (BatchFailure, Unsent) as failure:
                lines.append(f"{batch.vendor_batch}: not cancelled: {failure}")
            else:
                lines.append(f"{batch.vendor_batch}: cancelled; the next run collects what has run of it")
    return lines


def leave_or_cancel(config: Asking, place: Workspace) -> None:
    """After Ctrl-C: on a terminal, ask whether the running vendor batches shall go on. They do where nobody says no."""
    running = [batch for batch in load_batches(place.root) if batch.state == RUNNING]
    if not running:
        return
    calls = sum(batch.items for batch in running)
    print(f"{len(running)} vendor batches with {calls:,} calls are running; they are paid for.", file=sys.stderr)
    answer = ""
    if sys.stdin.isatty() and sys.stderr.isatty():
        try:
            answer = input("Leave them running? The next run collects them. [Y/n] ")
        except (EOFError, KeyboardInterrupt):
            answer = ""
    if answer.strip().lower().startswith("n"):
        print(*cancel(config, place), sep="\n", file=sys.stderr)
    else:
        print("They go on; the next run collects them.", file=sys.stderr)

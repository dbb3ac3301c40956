"""What a run shows while it goes: a bar per stage on a terminal, plain lines elsewhere."""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress as Bars, TaskID, TextColumn, TimeRemainingColumn

from storage.ledger import Record
from tasks.models import Outcome
from tasks.models.outcomes import UNBILLED

PLAIN_EVERY_S = 5.0


@dataclass
class Tally:
    """One stage's counts since the run began. ``cost_usd`` is None once a price was not known."""

    wanted: int = 0
    done: int = 0
    failed: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    began: float = field(default_factory=time.monotonic)

    def add_cost(self, usd: float | None) -> None:
        self.cost_usd = None if usd is None or self.cost_usd is None else self.cost_usd + usd

    def line(self) -> str:
        rate = self.calls / max(time.monotonic() - self.began, 1e-9)
        cost = "" if self.cost_usd is None else f", ${self.cost_usd:.2f}"
        return f"{self.failed} failed, {rate:.0f}/s, {short(self.tokens)} tokens{cost}"


def short(number: int) -> str:
    """1,234 as 1.2k, 5,600,000 as 5.6M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


class Progress:
    """A context: bars live while it is open, and ``tallies`` stay for the summary."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=16),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            TextColumn("{task.fields[line]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._ids: dict[str, TaskID] = {}
        self._printed = time.monotonic()
        self._shown: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if not self._console.is_terminal and self.tallies:
            self._print()

    def begin(self, stage: str, wanted: int, done: int) -> None:
        tally = self.tallies[stage]
        tally.wanted += wanted
        tally.done += done
        self._show(stage)

    def attempt(self, record: Record) -> None:
        tally = self.tallies[record["stage"]]
        tally.calls += 1
        tally.tokens += (record["input_tokens"] or 0) + (record["output_tokens"] or 0)
        if record["outcome"] not in UNBILLED:
            tally.add_cost(record["cost_usd"])

    def ended(self, stage: str, outcome: Outcome | None) -> None:
        tally = self.tallies[stage]
        if outcome is None:  # not asked: its model was stopped
            return
        tally.done += 1
        tally.failed += outcome is not Outcome.OK
        self._show(stage)

    def _show(self, stage: str) -> None:
        tally = self.tallies[stage]
        if self._console.is_terminal:
            if stage not in self._ids:
                self._ids[stage] = self._bars.add_task(stage, total=0, line="")
            self._bars.update(self._ids[stage], total=tally.wanted, completed=tally.done, line=tally.line())
        elif time.monotonic() - self._printed > PLAIN_EVERY_S:
            self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        for stage, tally in self.tallies.items():
            if self._shown.get(stage) != (tally.done, tally.wanted):
                self._shown[stage] = (tally.done, tally.wanted)
                print(f"{stage}: {tally.done} of {tally.wanted} done, {tally.line()}", file=sys.stderr, flush=True)

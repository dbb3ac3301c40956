"""What a kill may cost: the ledger on disk beside the simulator's own count of what it has answered."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl
from pipeline import Simulator

from storage.ledger import ledger_files

Attempt = tuple[str, str, int, datetime]


def attempts_on_disk(root: Path) -> set[Attempt]:
    """Call, run, number and time of every attempt that a ledger holds, sealed or not."""
    names = ("call_id", "run", "attempt", "finished_at")
    found: set[Attempt] = set()
    for path in ledger_files(root):
        found |= set(pl.read_parquet(path, columns=list(names)).iter_rows())
    for path in (root / "ledger" / "open").glob("*.jsonl"):
        *lines, _ = path.read_bytes().split(b"\n")
        for record in map(json.loads, lines):
            call_id, run, attempt, time = (record[name] for name in names)
            found.add((call_id, run, attempt, datetime.fromisoformat(time)))
    return found


def answered_at_rest(simulator: Simulator) -> dict[str, int]:
    """The simulator's count, once it has come to rest: what was under way at a kill it may still answer."""
    before, answered = None, simulator.answered()
    while answered != before:
        time.sleep(0.04)
        before, answered = answered, simulator.answered()
    return answered


@dataclass
class Books:
    """The books of one workspace whose runs are killed, under a simulator that makes no faults.

    ``in_flight``: calls that a run may ask at the same time; 0 where each is an item of a vendor batch.
    """

    simulator: Simulator
    root: Path
    in_flight: int
    kills: int = 0
    answers: int = 0
    most_lost: int = 0
    kept: set[Attempt] = field(default_factory=set)
    lost: Counter[str] = field(default_factory=Counter)

    def check_kill(self) -> None:
        """Nothing kept is gone or was asked again, and of what was answered no more is lost than was in flight."""
        self.kills += 1
        answered = self._check()
        if self.in_flight:
            kept = Counter(call_id for call_id, *_ in self.kept)
            lost = Counter(answered) - kept
            newly = (lost - self.lost).total()
            assert self.lost <= lost
            assert newly <= self.in_flight, f"{newly} answers lost in one kill"
            self.lost, self.most_lost = lost, max(self.most_lost, newly)

    def check_end(self) -> None:
        """Answered twice is what was lost, and nothing else."""
        answered = self._check()
        assert set(answered) == {call_id for call_id, *_ in self.kept}
        assert Counter({call_id: times - 1 for call_id, times in answered.items() if times > 1}) == self.lost
        self.answers = sum(answered.values())

    def _check(self) -> dict[str, int]:
        answered, kept = answered_at_rest(self.simulator), attempts_on_disk(self.root)
        assert self.kept <= kept, f"gone: {self.kept - kept}"
        self.kept = kept
        again = [call_id for call_id, times in Counter(call_id for call_id, *_ in kept).items() if times > 1]
        assert again == [], "asked again although the answer was kept"
        if not self.in_flight:
            assert set(answered.values()) <= {1}
        return answered

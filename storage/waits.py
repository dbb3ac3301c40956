"""When models said to wait: 429s by model and minute, in ``waits/RUN.jsonl``. Statistics alone, written once a minute.

{"model": "openai/gpt-5", "minute": "2026-11-02T09:41:00+00:00", "times": 12, "told_s": 31.5}
"""

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson


class Waits:
    """One run's counts. What cannot be written is left out: nothing rests on it."""

    def __init__(self, root: Path, run: str) -> None:
        self._path = root / "waits" / f"{run}.jsonl"
        self._minute: datetime | None = None
        self._counts: dict[str, list[float]] = {}

    def add(self, model: str, told_s: float | None) -> None:
        """A model said to wait, and for how many seconds, where it said so."""
        minute = datetime.now(UTC).replace(second=0, microsecond=0)
        if minute != self._minute:
            self.write()
            self._minute = minute
        counts = self._counts.setdefault(model, [0, 0.0])
        counts[0] += 1
        counts[1] += told_s or 0.0

    def write(self) -> None:
        """Append the minute's counts; also at the end of the run."""
        if not self._counts or self._minute is None:
            return
        lines = b"".join(
            orjson.dumps({"model": model, "minute": self._minute.isoformat(), "times": times, "told_s": told}) + b"\n"
            for model, (times, told) in self._counts.items()
        )
        self._counts = {}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            with self._path.open("ab") as file:
                file.write(lines)


def read_waits(root: Path) -> list[dict[str, Any]]:
    """Every line of every run; a torn one is passed over."""
    found = []
    for path in sorted((root / "waits").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(line))
    return found

"""Runs for tests: the real simulator over real HTTP, the whole pipeline with Prefect or without."""

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import yaml

from flows.asking import do_batch, open_run
from flows.build import build, do_step
from flows.cli import main
from flows.plan import stage_of
from flows.progress import Progress
from storage.schemas import TABLES
from storage.workspace import Workspace
from tasks import questions
from tasks.batches import Retry
from tasks.config import Config, load_config

# What differs between two runs of the same work: when and how often, never what.
PASSING = ("attempts", "latency_s", "request_id", "finished_at")


@dataclass
class Simulator:
    url: str

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/_sim/{path}", timeout=10) as response:
            return json.load(response)

    def post(self, path: str, body: Any = None) -> None:
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(f"{self.url}/_sim/{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10):
            pass

    def answered(self) -> dict[str, int]:
        """How often each call id was answered."""
        served: dict[str, int] = self.get("served")
        return served

    def calls(self) -> int:
        return sum(self.answered().values())


PEOPLE = ["Ann", "Ben", "Cleo", "Dmitri", "Esi", "Farid"]
GOODS = ["pears", "stamps", "marbles", "lanterns", "buttons", "kites"]
QUESTIONS = [
    {
        "question": f"{name} packs {goods} into {3 + i} crates of {4 + 2 * i}, gives {2 + i} {goods} away, "
        f"and later doubles what is left. How many {goods} does {name} have?",
        "answer": str(2 * ((3 + i) * (4 + 2 * i) - 2 - i)),
    }
    for i, (name, goods) in enumerate(zip(PEOPLE, GOODS, strict=True))
]


def write_config(folder: Path, url: str, name: str = "config", **changes: Any) -> Path:
    """A config over the made questions and the simulator at ``url``."""
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    source = {"name": "made", "path": "questions.jsonl", "question": "question", "reference_answer": "answer"}
    values: dict[str, Any] = {
        "name": "made",
        "sources": [source],
        "shard_size": 2,
        "simulator": {"url": url},
        "answers": {"generators": ["openai/sim-tiny", "google/sim-medium"]},
        "teacher": "openai/sim-teacher",
        "judges": ["anthropic/sim-judge-a", "google/sim-judge-b"],
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values | changes))
    return path


def build_without_prefect(config: Config, folder: Path, *, retry: Retry | None = None, wait: bool = True) -> Workspace:
    """The whole pipeline in this process. Raises what ``build`` raises."""
    place = Workspace(folder)

    async def all_of_it() -> None:
        async with open_run(config, place, config, Progress("test"), stage_of, retry=retry, wait=wait) as run:
            await build(run, do_batch, do_step)

    with place.lock():
        place.claim(config.name, simulated=config.simulated)
        if not questions.stands(place, config):
            questions.read_questions(place, config)
        asyncio.run(all_of_it())
    return place


def load(path: Path, *overrides: str) -> Config:
    return load_config(path, list(overrides))


@dataclass
class Ended:
    returncode: int
    stdout: str
    stderr: str


def criticgen(*arguments: str | Path, env: dict[str, str] | None = None) -> Ended:
    """The command in this process: for all that ends before a flow runs."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    argv = ["criticgen", *map(str, arguments)]
    code: object = 0
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "200"} | (env or {})),
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Ended(code if isinstance(code, int) else 0, stdout, stderr)


def criticgen_process(*arguments: str | Path, env: dict[str, str] | None = None) -> Ended:
    """The command in a process of its own, for a flow to run: Prefect reads its environment when it is imported."""
    command = [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "200"} | (env or {})
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def tables_of(place: Workspace) -> dict[str, pl.DataFrame]:
    """Every table, sorted, without what differs between two runs of the same work."""
    return {name: place.read_table(name).drop(PASSING, strict=False).sort(pl.all().exclude("votes")) for name in TABLES}


def differing_tables(one: Workspace, other: Workspace) -> list[str]:
    """The tables that differ in more than when, how often and in which vendor batch they were asked for."""
    left, right = (
        {name: table.drop("vendor_batch", strict=False) for name, table in tables_of(place).items()}
        for place in (one, other)
    )
    return [name for name in left if not left[name].equals(right[name])]

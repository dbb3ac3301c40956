"""kill -9 anywhere: the same command goes on, nothing kept is lost, and only what was in flight is asked twice."""

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from books import Books
from killing import KILLED, Fall, Runs, runs
from pipeline import Simulator, differing_tables

from storage.workspace import Workspace
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]
Moment = Fall | Callable[[], bool]  # in the run itself, or as seen from outside

CONCURRENCY = 6
MODELS = 5
ONLINE = {"limits": {"default": {"max_concurrency": CONCURRENCY}}}
BATCH = {"transport": {"default": "batch"}, "batch_poll_s": 0.05}
KNOBS = {"latency_s": 0, "latency_jitter_s": 0, "batch_s": 0.1, "batch_lost": 0}

# Where a run falls, and up to which of the calls of that function.
WRITING = {
    "os:fsync": 50,
    "pathlib:Path.rename": 20,
    "pathlib:Path.unlink": 12,
    "tasks.calls:Caller.keep": 60,
    "storage.ledger:write_parquet": 4,
    "storage.workspace:Workspace.write_table": 6,
    "storage.workspace:Workspace.write_manifest": 4,
}
STEPS = {
    "tasks.curation:run_step": 5,
    "tasks.consensus:consensus": 3,
    "tasks.near_duplicates:near_duplicates": 2,
    "tasks.diversity:diversity": 1,
    "tasks.split:split": 1,
    "tasks.export:_write_jsonl": 4,
}
CREATING = {
    "tasks.models.batch_openai:OpenAIBatches.create": 2,
    "tasks.models.batch_anthropic:AnthropicBatches.create": 1,
    "tasks.models.batch_google:GoogleBatches.create": 1,
}
BATCHING = {
    "tasks.vendor_batches:save_calls": 2,
    "tasks.vendor_batches:save_state": 6,
    "tasks.vendor_batches:Desk._collect": 2,
    "tasks.vendor_batches:Desk._keep_result": 20,
    "tasks.calls:Caller.keep": 30,
    "os:fsync": 25,
    "storage.ledger:write_parquet": 2,
}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs(tmp_path_factory.mktemp("runs")) as started:
        yield started


@pytest.fixture(autouse=True)
def knobs(simulator: Simulator) -> Iterator[None]:
    simulator.post("knobs", KNOBS)
    yield
    simulator.post("knobs", KNOBS)


def falls(rng: random.Random, places: dict[str, int], number: int) -> list[Fall]:
    chosen = rng.choices(list(places), k=number) if number > len(places) else rng.sample(list(places), number)
    return [Fall(place, rng.randint(1, places[place]), rng.random() < 0.5) for place in chosen]


def live(forked: Runs, config: Path, root: Path, moment: Moment | None, *overrides: str) -> int | None:
    """One run, to its end or to its moment."""
    forked.start(config, root, *overrides, fall=moment if isinstance(moment, Fall) else None)
    if callable(moment):
        while not moment() and forked.ended() is None:
            time.sleep(0.002)
        return forked.kill()
    return forked.wait()


def calls_more(simulator: Simulator, number: int) -> Moment:
    enough = simulator.calls() + number
    return lambda: simulator.calls() >= enough


def batches_more(simulator: Simulator, number: int, seconds: float) -> Moment:
    enough = simulator.get("stats")["batches"]["created"] + number

    def reached() -> bool:
        if simulator.get("stats")["batches"]["created"] < enough:
            return False
        time.sleep(seconds)
        return True

    return reached


def check_end(books: Books, finished: Path) -> tuple[int, int]:
    place = Workspace(books.root)
    assert differing_tables(Workspace(finished), place) == []
    assert reconciles(status(place))
    return books.check_end()


@pytest.mark.slow
def test_kills_while_calls_are_made_online(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator, forked: Runs
) -> None:
    rng = random.Random(20261201)
    kills = served = twice = most = 0
    for number in range(2):
        simulator.post("reset")
        simulator.post("knobs", {"latency_s": 0.004, "latency_jitter_s": 0.02})
        config, books = config_file(**ONLINE), Books(simulator, tmp_path / f"w{number}", CONCURRENCY * MODELS)
        moments: list[Moment | None] = [*falls(rng, WRITING, 8), *[None] * 4]
        rng.shuffle(moments)
        for moment in [*moments, *falls(rng, STEPS, 3)]:
            if live(forked, config, books.root, moment or calls_more(simulator, rng.randint(1, 60))) == KILLED:
                books.check_kill()
        assert live(forked, config, books.root, None) == 0, forked.log.read_text()
        calls, again = check_end(books, finished)
        kills, served, twice = kills + books.kills, served + calls, twice + again
        most = max(most, books.most_lost)
    print(f"online: {kills} kills, {served} calls served, {twice} of them twice (at most {most} for one kill)")
    assert kills >= 25

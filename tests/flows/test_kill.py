"""kill -9 anywhere: the same command goes on, nothing kept is lost, and only what was in flight is asked twice."""

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from books import Books
from killing import KILLED, Fall, Runs, Seen, runs
from pipeline import Simulator, differing_tables
from priced import SMALL, billed

from storage.vendor_batches import load_batches
from storage.workspace import Workspace
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]
Moment = tuple[Fall | None, Seen | None]  # what comes first of the two
Places = dict[str, int]  # a function where a run falls, and up to which of its calls

CONCURRENCY = 6
MODELS = 5
ONLINE = {"limits": {"default": {"max_concurrency": CONCURRENCY}}}
BATCH = {"transport": {"default": "batch"}, "batch_poll_s": 0.05}
KNOBS = {"latency_s": 0, "latency_jitter_s": 0, "batch_s": 0.1, "batch_lost": 0}
SLOWLY = {"latency_s": 0.004, "latency_jitter_s": 0.02}

WRITING: Places = {
    "os:fsync": 8,
    "pathlib:Path.rename": 8,
    "pathlib:Path.unlink": 4,
    "tasks.calls:Caller.keep": 8,
    "storage.ledger:write_parquet": 1,
    "storage.workspace:Workspace.write_table": 2,
    "storage.workspace:Workspace.write_manifest": 2,
}
BATCHING: Places = {
    "tasks.vendor_batches:save_calls": 1,
    "tasks.vendor_batches:save_state": 3,
    "tasks.vendor_batches:Desk._collect": 1,
    "tasks.vendor_batches:Desk._keep_result": 6,
    "tasks.calls:Caller.keep": 6,
    "os:fsync": 12,
}
CREATING = {
    "google": "tasks.models.batch_google:GoogleBatches",
    "openai": "tasks.models.batch_openai:OpenAIBatches",
    "anthropic": "tasks.models.batch_anthropic:AnthropicBatches",
}
STEPS: Places = {
    "tasks.consensus:consensus": 3,
    "tasks.near_duplicates:near_duplicates": 2,
    "tasks.diversity:diversity": 1,
    "tasks.split:split": 1,
    "tasks.export:_version": 1,
}
SPENDING: Places = {"tasks.budget:write_bytes": 2, "tasks.calls:Caller.keep": 4, "os:fsync": 6}
SPENDING_IN_BATCHES: Places = {
    "tasks.budget:write_bytes": 1,
    "tasks.vendor_batches:save_state": 3,
    "tasks.vendor_batches:Desk._collect": 1,
    "tasks.calls:Caller.keep": 4,
    "os:fsync": 6,
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


def falls(rng: random.Random, places: Places, number: int, *, kept: int = 0) -> list[Fall]:
    """Falls at some of the places, in their order, each after up to so many answers."""
    chosen = sorted(rng.sample(range(len(places)), number))
    return [
        Fall(place, rng.randint(1, most), rng.random() < 0.5, rng.randint(0, kept))
        for place, most in (list(places.items())[at] for at in chosen)
    ]


def kill_and_finish(forked: Runs, config: Path, books: Books, moments: Sequence[Moment], finished: Path) -> None:
    """Runs that end at these moments, then one that ends by itself."""
    for fall, seen in moments:
        if forked.live(config, books.root, books.simulator, fall, seen) == KILLED:
            books.check_kill()
    assert forked.live(config, books.root, books.simulator, None, None) == 0, forked.log.read_text()
    check_end(books, finished)


def check_end(books: Books, finished: Path) -> None:
    place = Workspace(books.root)
    assert differing_tables(Workspace(finished), place) == []
    assert reconciles(status(place))
    books.check_end()


@pytest.mark.slow
def test_kills_while_calls_are_made_online(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator, forked: Runs
) -> None:
    rng = random.Random(20261201)
    config, books = config_file(**ONLINE), [Books(simulator, tmp_path / f"w{n}", CONCURRENCY * MODELS) for n in (0, 1)]
    simulator.post("knobs", SLOWLY)
    for book in books:
        simulator.post("reset")
        early = [(fall, Seen(calls=55)) for fall in falls(rng, WRITING, len(WRITING), kept=40)]
        early += [(None, Seen(calls=rng.randint(1, 55))) for _ in range(4)]
        rng.shuffle(early)
        kill_and_finish(forked, config, book, [*early, *((fall, None) for fall in falls(rng, STEPS, 3))], finished)
    assert report("online", books) >= 25


@pytest.mark.slow
def test_kills_while_vendor_batches_run(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator, forked: Runs
) -> None:
    rng = random.Random(20261202)
    config, books = config_file(**BATCH), [Books(simulator, tmp_path / f"w{n}", 0) for n in (0, 1)]
    for book, lost in zip(books, (0, 1), strict=True):
        simulator.post("reset")
        simulator.post("knobs", {"batch_lost": lost})
        google, openai, anthropic = (Fall(f"{CREATING[vendor]}.create", 1, rng.random() < 0.5) for vendor in CREATING)
        early = [
            (fall, Seen(batches=rng.randint(1, 3), seconds=rng.uniform(0, 0.2))) for fall in falls(rng, BATCHING, 6)
        ]
        late = [(anthropic, None), *early[4:], *((fall, None) for fall in falls(rng, STEPS, 1))]
        kill_and_finish(forked, config, book, [(google, None), (openai, None), *early[:4], *late], finished)
        assert {batch.model.partition("/")[0] for batch in load_batches(book.root)} == set(CREATING)
    assert report("vendor batches", books) >= 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "of_price", "in_flight", "places", "kept"),
    [({}, 1.0, 4 * 2, SPENDING, 5), (BATCH, 0.5, 0, SPENDING_IN_BATCHES, 0)],
    ids=["online", "batch"],
)
def test_a_budget_holds_over_all_kills(
    tmp_path: Path,
    config_file: ConfigFile,
    simulator: Simulator,
    forked: Runs,
    transport: dict[str, Any],
    of_price: float,
    in_flight: int,
    places: Places,
    kept: int,
) -> None:
    rng = random.Random(20261203)
    config = config_file(**SMALL | transport, limits={"default": {"max_concurrency": 2}})
    assert forked.live(config, tmp_path / "whole", simulator, None, None) == 0
    whole = billed(simulator, of_price=of_price)
    books = [Books(simulator, tmp_path / f"w{n}", in_flight) for n in range(3)]
    reached = 0
    for book, budget in zip(books, (0.8 * whole, 3 * whole, 6 * whole), strict=True):
        simulator.post("reset")
        for fall in [*falls(rng, places, 3, kept=kept), None]:
            status = forked.live(config, book.root, simulator, fall, None, f"budget_usd={budget}")
            assert billed(simulator, of_price=of_price) <= budget
            if status == KILLED:
                book.check_kill()
            reached += status == 1
        assert forked.live(config, book.root, simulator, None, None, "budget_usd=100") == 0, forked.log.read_text()
        check_end(book, tmp_path / "whole")
    assert reached > 0
    assert report(f"budgets, {of_price}", books) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "moments", "in_flight"),
    [
        (ONLINE, [Seen(calls=20), Seen(calls=60)], CONCURRENCY * MODELS),
        (BATCH, [Seen(batches=2, seconds=0.2)], 0),
    ],
    ids=["online", "batch"],
)
def test_kills_of_the_command_under_prefect(
    tmp_path: Path,
    config_file: ConfigFile,
    simulator: Simulator,
    forked: Runs,
    prefect_url: str,
    transport: dict[str, Any],
    moments: list[Seen],
    in_flight: int,
) -> None:
    config, book = config_file(**transport, limit=2), Books(simulator, tmp_path / "w", in_flight)
    assert forked.live(config_file("plain", limit=2), tmp_path / "finished", simulator, None, None) == 0
    simulator.post("reset")
    simulator.post("knobs", {"latency_s": 0.03})
    command = [sys.executable, "-c", "from flows.cli import main; main()", "run", config, "--workspace", book.root]
    env = os.environ | {"PREFECT_API_URL": prefect_url}
    for moment in moments:
        reached = moment.watch(simulator)
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            while not reached() and process.poll() is None:
                time.sleep(0.005)
            process.kill()
        book.check_kill()
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    check_end(book, tmp_path / "finished")
    assert running_over(prefect_url, book.root) == 0
    report("the command", [book])


def running_over(url: str, workspace: Path) -> int:
    """Flow runs that Prefect still takes for alive."""
    body = json.dumps({"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}).encode()
    request = urllib.request.Request(f"{url}/flow_runs/filter", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return sum(run["parameters"].get("workspace") == str(workspace) for run in json.load(response))


def report(what: str, books: Sequence[Books]) -> int:
    kills = sum(book.kills for book in books)
    served, twice = sum(book.answers for book in books), sum(book.lost.total() for book in books)
    print(f"{what}: {kills} kills, {served} calls served, {twice} of them a second time", end="")
    print(f" (at most {max(book.most_lost for book in books)} for one kill)" if twice else "")
    return kills

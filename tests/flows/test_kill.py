"""kill -9 in every stage: the same command goes on, nothing is lost, and only what was in flight is asked twice."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pipeline import Simulator, tables_of

from storage.workspace import Workspace
from tasks.status import reconciles, status

CONCURRENCY = 8
STAGES = [
    "answers pool",
    "rubrics pool",
    "trajectories pool",
    "coverage 1",
    "rubrics 1",
    "trajectories 1",
    "judges all",
]
STEPS = ["consensus", "split"]


def moments(calls: pl.DataFrame) -> list[int]:
    """The number of calls answered at the middle of each stage, when shards do not overlap."""
    part = pl.col("batch").str.split(" ").list.last().str.strip_prefix("coverage-")
    counts = dict(calls.group_by(pl.concat_str("stage", pl.lit(" "), part).alias("stage")).len().iter_rows())
    before, found = 0, []
    for stage in STAGES:
        found.append(before + counts[stage] // 2)
        before += counts[stage]
    return found


def running_over(url: str, workspace: Path) -> int:
    """Flow runs that Prefect still takes for alive."""
    body = json.dumps({"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}).encode()
    request = urllib.request.Request(f"{url}/flow_runs/filter", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return sum(run["parameters"].get("workspace") == str(workspace) for run in json.load(response))


@pytest.mark.slow
def test_kill_9_in_each_stage_then_the_same_command(
    finished: Path,
    tmp_path: Path,
    config_file: Callable[..., Path],
    simulator: Simulator,
    prefect_url: str,
) -> None:
    path = config_file(shard_size=6, limits={"default": {"max_concurrency": CONCURRENCY}})
    place = tmp_path / "w"
    command = [sys.executable, "-c", "from flows.cli import main; main()", "run", str(path), "--workspace", str(place)]
    simulator.post("knobs", {"latency_s": 0.03})

    def run_until(reached: Callable[[], bool]) -> None:
        with subprocess.Popen(
            command, env=os.environ | {"PREFECT_API_URL": prefect_url}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            while not reached() and process.poll() is None:
                time.sleep(0.005)
            process.kill()

    answered_in_all = moments(Workspace(finished).read_table("calls"))
    for moment in answered_in_all:
        run_until(lambda moment=moment: len(simulator.answered()) >= moment)  # type: ignore[misc]
    for step in STEPS:
        run_until(lambda step=step: (place / "manifests" / f"{step}.json").exists())  # type: ignore[misc]
    ended = subprocess.run(command, env=os.environ | {"PREFECT_API_URL": prefect_url}, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()

    undisturbed, after = tables_of(Workspace(finished)), tables_of(Workspace(place))
    shard = ("shard", "batch")
    for name, table in undisturbed.items():
        left, right = (
            frame.drop(shard, strict=False).sort(pl.all().exclude("votes")) for frame in (table, after[name])
        )
        assert left.equals(right), name
    assert reconciles(status(Workspace(place)))
    answered = simulator.answered()
    twice = sum(times - 1 for times in answered.values())
    kills = len(answered_in_all) + len(STEPS)
    print(f"{kills} kills; {sum(answered.values())} calls answered, {twice} of them a second time")
    assert running_over(prefect_url, place) == 0
    assert set(answered) == set(after["calls"]["call_id"])
    assert twice <= CONCURRENCY * (2 + 5 + 2)  # two generators, two judges, else the teacher alone
    assert max(answered.values()) <= 2

"""What Prefect has on record of a run: the flow, a task run for each batch, their counts, their failures."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import Simulator, criticgen_process

ConfigFile = Callable[..., Path]


def asked(url: str, what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    request = urllib.request.Request(
        f"{url}/{what}/filter", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        found: list[dict[str, Any]] = json.load(response)
    return found


def run_of(url: str, name: str) -> dict[str, Any]:
    (flow_run,) = asked(url, "flow_runs", {"flow_runs": {"name": {"any_": [name]}}})
    return flow_run


def task_runs_of(url: str, flow_run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    from flows.server import wait_recorded

    assert wait_recorded(url, flow_run["id"])
    found = asked(url, "task_runs", {"flow_runs": {"id": {"any_": [flow_run["id"]]}}})
    return {task_run["name"]: task_run for task_run in found}


def test_a_run_shows_its_batches_with_their_counts(tmp_path: Path, config_file: ConfigFile, prefect_url: str) -> None:
    path = config_file(name="shown", limit=2)
    path.write_text(path.read_text().replace("name: made\n", "name: shown\n", 1))
    ended = criticgen_process("run", path, "--workspace", tmp_path / "w", env={"PREFECT_API_URL": prefect_url})
    assert ended.returncode == 0, ended.stderr
    flow_run = run_of(prefect_url, "shown")
    assert flow_run["state_type"] == "COMPLETED"
    task_runs = task_runs_of(prefect_url, flow_run)
    stages = ["answers pool", "rubrics pool", "trajectories pool", "coverage coverage-1"]
    stages += ["rubrics coverage-1", "trajectories coverage-1", "judges all"]
    batches = {"{} made-0000 {}".format(*stage.split()) for stage in stages}
    steps = {"questions", "consensus", "near_duplicates", "diversity", "split", "export"}
    assert set(task_runs) == batches | steps
    assert task_runs["answers made-0000 pool"]["state"]["message"] == "answers made-0000 pool: 4 of 4 ok"
    assert set(task_runs["answers made-0000 pool"]["tags"]) == {"answers", "shown"}
    artifacts = asked(prefect_url, "artifacts", {"artifacts": {"key": {"like_": "shown-answers%"}}})
    assert {artifact["type"] for artifact in artifacts} == {"table", "progress", "markdown"}


def test_a_batch_with_too_many_failures_ends_red_and_says_why(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, prefect_url: str
) -> None:
    simulator.post("knobs", {"fault_refusal": 0.6})
    path = config_file(limit=2)
    path.write_text(path.read_text().replace("name: made\n", "name: red\n", 1))
    ended = criticgen_process("run", path, "--workspace", tmp_path / "w", env={"PREFECT_API_URL": prefect_url})
    assert ended.returncode == 1
    assert "ended red" in ended.stderr
    assert "refused" in ended.stderr
    assert "Traceback" not in ended.stderr
    flow_run = run_of(prefect_url, "red")
    assert flow_run["state_type"] == "FAILED"
    failed = [run for run in task_runs_of(prefect_url, flow_run).values() if run["state_type"] == "FAILED"]
    assert failed
    assert all("failed (refused" in run["state"]["message"] for run in failed)


def test_a_run_without_a_server_starts_one_of_its_own_and_ends_it(tmp_path: Path, config_file: ConfigFile) -> None:
    ended = criticgen_process("run", config_file(limit=1), "--workspace", tmp_path / "w", env={"PREFECT_API_URL": ""})
    assert ended.returncode == 0, ended.stderr
    assert "may lack" not in ended.stderr
    assert (tmp_path / "w" / "prefect" / "prefect.db").exists()
    assert criticgen_process("run", config_file(limit=1), "--workspace", tmp_path / "w").stdout.startswith(
        "Nothing to do"
    )

"""What Prefect has on record of a run: the flow, a task run for each batch, their counts, their failures."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import Simulator, criticgen, criticgen_process

from storage.workspace import Workspace
from tasks.status import reconciles, status

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


# What the button in the UI and a worker do, in one process.
RETRY = """
import asyncio, sys
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.states import Scheduled
from flows.build import build_dataset

async def retry(flow_run_id):
    async with get_client() as client:
        await client.set_flow_run_state(flow_run_id, Scheduled(), force=True)
        flow_run = await client.read_flow_run(flow_run_id)
    await run_flow(build_dataset, flow_run=flow_run, parameters=flow_run.parameters, return_type="state")

asyncio.run(retry(sys.argv[1]))
"""


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
    assert set(task_runs["answers made-0000 pool"]["tags"]) == {
        "answers", "shown", "openai/sim-tiny", "google/sim-medium"
    }  # fmt: skip
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


def test_what_failed_is_listed_and_retried_by_command_and_by_prefect(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, prefect_url: str
) -> None:
    env, root = {"PREFECT_API_URL": prefect_url}, tmp_path / "w"
    simulator.post("knobs", {"fault_refusal": 0.3})
    path = config_file(limit=2)
    path.write_text(path.read_text().replace("name: made\n", "name: again\n", 1))
    assert criticgen_process("run", path, "--workspace", root, env=env).returncode == 1
    (group,) = json.loads(criticgen("failures", "--workspace", root, "--json").stdout)
    assert (group["class"], group["calls"]) == ("refused", group["attempts"])
    assert group["examples"][0]["error"].startswith("refused")
    shown = criticgen("failures", "--workspace", root, "--class", "refused").stdout
    assert group["examples"][0]["call_id"] in shown
    assert criticgen("failures", "--workspace", root, "--stage", "judges").stdout == "No call has failed.\n"

    simulator.post("knobs", {"fault_refusal": 0})
    answered = set(simulator.answered())
    refused = {call["call_id"] for call in Workspace(root).read_table("calls").filter(outcome="refused").to_dicts()}
    simulator.post("reset")
    flow_run = run_of(prefect_url, "again")
    command = [sys.executable, "-c", RETRY, flow_run["id"]]
    ended = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert run_of(prefect_url, "again")["state_type"] == "COMPLETED"
    assert refused <= set(simulator.answered())
    assert set(simulator.answered()) & answered <= refused
    assert set(simulator.answered().values()) == {1}
    assert reconciles(status(Workspace(root)))
    assert criticgen_process("retry", "--workspace", root, env=env).stdout.startswith("Nothing to do")


def test_a_run_without_a_server_starts_one_of_its_own_and_ends_it(tmp_path: Path, config_file: ConfigFile) -> None:
    ended = criticgen_process("run", config_file(limit=1), "--workspace", tmp_path / "w", env={"PREFECT_API_URL": ""})
    assert ended.returncode == 0, ended.stderr
    assert "may lack" not in ended.stderr
    assert (tmp_path / "w" / "prefect" / "prefect.db").exists()
    assert criticgen_process("run", config_file(limit=1), "--workspace", tmp_path / "w").stdout.startswith(
        "Nothing to do"
    )

"""Scheduled, retried, killed: a real Prefect server with the deployments and a worker."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pipeline import Simulator, write_config
from prefect_api import asked, start, state_of, wait_for

from flows.processes import python_module
from storage.workspace import Workspace
from tasks.status import reconciles, status

pytestmark = pytest.mark.slow
# Beside the tests' own: with PostgreSQL several workers share the server.
WORKERS = "1" if "PREFECT_API_DATABASE_CONNECTION_URL" in os.environ else "0"


@dataclass
class Serving:
    url: str
    folder: Path
    process: "subprocess.Popen[str]"

    def config(self, simulator: Simulator, name: str, **changes: Any) -> str:
        folder = self.folder / name
        folder.mkdir()
        path = write_config(folder, simulator.url, **changes)
        path.write_text(path.read_text().replace("name: made\n", f"name: {name}\n", 1))
        return str(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with python_module("deployments.simulator", "--port", "0") as process:
        assert process.stdout is not None
        yield Simulator(json.loads(process.stdout.readline())["url"])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("serve")
    options = ["--port", str(free_port()), "--dashboard-port", str(free_port()), "--workers", WORKERS]
    with subprocess.Popen(
        [sys.executable, "-m", "deployments.serve", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = next(line.partition("PREFECT_API_URL=")[2].strip() for line in process.stdout if "export" in line)
        yield Serving(url, folder, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


@contextmanager
def worker(serving: Serving) -> Iterator["subprocess.Popen[bytes]"]:
    env = os.environ | {
        "PREFECT_API_URL": serving.url,
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "CRITICGEN_DASHBOARD_URL": "http://127.0.0.1:8501",
    }
    arguments = ["prefect", "worker", "start", "--pool", "criticgen", "--install-policy", "never"]
    with (serving.folder / "worker.log").open("wb") as log, python_module(*arguments, env=env, log=log) as process:
        yield process


def test_the_deployments_are_there_with_schedules_limits_and_forms(serving: Serving) -> None:
    found = {one["name"]: one for one in asked(serving.url, "deployments/filter", {})}
    assert {name: [s["schedule"]["cron"] for s in one["schedules"]] for name, one in found.items()} == {
        "build-dataset": ["0 3 * * 1"],
        "retry-failed": ["30 * * * *"],
        "collect-batches": ["*/10 * * * *"],
        "curate": [],
    }
    for one in found.values():
        assert one["global_concurrency_limit"]["limit"] == 1
        assert one["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        assert all(schedule["schedule"]["timezone"] == "Europe/Berlin" for schedule in one["schedules"])
    form = found["build-dataset"]["parameter_openapi_schema"]
    sections = form["definitions"]
    assert all("description" in field for field in form["properties"].values())
    assert all("description" in field for field in sections["Limits"]["properties"].values())
    assert "key_env" in sections["Endpoint"]["properties"]
    assert not [name for section in sections.values() for name in section.get("properties", {}) if name.endswith("key")]


def test_a_red_run_is_made_green_by_retry_and_an_overlapping_run_is_cancelled(
    serving: Serving, simulator: Simulator
) -> None:
    with worker(serving):
        simulator.post("knobs", {"fault_refusal": 0.5, "latency_s": 0.3})
        config, root = serving.config(simulator, "weekly", limit=2), serving.folder / "workspaces" / "weekly"
        first = start(serving.url, "build-dataset", config=config, workspace="workspaces/weekly")
        wait_for(serving.url, first, "RUNNING")
        second = start(serving.url, "build-dataset", config=config, workspace="workspaces/weekly")
        assert wait_for(serving.url, second)[0] == "CANCELLED"
        kind, _, message = wait_for(serving.url, first)
        assert kind == "FAILED"
        assert "failed (refused" in message
        assert asked(serving.url, f"flow_runs/{first}")["name"] == "weekly"

        simulator.post("knobs", {"fault_refusal": 0, "latency_s": 0})
        answered = set(Workspace(root).read_table("calls").filter(outcome="ok")["call_id"])
        simulator.post("reset")
        again = start(serving.url, "retry-failed", workspace="workspaces/weekly")
        assert wait_for(serving.url, again)[0] == "COMPLETED"
        assert not answered & set(simulator.answered())
        assert reconciles(status(Workspace(root)))
        events = {event["event"] for event in events_of(serving.url)}
        assert events >= {"criticgen.batch.failed", "criticgen.run.finished"}
        keys = {one["key"] for one in asked(serving.url, "artifacts/filter", {})}
        assert {"weekly-answers-counts", "weekly-answers-progress", "weekly-funnel", "weekly-dashboard"} <= keys

        idle = start(serving.url, "retry-failed", workspace="workspaces/weekly")
        assert wait_for(serving.url, idle)[:2] == ("COMPLETED", "NothingToDo")
        curated = start(serving.url, "curate", workspace="workspaces/weekly", near_duplicates={"threshold": 0.1})
        assert wait_for(serving.url, curated)[0] == "COMPLETED"
        dropped = Workspace(root).read_table("near_duplicates").filter(kept=False)
        assert len(dropped) > 10
        assert reconciles(status(Workspace(root)))


def test_a_run_whose_worker_was_killed_is_ended_by_the_next(serving: Serving, simulator: Simulator) -> None:
    simulator.post("reset")
    simulator.post("knobs", {"latency_s": 0.5})
    config, root = serving.config(simulator, "killed", limit=1), serving.folder / "workspaces" / "killed"
    dead = start(serving.url, "build-dataset", config=config, workspace="workspaces/killed")
    with worker(serving) as process:
        while simulator.calls() < 4:
            assert state_of(serving.url, dead)[0] not in ("FAILED", "CRASHED")
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(holder_of(root), signal.SIGKILL)
    simulator.post("knobs", {"latency_s": 0})
    assert state_of(serving.url, dead)[0] in ("RUNNING", "CRASHED")  # the other worker, where there is one, reports it
    with worker(serving):
        # The dead run still holds its deployment's one place; the next of another deployment ends it.
        ended = start(serving.url, "retry-failed", workspace="workspaces/killed")
        assert wait_for(serving.url, ended)[0] == "COMPLETED"
    assert state_of(serving.url, dead)[0] == "CRASHED"
    assert reconciles(status(Workspace(root)))


def holder_of(root: Path) -> int:
    """The process that has the workspace's lock."""
    return int((root / "lock").read_text().split()[1])


def events_of(url: str) -> list[dict[str, Any]]:
    wanted = {"filter": {"event": {"prefix": ["criticgen."]}}}
    found: list[dict[str, Any]] = asked(url, "events/filter", wanted)["events"]
    return found

"""What the dashboard asks of Prefect's server: the last runs, a retry, a pause. Prefect itself is not imported."""

import base64
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson

from storage.errors import UserError
from storage.workspace import Workspace

FLOWS = ("build-dataset", "retry-failed", "collect-batches")
RETRY = "retry-failed"
LAST_RUNS = 8
TIMEOUT_S = 3.0

Run = dict[str, Any]


class PrefectError(UserError):
    """Prefect's server cannot do what was asked; the message says why and what to do."""


class Prefect:
    """The server that PREFECT_API_URL names, or the one that a run of this workspace has started for itself."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @property
    def api(self) -> str | None:
        if url := os.environ.get("PREFECT_API_URL"):
            return url.rstrip("/")
        try:
            return (self._workspace.root / "prefect" / "address").read_text().strip() or None
        except OSError:
            return None

    def ui(self, flow_run: str) -> str:
        base = os.environ.get("PREFECT_UI_URL") or (self.api or "").removesuffix("/api")
        return f"{base.rstrip('/')}/runs/flow-run/{flow_run}"

    def last_runs(self) -> list[Run]:
        """The newest flow runs over this workspace: name, flow, state, its message, start, seconds, link."""
        flows = {"name": {"any_": list(FLOWS)}}
        body = {"flows": flows, "sort": "EXPECTED_START_TIME_DESC", "limit": 100}
        found = [run for run in self._ask("POST", "/flow_runs/filter", body) if self._is_ours(run)]
        return [
            {
                "id": run["id"],
                "name": run["name"],
                "state": (run.get("state") or {}).get("name") or run.get("state_type"),
                "type": run.get("state_type"),
                "message": (run.get("state") or {}).get("message"),
                "began": run.get("start_time") or run.get("expected_start_time"),
                "seconds": run.get("total_run_time"),
                "deployed": run.get("deployment_id") is not None,
                "link": self.ui(run["id"]),
            }
            for run in found[:LAST_RUNS]
        ]

    def retry(self, **asked: str | None) -> str:
        """Start the deployment of ``retry-failed`` over this workspace; the new flow run's link."""
        deployments = self._deployments([RETRY])
        if not deployments:
            raise PrefectError(
                f"{self.api} has no deployment of the flow {RETRY}. `prefect deploy` makes it "
                "(deployments/prefect.yaml), and a worker runs it"
            )
        parameters = {"workspace": str(self._workspace.root.resolve())}
        parameters |= {name: value for name, value in asked.items() if value}
        run = self._ask("POST", f"/deployments/{deployments[0]['id']}/create_flow_run", {"parameters": parameters})
        return self.ui(run["id"])

    def pause(self) -> str:
        """End this workspace's runs, so that they can go on later, and pause the schedules; in words what was done."""
        running = [run for run in self.last_runs() if run["type"] in ("RUNNING", "PENDING", "SCHEDULED")]
        for run in (run for run in running if run["deployed"]):
            state = {"type": "CANCELLING", "message": "Paused from the dashboard; what is answered is kept."}
            self._ask("POST", f"/flow_runs/{run['id']}/set_state", {"state": state, "force": False})
        deployments = [found for found in self._deployments(FLOWS) if self._is_ours(found)]
        for deployment in deployments:
            self._ask("PATCH", f"/deployments/{deployment['id']}", {"paused": True})
        asked = sum(run["deployed"] for run in running)
        said = [f"{asked} runs are being ended by their worker", f"{len(deployments)} schedules are paused"]
        if left := [run["name"] for run in running if not run["deployed"]]:
            said.append(f"started from a command line, and to be stopped there by Ctrl-C: {', '.join(left)}")
        return "; ".join(said)

    def _deployments(self, flows: "list[str] | tuple[str, ...]") -> list[dict[str, Any]]:
        body = {"flows": {"name": {"any_": list(flows)}}, "limit": 50}
        found: list[dict[str, Any]] = self._ask("POST", "/deployments/filter", body)
        return sorted(found, key=lambda deployment: deployment["name"] != RETRY)

    def _is_ours(self, found: dict[str, Any]) -> bool:
        """A flow run's or a deployment's parameters name this workspace."""
        given = (found.get("parameters") or {}).get("workspace")
        return given is not None and Path(str(given)).resolve() == self._workspace.root.resolve()

    def _ask(self, method: str, path: str, body: Any) -> Any:
        if self.api is None:
            raise PrefectError(
                "No Prefect server is set: start the dashboard with PREFECT_API_URL to retry and pause from here, or "
                "type `criticgen retry`"
            )
        headers = {"Content-Type": "application/json"}
        if login := os.environ.get("PREFECT_API_AUTH_STRING"):
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        elif key := os.environ.get("PREFECT_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(f"{self.api}{path}", orjson.dumps(body), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                data = response.read()
        except urllib.error.HTTPError as error:
            raise PrefectError(f"{self.api}{path}: Prefect says {error.code} {error.reason}") from None
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise PrefectError(f"Prefect's server at {self.api} does not answer ({error})") from None
        return orjson.loads(data) if data else None

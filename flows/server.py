"""A real Prefect server for a local run. The ephemeral mode loses history, so it is never used."""

import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from flows.processes import python_module
from storage.errors import UserError

START_S = 120.0
RECORD_S = 60.0
REST_S = 2.5  # longer than the recorder's flush interval


# Of a server of our own; each can be set otherwise in the environment.
SETTINGS = {
    "PREFECT_SERVER_UI_API_URL": "/api",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # its bundle asks an outside host
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # One write for a hundred task runs instead of one each.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # Flow runs are kept for 90 days, events for 7.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
}


class ServerError(UserError):
    """The Prefect server did not start."""


@contextmanager
def prefect_server(folder: Path) -> Iterator[str]:
    """The address of the server that PREFECT_API_URL names, or of one of our own with its history in ``folder``.

    Sets the environment that Prefect reads when it is imported: import it inside the context.
    """
    quiet = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    os.environ |= {name: value for name, value in quiet.items() if name not in os.environ} | {"DO_NOT_TRACK": "1"}
    if url := os.environ.get("PREFECT_API_URL"):
        _reach(url)
        yield url
        return
    os.environ.pop("PREFECT_API_URL", None)  # an empty one is none
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with own_server(folder, port) as url:
        yield url


@contextmanager
def own_server(folder: Path, port: int) -> Iterator[str]:
    """A server of our own on 127.0.0.1; while it is open, PREFECT_API_URL and PREFECT_HOME are its.

    Its history is in ``folder``, or where PREFECT_API_DATABASE_CONNECTION_URL says (PostgreSQL, for a team).
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PREFECT_HOME"] = str(folder.resolve())
    url = f"http://127.0.0.1:{port}/api"
    env = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder.resolve()}/prefect.db"}
    with (folder / "server.log").open("wb") as log:
        arguments = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        with python_module(*arguments, env=env | SETTINGS | os.environ, log=log) as process:
            _wait(url, process, folder / "server.log")
            os.environ["PREFECT_API_URL"] = url
            (folder / "address").write_text(url)  # for the dashboard
            try:
                yield url
            finally:
                (folder / "address").unlink(missing_ok=True)
                del os.environ["PREFECT_API_URL"]


def _reach(url: str) -> None:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10):
            pass
    except urllib.error.HTTPError:
        pass  # it answers, if only that it wants to know who asks
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise ServerError(
            f"PREFECT_API_URL names {url}, which does not answer ({error}); "
            "start that server, or unset the variable and a run starts one of its own"
        ) from None


def _wait(url: str, process: Any, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise ServerError(f"the Prefect server did not start within {START_S:.0f} s; its log is {log}")


def wait_recorded(url: str, flow_run: UUID) -> bool:
    """Wait until the server's record of a flow run's task runs has come to rest: it writes them from a queue."""
    end, rest_since, seen = time.monotonic() + RECORD_S, time.monotonic(), (-1, -1)
    while time.monotonic() < end:
        counts = (_count(url, flow_run), _count(url, flow_run, "PENDING", "RUNNING"))
        if counts != seen or counts[1] != 0:
            seen, rest_since = counts, time.monotonic()
        elif time.monotonic() - rest_since > REST_S:
            return True
        time.sleep(0.25)
    return False


def _count(url: str, flow_run: UUID, *states: str) -> int:
    wanted = {"state": {"type": {"any_": list(states)}}} if states else {}
    body = orjson.dumps({"flow_runs": {"id": {"any_": [str(flow_run)]}}, "task_runs": wanted})
    request = urllib.request.Request(f"{url}/task_runs/count", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.read())
    except (urllib.error.URLError, OSError):
        return -1

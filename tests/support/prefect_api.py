"""Prefect's server as its pages see it: over HTTP."""

import json
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

ENDS = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


def asked(url: str, what: str, body: Any = None) -> Any:
    """The server's answer to a POST, or to a GET where there is no body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/{what}", data, {"Content-Type": "application/json"})
    for wait_s in (0.2, 0.5, 1, 2, 5):
        with suppress(BusyError):
            return _answer(request)
        time.sleep(wait_s)
    return _answer(request)


class BusyError(Exception):
    """The server answered 503: SQLite was locked by another writer. Prefect's own client asks again too."""


def _answer(request: urllib.request.Request) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 503:
            raise BusyError from error
        raise


def start(url: str, deployment: str, **parameters: Any) -> str:
    """A flow run of a deployment, as the button of the pages makes it; its id."""
    found = asked(url, f"deployments/name/{deployment}/{deployment}")
    body = {"parameters": found["parameters"] | parameters, "state": {"type": "SCHEDULED"}}
    flow_run: str = asked(url, f"deployments/{found['id']}/create_flow_run", body)["id"]
    return flow_run


def state_of(url: str, flow_run: str) -> tuple[str, str, str]:
    """Type, name and message of a flow run's state."""
    state = asked(url, f"flow_runs/{flow_run}")["state"]
    return state["type"], state["name"], state["message"] or ""


def wait_for(url: str, flow_run: str, *types: str, timeout_s: float = 120) -> tuple[str, str, str]:
    """The flow run's state once it is of one of these types, an end where none is named."""
    end = time.monotonic() + timeout_s
    while (state := state_of(url, flow_run))[0] not in (types or ENDS):
        assert time.monotonic() < end, f"still {state} after {timeout_s} s"
        time.sleep(0.2)
    return state

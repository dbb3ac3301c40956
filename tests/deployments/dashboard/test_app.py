"""The application over HTTP, without a browser."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from deployments.dashboard.pages import ROUTES
from storage.workspace import Workspace

Serve = Callable[..., TestClient]
PAGES = [path for path, _, _ in ROUTES if "{" not in path and path not in ("/find", "/sql/download")]
FORM = {"origin": "http://127.0.0.1:8501"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_and_lets_no_script_of_another_run(serve: Serve, path: str) -> None:
    answer = serve().get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_where_nothing_has_been_made_yet(serve: Serve, tmp_path: Path, path: str) -> None:
    Workspace(tmp_path).claim("new", simulated=False)
    assert serve(tmp_path).get(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/rows?table=secrets", "/rows?score=abc", "/rows?sort=1;DROP", "/rows?table=splits&q=x", "/row/zz", "/row/%00",
     "/rows?sort=dimension"],
)  # fmt: skip
def test_what_cannot_be_shown_is_said_and_no_traceback(serve: Serve, path: str) -> None:
    answer = serve().get(path)
    assert answer.status_code == 400
    assert "Not possible" in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path", ["/batches?stage=..&shard=..&part=workspace", "/rows?offset=-5", "/find?id=%20", "/rows?offset=99999999"]
)
def test_odd_addresses_do_no_harm(serve: Serve, path: str) -> None:
    assert serve().get(path).status_code in (200, 303)


def test_a_filter_is_an_address(serve: Serve) -> None:
    page = serve().get("/rows?family=objective&fate=disagreement&score=3").text
    assert "<option selected>objective</option>" in page
    assert "subjective</td>" not in page


def test_without_the_password_nothing_is_shown(serve: Serve) -> None:
    client = serve(password="böse")
    answer = client.get("/rows?family=objective")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?to=%2Frows%3Ffamily%3Dobjective")
    wrong = client.post("/login?to=/", data={"password": "bose"}, headers=FORM)
    assert wrong.status_code == 403
    right = client.post("/login?to=/rows", data={"password": "böse"}, headers=FORM)
    assert (right.status_code, right.headers["location"]) == (303, "/rows")
    assert client.get("/rows").status_code == 200
    away = client.post("/login?to=//example.org", data={"password": "böse"}, headers=FORM)
    assert away.headers["location"] == "/"


def test_other_sites_and_other_names_are_refused(serve: Serve) -> None:
    client = serve()
    assert client.get("/", headers={"host": "rebound.example.org"}).status_code == 421
    foreign = client.post("/batches", data={"do": "pause"}, headers={"origin": "https://example.org"})
    assert foreign.status_code == 403
    assert client.post("/batches", data={"do": "pause"}).status_code == 403


def test_without_a_prefect_server_a_button_says_so(serve: Serve) -> None:
    page = serve().post("/batches", data={"do": "batch", "stage": "judges", "shard": "limo-0000"}, headers=FORM).text
    assert "No Prefect server is set" in page


class _Prefect(http.server.BaseHTTPRequestHandler):
    """Answers as Prefect's API does, and keeps what it was asked."""

    asked: list[tuple[str, str, Any]]
    workspace = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.command, self.path, body))
        run = {"id": "r1", "name": "retry", "state_type": "RUNNING", "state": {"name": "Running"},
               "deployment_id": "d1", "parameters": {"workspace": self.workspace}}  # fmt: skip
        deployment = {"id": "d1", "name": "retry-failed", "parameters": {"workspace": self.workspace}}
        replies: dict[str, Any] = {"/api/deployments/filter": [deployment], "/api/flow_runs/filter": [run]}
        data = json.dumps(replies.get(self.path, {"id": "r2"})).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_PATCH = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def prefect(made: Workspace, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, Any]]]:
    """A stand-in for Prefect's server, which is set; what it is asked."""
    _Prefect.asked, _Prefect.workspace = [], str(made.root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Prefect) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_address[1]}/api")
        yield _Prefect.asked
        server.shutdown()


def test_retry_this_batch_starts_the_deployment_with_its_shard(
    serve: Serve, made: Workspace, prefect: list[tuple[str, str, Any]]
) -> None:
    page = serve().post("/batches", data={"do": "batch", "stage": "judges", "shard": "limo-0000"}, headers=FORM).text
    parameters = {"workspace": str(made.root.resolve()), "stage": "judges", "shard": "limo-0000"}
    assert ("POST", "/api/deployments/d1/create_flow_run", {"parameters": parameters}) in prefect
    assert "/runs/flow-run/r2" in page


def test_retry_this_class_names_the_class_and_no_shard(
    serve: Serve, made: Workspace, prefect: list[tuple[str, str, Any]]
) -> None:
    form = {"do": "class", "stage": "judges", "shard": "limo-0000", "outcome": "refused"}
    serve().post("/batches", data=form, headers=FORM)
    parameters = {"workspace": str(made.root.resolve()), "stage": "judges", "outcome": "refused"}
    assert ("POST", "/api/deployments/d1/create_flow_run", {"parameters": parameters}) in prefect


def test_pause_ends_the_runs_and_rests_the_schedules_of_this_workspace(
    serve: Serve, prefect: list[tuple[str, str, Any]]
) -> None:
    page = serve().post("/batches", data={"do": "pause"}, headers=FORM).text
    assert "1 runs are being ended" in page
    assert ("PATCH", "/api/deployments/d1", {"paused": True}) in prefect
    states = [body["state"]["type"] for _, path, body in prefect if path == "/api/flow_runs/r1/set_state"]
    assert states == ["CANCELLING"]


def test_the_overview_links_the_last_runs_to_prefect(serve: Serve, prefect: list[tuple[str, str, Any]]) -> None:
    assert "/runs/flow-run/r1" in serve().get("/").text


def test_sql_gives_a_table_a_chart_and_files(serve: Serve) -> None:
    client = serve()
    sql = "SELECT model, count(*) AS calls FROM calls GROUP BY model ORDER BY model"
    page = client.get("/sql", params={"sql": sql, "shape": "bars"}).text
    assert "anthropic/sim-judge-a" in page
    assert '<rect class="c0"' in page
    data = client.get("/sql/download", params={"sql": sql, "as": "csv"}).text
    assert data.splitlines()[0] == '"model","calls"'
    assert client.get("/sql/download", params={"sql": sql, "as": "parquet"}).content[:4] == b"PAR1"
    assert client.get("/sql/download", params={"sql": "SELECT nothing"}).status_code == 400


def test_a_query_is_saved_in_the_workspace(serve: Serve, made: Workspace) -> None:
    client = serve()
    assert client.post("/sql", data={"do": "save", "name": "mine", "sql": "SELECT 1"}, headers=FORM).status_code == 303
    assert (made.root / "queries" / "mine.sql").read_text() == "SELECT 1"
    assert ">mine</a>" in client.get("/sql").text
    bad = client.post("/sql", data={"do": "save", "name": "../mine", "sql": "SELECT 1"}, headers=FORM).text
    assert "a name for a query" in bad

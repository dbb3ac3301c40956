from collections.abc import Callable
from pathlib import Path

import pytest
from made_workspace import make
from starlette.testclient import TestClient

from deployments.dashboard.app import Board, application
from deployments.dashboard.prefect_api import Prefect
from deployments.dashboard.reader import Reader
from storage.workspace import Workspace


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two shards of two sources: 500 answers, 3,000 rubric items."""
    return make(tmp_path_factory.mktemp("made"), answers=500, items=6)


@pytest.fixture(scope="session")
def reader(made: Workspace) -> Reader:
    return Reader(made)


@pytest.fixture
def serve(made: Workspace, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TestClient]:
    """The application over the made workspace; keywords are the board's."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    def client(root: Path | None = None, **changes: object) -> TestClient:
        place = made if root is None else Workspace(root)
        board = Board(place, reader if root is None else Reader(place), Prefect(place), **changes)  # type: ignore[arg-type]
        return TestClient(application(board), "http://127.0.0.1:8501", follow_redirects=False)

    return client

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import QUESTIONS, Simulator

from flows.processes import python_module
from flows.server import prefect_server


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with python_module("deployments.simulator", "--port", "0") as process:
        assert process.stdout is not None
        yield Simulator(json.loads(process.stdout.readline())["url"])


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as url:
        yield url


@pytest.fixture
def config_file(tmp_path: Path, simulator: Simulator) -> Callable[..., Path]:
    """Write a config over twelve made questions and the simulator; keywords replace its keys."""

    def write(name: str = "config", **changes: Any) -> Path:
        (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
        source = {"name": "made", "path": "questions.jsonl", "question": "question", "reference_answer": "answer"}
        values: dict[str, Any] = {
            "name": "made",
            "sources": [source],
            "shard_size": 3,
            "simulator": {"url": simulator.url},
            "answers": {"generators": ["openai/sim-tiny", "google/sim-medium"]},
            "teacher": "openai/sim-teacher",
            "judges": ["anthropic/sim-judge-a", "google/sim-judge-b"],
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(values | changes))
        return path

    return write

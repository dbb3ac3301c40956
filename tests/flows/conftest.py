import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pipeline import Simulator, build_without_prefect, load, write_config

from flows.processes import python_module
from flows.server import prefect_server


@pytest.fixture(scope="session")
def simulator_process() -> Iterator[Simulator]:
    with python_module("deployments.simulator", "--port", "0") as process:
        assert process.stdout is not None
        yield Simulator(json.loads(process.stdout.readline())["url"])


@pytest.fixture
def simulator(simulator_process: Simulator) -> Iterator[Simulator]:
    """The simulator with its counts at zero; knobs that a test turned are turned back."""
    simulator_process.post("reset")
    yield simulator_process
    simulator_process.post("knobs", {"latency_s": 0, "fault_refusal": 0, "fault_500": 0})


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as url:
        yield url


@pytest.fixture
def config_file(tmp_path: Path, simulator: Simulator) -> Callable[..., Path]:
    """Write a config over the made questions and the simulator; keywords replace its keys."""
    return partial(write_config, tmp_path, simulator.url)


@pytest.fixture(scope="session")
def finished_workspace(tmp_path_factory: pytest.TempPathFactory, simulator_process: Simulator) -> Path:
    """The made questions' whole data set, built once."""
    folder = tmp_path_factory.mktemp("finished")
    config = load(write_config(folder, simulator_process.url))
    return build_without_prefect(config, folder / "w").root


@pytest.fixture
def finished(finished_workspace: Path, tmp_path: Path) -> Path:
    """A copy of the finished workspace, for a test to go on with."""
    return Path(shutil.copytree(finished_workspace, tmp_path / "finished"))

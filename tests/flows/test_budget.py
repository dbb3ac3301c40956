"""A run never spends more than its budget, by the simulator's own account, and goes on when it is raised."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline import Simulator, build_without_prefect, criticgen, load
from priced import SMALL, billed

from flows.build import BatchesFailed
from flows.plan import STAGES
from storage.workspace import Workspace
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]


@pytest.mark.slow
def test_fifty_random_budgets(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.calls.BACKOFF_S", 0.01)
    path = config_file(**SMALL)
    build_without_prefect(load(path), tmp_path / "whole")
    whole = billed(simulator)
    wanted = set(simulator.answered())
    assert whole > 0.01
    rng = random.Random(20261130)
    faults = {"fault_500": 0.1, "fault_cut_body": 0.1, "fault_truncate": 0.1, "fault_bad_json": 0.1}
    stopped = 0
    for number in range(50):
        simulator.post("reset")
        simulator.post("knobs", dict.fromkeys(faults, 0) if number % 2 else faults)
        budget = rng.uniform(0, 2.5 * whole)
        root = tmp_path / f"w{number}"
        try:
            build_without_prefect(load(path, f"budget_usd={budget}"), root)
        except BatchesFailed:
            stopped += 1
            left = [m["left"] for name in STAGES for m in Workspace(root).manifests(name) if m["left"]]
            assert left
            assert all("budget_usd" in why for causes in left for why in causes.values())
        assert billed(simulator) <= budget
        simulator.post("knobs", dict.fromkeys(faults, 0))
        asked = simulator.answered()
        place = build_without_prefect(load(path, "budget_usd=100"), root)
        assert reconciles(status(place))
        if number % 2:
            assert set(simulator.answered().values()) == {1}
            assert set(simulator.answered()) == wanted >= set(asked)
    assert 20 < stopped < 50


def test_a_budget_needs_prices(config_file: ConfigFile, tmp_path: Path) -> None:
    ended = criticgen("check", config_file(budget_usd=5))
    assert ended.returncode == 1
    assert "the price of anthropic/sim-judge-a, google/sim-judge-b" in ended.stdout
    assert criticgen("check", config_file(**SMALL, budget_usd=5)).returncode == 0

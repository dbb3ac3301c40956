"""Quotes of real workspaces, made against the simulator: what is quoted is what then has to be paid."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pipeline import PEOPLE, Simulator, build_without_prefect, criticgen, criticgen_process, load

from flows.quote import quote
from storage.workspace import Workspace
from tasks.quote import Quote

ConfigFile = Callable[..., Path]
PRICES = {
    name: {"input_usd_per_mtok": 2, "output_usd_per_mtok": 10}
    for name in ("openai/sim-tiny", "google/sim-medium", "openai/sim-teacher", "anthropic/sim-judge-a")
}


def write_questions(folder: Path, number: int) -> dict[str, Any]:
    """A source of questions of different lengths."""
    rng = random.Random(7)
    rows = []
    for i in range(number):
        steps = [f"{rng.choice(PEOPLE)} adds {rng.randint(2, 30)} pears." for _ in range(rng.randint(2, 3))]
        rows.append({"question": f"Basket {i} holds {rng.randint(3, 90)} pears. {' '.join(steps)} How many are in it?"})
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"name": "many", "path": "many.jsonl", "question": "question"}


def taken(place: Path, stage: str, but: set[str]) -> dict[str, float]:
    """What the workspace's calls of a stage took, without those ``but``."""
    calls = Workspace(place).read_table("calls").filter(stage=stage)
    calls = calls.filter(~calls["call_id"].is_in(list(but)))
    sums = calls.select("input_tokens", "output_tokens", "cost_usd").sum().row(0)
    return dict(zip(("calls", "input_tokens", "output_tokens", "usd_online"), (len(calls), *sums), strict=True))


def quoted(found: Quote, stage: str) -> dict[str, float]:
    """The sum of a stage's medians."""
    lines = [line.left for line in found.lines if line.stage == stage]
    names = ("calls", "input_tokens", "output_tokens", "usd_online")
    return {name: sum(getattr(left, name).p50 for left in lines) for name in names}


def calls_left(found: Quote, stage: str) -> float:
    return sum(line.left.calls.p50 for line in found.lines if line.stage == stage)


@pytest.mark.slow
def test_a_pilots_quote_is_within_15_percent_at_every_stage_and_nothing_is_asked_twice(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    source = write_questions(tmp_path, 30)
    path = config_file(sources=[source], shard_size=10, prices=PRICES, judges=["anthropic/sim-judge-a"])
    ended = criticgen_process("quote", path, "--workspace", tmp_path / "w", "--pilot", "8", "--json")
    assert ended.returncode == 0, ended.stderr
    found = quote(load(path), tmp_path / "w")
    shown = json.loads(ended.stdout)
    assert shown["remarks"][0].startswith("A pilot of 8 questions is built")
    assert shown["left"] == json.loads(orjson.dumps(found.left))
    assert (found.questions, found.questions_done, found.questions_measured) == (30, 8, 8)
    pilot = set(simulator.answered())
    build_without_prefect(load(path), tmp_path / "w")
    assert set(simulator.answered().values()) == {1}
    for stage in ("answers", "rubrics", "trajectories", "coverage", "judges"):
        outcome = taken(tmp_path / "w", stage, pilot)
        assert quoted(found, stage) == pytest.approx(outcome, rel=0.15), stage


def test_without_a_workspace_it_is_rough_and_makes_none(tmp_path: Path, config_file: ConfigFile) -> None:
    ended = criticgen("quote", config_file(prices=PRICES), "--workspace", tmp_path / "w")
    assert ended.returncode == 0
    assert "6 questions, 0 of them done; figures from prompt lengths" in ended.stdout
    assert "are short of google/sim-judge-b:" in ended.stdout
    assert not (tmp_path / "w").exists()


def test_a_finished_workspace_has_nothing_to_pay(finished: Path, config_file: ConfigFile) -> None:
    found = quote(load(config_file()), finished)
    assert (found.left.calls.p95, found.questions_done, found.questions_measured) == (0, 6, 6)
    assert found.spent_calls == Workspace(finished).read_table("calls").height


def test_what_the_tables_lost_is_found_in_the_ledger(finished: Path, config_file: ConfigFile) -> None:
    shutil.rmtree(finished / "tables")
    assert quote(load(config_file()), finished).left.calls.p95 == 0


def test_what_a_smaller_limit_put_aside_is_not_quoted_again(finished: Path, config_file: ConfigFile) -> None:
    path = config_file()
    build_without_prefect(load(path, "limit=2"), finished)
    found = quote(load(path), finished)
    assert (found.left.calls.p95, found.questions, found.questions_done) == (0, 6, 6)


def test_another_judge_is_quoted_alone_from_the_judges_there_are(finished: Path, config_file: ConfigFile) -> None:
    items = Workspace(finished).read_table("rubrics").height
    judges = ["anthropic/sim-judge-a", "google/sim-judge-b", "openai/sim-judge-c"]
    found = quote(load(config_file(judges=judges)), finished)
    left = {line.model: (line.left.calls.p50, line.source) for line in found.lines if line.left.calls.p95}
    assert left == {"openai/sim-judge-c": (items, "other models")}


def test_another_generator_brings_rubrics_and_what_follows(finished: Path, config_file: ConfigFile) -> None:
    generators = ["openai/sim-tiny", "google/sim-medium", "anthropic/sim-small"]
    found = quote(load(config_file(answers={"generators": generators})), finished)
    left = {stage: calls_left(found, stage) for stage in ("answers", "rubrics", "coverage")}
    assert left == {"answers": 6, "rubrics": pytest.approx(6), "coverage": 0}
    of_two = (
        Workspace(finished)
        .read_table("rubrics")
        .join(Workspace(finished).read_table("answers").filter(origin="pool"), on="answer_id", how="semi")
    )
    assert calls_left(found, "trajectories") == pytest.approx(len(of_two) / 2, rel=0.1)


def test_another_teacher_is_quoted_by_what_the_last_one_took(finished: Path, config_file: ConfigFile) -> None:
    calls = Workspace(finished).read_table("calls").group_by("stage").len()
    found = quote(load(config_file(teacher="openai/sim-teacher-2")), finished)
    for stage, number in calls.filter(calls["stage"] != "answers").iter_rows():
        assert calls_left(found, stage) == pytest.approx(number, rel=0.1)
    assert {line.source for line in found.lines if line.stage == "rubrics"} == {"other models"}


def test_a_pilot_is_smaller_than_the_run(tmp_path: Path, config_file: ConfigFile, finished: Path) -> None:
    path = config_file()
    ended = criticgen("quote", path, "--workspace", tmp_path / "w", "--pilot", "6")
    assert ended.returncode == 1
    assert "--pilot 6: the config names 6 questions, and a pilot is a part of them" in ended.stderr
    ended = criticgen("quote", path, "--workspace", finished, "--pilot", "2")
    assert ended.returncode == 0
    assert "No pilot was built: this workspace has begun with 6 questions." in ended.stdout


def test_another_data_sets_workspace_is_refused(finished: Path, config_file: ConfigFile) -> None:
    ended = criticgen("quote", config_file(), "--workspace", finished, "--set", "name=other")
    assert ended.returncode == 1
    assert "holds data set 'made', not 'other'" in ended.stderr

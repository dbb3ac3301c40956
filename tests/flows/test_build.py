"""The pipeline as its users meet it: what comes out, what is asked, what a change costs."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pipeline import QUESTIONS, Simulator, build_without_prefect, load, tables_of

from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]


def test_every_stage_writes_its_table_and_the_sums_agree(tmp_path: Path, config_file: ConfigFile) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    assert {name for name, table in tables_of(place).items() if table.is_empty()} == set()
    assert reconciles(status(place))
    assert len(place.read_table("questions")) == len(QUESTIONS)


def test_consensus_keeps_exactly_the_rows_whose_scores_agree(tmp_path: Path, config_file: ConfigFile) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    scores = place.read_table("trajectories").group_by("item_id").agg(pl.col("score").n_unique(), pl.len())
    agreed = scores.filter(score=1, len=3)["item_id"].sort()
    kept = place.read_table("consensus").filter("kept")["item_id"].sort()
    assert kept.to_list() == agreed.to_list()
    assert 0 < len(kept) < len(scores)


def test_after_coverage_every_level_is_reached_or_listed_as_short(tmp_path: Path, config_file: ConfigFile) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    coverage = place.read_table("coverage")
    assert len(coverage) == 6 * len(QUESTIONS)
    requested = coverage.filter("requested")
    assert requested["answer_id"].null_count() == 0
    assert requested["hit"].mean() > 0.7
    assert (coverage["covered_after"] | coverage["requested"]).all()


def test_no_cluster_crosses_the_split(tmp_path: Path, config_file: ConfigFile) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    sides = place.read_table("splits").group_by("data_set", "cluster").agg(pl.col("split").n_unique())
    assert sides["split"].max() == 1


def test_the_same_run_again_asks_nothing(tmp_path: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    config = load(config_file())
    place = build_without_prefect(config, tmp_path / "w")
    before, asked = tables_of(place), simulator.calls()
    assert tables_of(build_without_prefect(config, tmp_path / "w")).keys() == before.keys()
    assert simulator.calls() == asked
    assert asked == len(place.read_table("calls"))


def test_another_generator_pays_only_for_what_is_new(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    answers, asked = set(place.read_table("answers")["answer_id"]), set(simulator.answered())
    more = {"generators": ["openai/sim-tiny", "google/sim-medium", "anthropic/sim-large"]}
    place = build_without_prefect(load(config_file(answers=more)), tmp_path / "w")
    new = set(simulator.answered()) - asked
    calls = place.read_table("calls").filter(pl.col("call_id").is_in(list(new)))
    assert calls.filter(stage="answers")["model"].unique().to_list() == ["anthropic/sim-large"]
    assert calls.filter(stage="answers").height == len(QUESTIONS)
    assert answers.isdisjoint(calls["answer_id"].drop_nulls())
    assert set(simulator.answered().values()) == {1}


def test_another_judge_is_the_only_one_asked(tmp_path: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    place = build_without_prefect(load(config_file()), tmp_path / "w")
    asked = set(simulator.answered())
    judges = ["anthropic/sim-judge-a", "google/sim-judge-b", "openai/sim-judge-c"]
    place = build_without_prefect(load(config_file(judges=judges)), tmp_path / "w")
    calls = place.read_table("calls").filter(~pl.col("call_id").is_in(list(asked)))
    assert calls["model"].unique().to_list() == ["openai/sim-judge-c"]
    assert len(calls) == place.read_table("trajectories").filter(role="teacher").height


@pytest.mark.parametrize("change", ["near_duplicates.threshold=0.5", "consensus.tolerance=1", "split.seed=7"])
def test_another_filter_setting_asks_nothing(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, change: str
) -> None:
    before = tables_of(build_without_prefect(load(config_file()), tmp_path / "w"))
    asked = simulator.calls()
    after = tables_of(build_without_prefect(load(config_file(), change), tmp_path / "w"))
    assert simulator.calls() == asked
    changed = {name for name in before if not before[name].equals(after[name])}
    assert changed & {"near_duplicates", "consensus", "splits"}


def test_a_changed_question_is_asked_anew_and_the_others_are_not(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    build_without_prefect(load(config_file()), tmp_path / "w")
    asked = set(simulator.answered())
    path = config_file()
    questions = tmp_path / "questions.jsonl"
    questions.write_text(questions.read_text().replace("Ann packs", "Ann-Marie packs"))
    place = build_without_prefect(load(path), tmp_path / "w")
    (changed,) = place.read_table("questions").filter(pl.col("text").str.starts_with("Ann-Marie"))["question_id"]
    calls = place.read_table("calls").filter(~pl.col("call_id").is_in(list(asked)))
    assert calls["question_id"].unique().to_list() == [changed]


def test_a_generator_that_is_taken_out_leaves_the_tables_but_not_the_ledger(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    build_without_prefect(load(config_file()), tmp_path / "w")
    asked = simulator.calls()
    fewer = {"generators": ["openai/sim-tiny"]}
    place = build_without_prefect(load(config_file(answers=fewer)), tmp_path / "w")
    pool = place.read_table("answers").filter(origin="pool")
    assert pool["model"].unique().to_list() == ["openai/sim-tiny"]
    unwanted = place.read_table("calls").filter(~pl.col("wanted"))
    assert "google/sim-medium" in unwanted["model"].unique().to_list()
    assert len(place.read_table("calls")) == simulator.calls() >= asked

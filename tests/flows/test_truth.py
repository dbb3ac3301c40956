"""The simulator's truth is known: what the pipeline should find, it finds."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
from pipeline import Simulator, build_without_prefect, load

from deployments.simulator import true_item_score, true_quality
from storage.workspace import Workspace
from tasks.agreement import agreement_report
from tasks.coverage import quality

ConfigFile = Callable[..., Path]


def against_truth(place: Workspace) -> pl.DataFrame:
    """Each trajectory's score beside the true one: role, model, score, truth."""
    questions = place.read_table("questions").select("question_id", question="text")
    answers = place.read_table("answers").select("answer_id", answer="text")
    items = place.read_table("rubrics").select("item_id", "family", "dimension")
    rows = place.read_table("trajectories").join(questions, on="question_id").join(answers, on="answer_id")
    rows = rows.join(items, on="item_id")
    truth = [true_item_score(*row) for row in rows.select("question", "answer", "family", "dimension").iter_rows()]
    return rows.select("item_id", "role", "model", "score", truth=pl.Series(truth, dtype=pl.Int8))


def test_the_teacher_and_the_judges_are_found_near_the_truth(finished: Path) -> None:
    rows = against_truth(Workspace(finished)).with_columns(off=(pl.col("score") - pl.col("truth")).abs())
    right = {role: (group["off"] == 0).mean() for (role,), group in rows.group_by("role")}
    assert rows["off"].max() == 1
    assert 0.9 < right["teacher"] < 1.0  # type: ignore[operator]  # its noise is 0.05
    assert 0.8 < right["judge"] < 0.97  # type: ignore[operator]  # theirs is 0.1


def test_an_answers_quality_is_found_near_its_true_quality(finished: Path) -> None:
    place = Workspace(finished)
    questions = place.read_table("questions").select("question_id", question="text")
    answers = place.read_table("answers").join(questions, on="question_id")
    found = quality(place.read_table("trajectories").filter(role="teacher")).join(answers, on="answer_id")
    truth = [true_quality(*row) for row in found.select("question", "text").iter_rows()]
    off = (found["quality"] - pl.Series(truth)).abs()
    assert (off <= 1).all()
    assert (off == 0).mean() > 0.7  # type: ignore[operator]


def test_what_the_consensus_keeps_is_nearer_the_truth(finished: Path) -> None:
    place = Workspace(finished)
    teacher = against_truth(place).filter(role="teacher").join(place.read_table("consensus"), on="item_id")
    right = teacher.group_by("kept").agg((pl.col("score") == pl.col("truth")).mean())
    shares = dict(right.iter_rows())
    assert shares[True] > shares[False]
    assert shares[True] > 0.98


def test_a_judge_with_more_noise_is_found_out(finished: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    simulator.post("knobs", {"judge_noise.sim-judge-noisy": 0.6, "judge_bias.sim-judge-kind": 0.8})
    judges = ["anthropic/sim-judge-a", "google/sim-judge-noisy", "openai/sim-judge-kind"]
    place = build_without_prefect(load(config_file(judges=judges)), finished)
    families = place.read_table("rubrics", columns=["item_id", "family"])
    report = agreement_report(place.read_table("consensus"), families).filter(grouping="overall", first="teacher")
    equal = dict(report.select("second", "equal").iter_rows())
    assert equal["anthropic/sim-judge-a"] > 0.8
    assert equal["google/sim-judge-noisy"] < 0.6
    assert equal["openai/sim-judge-kind"] < 0.6
    scores = against_truth(place).filter(model="openai/sim-judge-kind")
    assert (scores["score"] >= scores["truth"] - 1).all()
    assert (scores["score"] > scores["truth"]).mean() > 0.5  # type: ignore[operator]

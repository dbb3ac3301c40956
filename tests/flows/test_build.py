"""The pipeline as its users meet it: what comes out, what is asked, what a change costs."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pipeline import QUESTIONS, Simulator, build_without_prefect, load, tables_of

from storage.ledger import Ledger
from storage.workspace import Workspace
from tasks.batches import Retry
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]


def test_every_stage_writes_its_table_and_the_sums_agree(finished: Path) -> None:
    place = Workspace(finished)
    assert {name for name, table in tables_of(place).items() if table.is_empty()} == {"replies"}  # a job writes it
    assert reconciles(status(place))
    assert len(status(place)["checks"]) == 25
    assert len(place.read_table("questions")) == len(QUESTIONS)


def test_consensus_keeps_exactly_the_rows_whose_scores_agree(finished: Path) -> None:
    place = Workspace(finished)
    scores = place.read_table("trajectories").group_by("item_id").agg(pl.col("score").n_unique(), pl.len())
    agreed = scores.filter(score=1, len=3)["item_id"].sort()
    kept = place.read_table("consensus").filter("kept")["item_id"].sort()
    assert kept.to_list() == agreed.to_list()
    assert 0 < len(kept) < len(scores)


def test_after_coverage_every_level_is_reached_or_listed_as_short(finished: Path) -> None:
    coverage = Workspace(finished).read_table("coverage")
    assert len(coverage) == 6 * len(QUESTIONS)
    requested = coverage.filter("requested")
    assert requested["answer_id"].null_count() == 0
    assert requested["hit"].cast(pl.Float64).mean() > 0.7  # type: ignore[operator]
    assert (coverage["covered_after"] | coverage["requested"]).all()


def test_no_cluster_crosses_the_split(finished: Path) -> None:
    splits = Workspace(finished).read_table("splits")
    sides = splits.group_by("data_set", "cluster").agg(pl.col("split").n_unique())
    assert sides["split"].to_list() == [1] * len(sides)
    assert set(splits["split"]) == {"train", "test"}


def test_the_same_run_again_asks_nothing(finished: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    before = tables_of(Workspace(finished))
    after = tables_of(build_without_prefect(load(config_file()), finished))
    assert simulator.calls() == 0
    assert all(before[name].equals(after[name]) for name in before)


def test_another_generator_pays_only_for_what_is_new(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    known = set(Workspace(finished).read_table("calls")["call_id"])
    answers = set(Workspace(finished).read_table("answers")["answer_id"])
    more = {"generators": ["openai/sim-tiny", "google/sim-medium", "anthropic/sim-large"]}
    place = build_without_prefect(load(config_file(answers=more)), finished)
    asked = simulator.answered()
    assert known.isdisjoint(asked)
    assert set(asked.values()) == {1}
    calls = place.read_table("calls").filter(pl.col("call_id").is_in(list(asked)))
    assert calls.filter(stage="answers")["model"].to_list() == ["anthropic/sim-large"] * len(QUESTIONS)
    assert answers.isdisjoint(calls["answer_id"].drop_nulls())


def test_another_judge_is_the_only_one_asked(finished: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    judges = ["anthropic/sim-judge-a", "google/sim-judge-b", "openai/sim-judge-c"]
    place = build_without_prefect(load(config_file(judges=judges)), finished)
    calls = place.read_table("calls").filter(pl.col("call_id").is_in(list(simulator.answered())))
    assert calls["model"].unique().to_list() == ["openai/sim-judge-c"]
    assert simulator.calls() == place.read_table("trajectories").filter(role="teacher").height


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("near_duplicates.threshold=0.2", "near_duplicates"),
        ("consensus.tolerance=1", "consensus"),
        ("split.seed=7", "splits"),
    ],
)
def test_another_filter_setting_asks_nothing(
    finished: Path, config_file: ConfigFile, simulator: Simulator, change: str, table: str
) -> None:
    before = Workspace(finished).read_table(table)
    after = build_without_prefect(load(config_file(), change), finished).read_table(table)
    assert simulator.calls() == 0
    assert not before.equals(after) or table == "splits"  # what was test stays test, whatever the seed


def test_a_changed_question_is_asked_anew_and_the_others_are_not(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    path = config_file()
    questions = tmp_path / "questions.jsonl"
    questions.write_text(questions.read_text().replace("Ann packs", "Ann-Marie packs"))
    place = build_without_prefect(load(path), finished)
    changed = place.read_table("questions").filter(pl.col("text").str.starts_with("Ann-Marie"))["question_id"]
    calls = place.read_table("calls").filter(pl.col("call_id").is_in(list(simulator.answered())))
    assert calls["question_id"].unique().to_list() == changed.to_list()


def test_a_generator_that_is_taken_out_leaves_the_tables_but_not_the_books(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    paid = len(Workspace(finished).read_table("calls"))
    fewer = {"generators": ["openai/sim-tiny"]}
    place = build_without_prefect(load(config_file(answers=fewer)), finished)
    pool = place.read_table("answers").filter(origin="pool")
    assert pool["model"].unique().to_list() == ["openai/sim-tiny"]
    calls = place.read_table("calls")
    assert "google/sim-medium" in calls.filter(~pl.col("wanted"))["model"].to_list()
    assert len(calls) == paid + simulator.calls()
    assert calls["call_id"].is_unique().all()


def test_other_shards_move_the_calls_and_ask_nothing(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    before = Workspace(finished).read_table("calls")
    place = build_without_prefect(load(config_file(shard_size=4)), finished)
    calls = place.read_table("calls")
    assert simulator.calls() == 0
    assert calls["wanted"].all()
    assert calls["shard"].unique().sort().to_list() == ["made-0000", "made-0001"]
    assert calls["call_id"].sort().to_list() == before["call_id"].sort().to_list()
    assert reconciles(status(place))


def test_tables_are_rebuilt_from_the_ledger_alone(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    before = tables_of(Workspace(finished))
    config = load(config_file())
    Workspace(finished).prune([])
    assert list((finished / "tables").rglob("*.parquet")) == []
    after = tables_of(build_without_prefect(config, finished))
    assert simulator.calls() == 0
    assert [name for name in before if not before[name].equals(after[name])] == []


def test_a_manifest_never_vouches_for_tables_it_was_not_written_after(
    finished: Path, config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Workspace(finished).read_table("consensus")

    def killed(*arguments: object) -> None:
        raise SystemExit

    config = load(config_file(), "consensus.tolerance=1")
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "write_manifest", killed)
        with pytest.raises(SystemExit):
            build_without_prefect(config, finished)
    place = build_without_prefect(load(config_file()), finished)
    assert place.read_table("consensus").equals(before)


def test_a_full_disk_stops_the_asking(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Ledger, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    simulator.post("knobs", {"latency_s": 0.05})
    config = load(config_file(limits={"default": {"max_concurrency": 1}}))
    monkeypatch.setattr(Ledger, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        build_without_prefect(config, tmp_path / "w")
    assert simulator.calls() <= 2 * 2  # one in flight and one that waited its turn, for each generator


def test_two_rounds_complete_more_than_one_and_repeat_nothing(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    known = set(Workspace(finished).read_table("calls")["call_id"])
    one = Workspace(finished).read_table("coverage").filter(~pl.col("covered_after")).height
    place = build_without_prefect(load(config_file(coverage={"rounds": 2})), finished)
    coverage = place.read_table("coverage").filter(round=2)
    assert known.isdisjoint(simulator.answered())
    assert coverage.filter("requested").height == one
    assert coverage.filter(~pl.col("covered_after")).height <= one
    assert reconciles(status(place))


def test_coverage_by_item_asks_for_levels_of_each_dimension(tmp_path: Path, config_file: ConfigFile) -> None:
    path = config_file(coverage={"unit": "item"}, answers={"generators": ["openai/sim-tiny"]})
    place = build_without_prefect(load(path, "limit=1"), tmp_path / "w")
    coverage = place.read_table("coverage")
    assert coverage["dimension"].null_count() == 0
    requested = coverage.filter("requested")
    assert requested["synthesized_score"].null_count() == 0
    assert requested["hit"].mean() > 0.5  # type: ignore[operator]
    assert reconciles(status(place))


def test_failed_calls_are_counted_and_asked_again_only_when_that_is_wanted(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    simulator.post("knobs", {"fault_refusal": 0.1})
    config = load(config_file(), "max_failed=1.0", "limit=2")
    place = build_without_prefect(config, tmp_path / "w")
    found = status(place)
    refused = sum(stage["failed"].get("refused", 0) for stage in found["stages"])
    assert refused > 0
    assert reconciles(found)
    asked = simulator.calls()
    build_without_prefect(config, place.root)
    assert simulator.calls() == asked
    simulator.post("knobs", {"fault_refusal": 0})
    simulator.post("reset")
    answered = set(place.read_table("calls").filter(outcome="ok")["call_id"])
    build_without_prefect(config, place.root, retry=Retry())
    assert sum(sum(stage["failed"].values()) for stage in status(place)["stages"]) == 0
    assert answered.isdisjoint(simulator.answered())


def test_a_retry_asks_what_it_names_and_an_abandoned_call_only_by_name(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    simulator.post("knobs", {"fault_refusal.sim-judge-a": 1, "fault_refusal.sim-tiny": 1})
    config = load(config_file(), "max_failed=1.0", "limit=1", "give_up_after=2", "coverage.rounds=0")

    def received(retry: Retry | None) -> dict[str, int]:
        before = simulator.get("stats")["received_by_model"]
        build_without_prefect(config, tmp_path / "w", retry=retry)
        after = simulator.get("stats")["received_by_model"]
        return {model: number - before.get(model, 0) for model, number in after.items() if number != before.get(model)}

    first = received(None)
    judged = first["sim-judge-a"]
    assert received(None) == {}
    assert received(Retry(stage="rubrics")) == received(Retry(outcome="malformed")) == {}
    assert received(Retry(model="anthropic/sim-judge-a")) == {"sim-judge-a": judged}
    assert received(Retry(stage="answers", outcome="refused")) == {"sim-tiny": 1}
    assert {failed for stage in status(Workspace(tmp_path / "w"))["stages"] for failed in stage["failed"]} == {
        "abandoned"
    }
    assert received(Retry()) == {}
    simulator.post("knobs", {"fault_refusal.sim-judge-a": 0, "fault_refusal.sim-tiny": 0})
    assert received(Retry(stage="judges", outcome="abandoned")) == {"sim-judge-a": judged}
    assert reconciles(status(Workspace(tmp_path / "w")))

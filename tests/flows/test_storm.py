"""A storm of faults over the whole pipeline: every call ends in a class, and no token is lost or paid for twice."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pipeline import Simulator, build_without_prefect, load

from flows.plan import STAGES
from storage.ledger import ledger_files
from storage.workspace import Workspace
from tasks.batches import Retry
from tasks.calls import read_attempt
from tasks.config import Config
from tasks.models import Outcome
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]

QUESTIONS = 20
TIMEOUT_S = 3.0
VENDORS = {name: {"api": name, "timeout_s": TIMEOUT_S} for name in ("openai", "anthropic", "google")}
ASKED = {
    "shard_size": 3,
    "max_failed": 1.0,
    "limits": {"default": {"min_concurrency": 8}},  # what is left after the 429s, or it takes minutes
    "endpoints": VENDORS | {"local": {"api": "openai-chat", "timeout_s": TIMEOUT_S}},
    "answers": {"generators": ["openai/sim-think", "local/sim-medium"]},
    "teacher": "openai/sim-teacher",
    "judges": ["anthropic/sim-judge-a", "google/sim-judge-b"],
}

RATES = {
    "fault_429": 0.02, "fault_429_bare": 0.005, "fault_500": 0.015, "fault_503": 0.015, "fault_overloaded": 0.015,
    "fault_timeout": 0.003, "fault_reset": 0.015, "fault_cut_body": 0.015, "fault_drip": 0.01,
    "fault_refusal": 0.01, "fault_empty": 0.01, "fault_null": 0.01, "fault_truncate": 0.01, "fault_thinking": 0.01,
    "fault_surrogate": 0.01, "fault_nul": 0.01, "fault_prose": 0.015, "fault_bad_json": 0.015, "fault_twice": 0.015,
    "fault_two": 0.015, "fault_bad_schema": 0.015, "fault_extra": 0.015, "fault_bad_score": 0.015,
    "fault_score_fraction": 0.01, "fault_score_half": 0.01, "fault_score_text": 0.01, "fault_score_six": 0.01,
    "fault_score_nan": 0.01, "fault_latex": 0.015, "fault_huge.sim-judge-b": 0.01,
}  # fmt: skip
BURSTS = {"burst_429_every_s": 3, "burst_429_for_s": 0.3}
PACE = {"retry_after_s": 0.1, "hang_s": 2 * TIMEOUT_S, "drip_s": 0.3}
TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "thinking_tokens")


def questions_of(folder: Path) -> dict[str, Any]:
    texts = [f"Crew {n} loads {n + 3} crates of {2 * n + 4} bolts and returns {n + 2}. Left?" for n in range(QUESTIONS)]
    (folder / "many.jsonl").write_text("".join(json.dumps({"question": text}) + "\n" for text in texts))
    return {"sources": [{"name": "made", "path": "many.jsonl"}]}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch, simulator: Simulator):
    monkeypatch.setattr("tasks.calls.BACKOFF_S", 0.01)
    monkeypatch.setattr("tasks.models.limiter.FIRST_PAUSE_S", 0.1)
    yield
    calm(simulator)


def calm(simulator: Simulator) -> None:
    simulator.post("knobs", dict.fromkeys([*RATES, *BURSTS], 0))


def ledger_of(place: Workspace) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in ledger_files(place.root)])


def asked_after_a_valid_answer(ledger: pl.DataFrame, config: Config) -> list[str]:
    """The calls that were asked again although a valid answer was there."""
    late, valid = [], set()
    for record in ledger.sort("call_id", "attempt").iter_rows(named=True):
        if record["call_id"] in valid:
            late.append(record["call_id"])
        if read_attempt(record, STAGES[record["stage"]].output(config)).outcome is Outcome.OK:
            valid.add(record["call_id"])
    return late


@pytest.mark.slow
def test_two_thousand_calls_in_a_storm(tmp_path: Path, config_file: ConfigFile, simulator: Simulator) -> None:
    config = load(config_file(**ASKED | questions_of(tmp_path)))
    simulator.post("knobs", RATES | BURSTS | PACE)
    place = build_without_prefect(config, tmp_path / "w")
    stats, served = simulator.get("stats"), simulator.answered()
    calls, ledger = place.read_table("calls"), ledger_of(place)
    outcomes = Counter(calls["outcome"])
    received, faulted = stats["received"], sum(stats["faults"].values())
    limited = stats["statuses"].get("429", 0)
    print(f"{len(calls)} calls, {received} requests, {faulted / received:.0%} faulted, {limited} answered 429")
    print(f"ended as {dict(outcomes)}; {dict(stats['faults'])}")

    # Every call ends in a class, and the sums reconcile.
    assert len(calls) >= 2_000
    assert 0.25 < faulted / received < 0.4
    assert set(stats["faults"]) == {name.partition(".")[0] for name in RATES}
    assert limited > stats["faults"]["fault_429"] + stats["faults"]["fault_429_bare"]
    found = status(place)
    assert reconciles(found)
    assert sum(stage["wanted"] for stage in found["stages"]) == len(calls.filter("wanted")) == len(calls)
    assert sum(stage["todo"] for stage in found["stages"]) == 0
    assert set(outcomes) <= {outcome.value for outcome in Outcome} - {"rate_limited"}
    assert set(ledger["call_id"]) == set(calls["call_id"])

    # Every request is in the ledger but those that were only told to wait, and every answer is there once.
    assert received == len(ledger) + limited
    answered = ledger.filter(pl.col("input_tokens").is_not_null()).group_by("call_id").len()
    assert dict(answered.iter_rows()) == served
    assert asked_after_a_valid_answer(ledger, config) == []
    assert stats["abandoned"] == 0
    assert stats["broken"] == sum(stats["faults"][f"fault_{name}"] for name in ("timeout", "reset", "cut_body"))

    # Tokens, to the token.
    for name in TOKENS:
        by_model = dict(ledger.group_by(pl.col("model").str.split("/").list.last()).agg(pl.col(name).sum()).iter_rows())
        assert by_model == stats[f"{name}_by_model"], name
        assert calls[name].sum() == ledger[name].sum(), name
    assert calls["attempts"].sum() == len(ledger)
    assert found["spent"]["output_tokens"] == ledger["output_tokens"].sum()

    # The same again asks nothing; a retry asks what has failed, and nothing else.
    assert build_without_prefect(config, place.root).read_table("calls").equals(calls)
    assert simulator.get("stats")["received"] == received
    calm(simulator)
    simulator.post("reset")
    ok = set(calls.filter(outcome="ok")["call_id"])
    build_without_prefect(config, place.root, retry=Retry())
    retried = simulator.answered()
    assert set(calls["call_id"]) - ok <= set(retried)
    assert ok.isdisjoint(retried)
    assert set(retried.values()) == {1}
    assert reconciles(status(place))
    assert set(place.read_table("calls")["outcome"]) == {"ok"}

"""The pipeline through the vendors' Batch APIs: the same tables, nothing submitted twice, every item a class."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from pipeline import Simulator, build_without_prefect, criticgen, load, tables_of

from flows.build import BatchesFailed, StillWaiting
from flows.vendor_batches import cancel
from storage.vendor_batches import COLLECTED, VOID, load_batches
from storage.workspace import Workspace
from tasks.models import Outcome, Reply
from tasks.models.batch import BatchFailure, Looked
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]

BATCH = {"transport": {"default": "batch"}, "batch_poll_s": 0.05}
FAULTS = (
    *("batch_all_fail", "batch_duplicate", "batch_unknown", "batch_missing", "batch_expire", "batch_invalid"),
    *("batch_swap", "batch_string_counts", "batch_strange_status", "batch_lost", "batch_enqueued_tokens"),
)
BATCH_KNOBS = dict.fromkeys(FAULTS, 0) | {"batch_s": 0.1, "batch_shuffle": 1}


@pytest.fixture(autouse=True)
def quick(simulator: Simulator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.vendor_batches.QUIET_S", 0.05)
    simulator.post("knobs", BATCH_KNOBS)
    yield
    simulator.post("knobs", BATCH_KNOBS)


def same_tables(one: Workspace, other: Workspace) -> None:
    left, right = tables_of(one), tables_of(other)
    for name in left:
        ours, theirs = (tables[name].drop("vendor_batch", strict=False) for tables in (left, right))
        assert ours.equals(theirs), name


def test_vendor_batches_give_the_same_tables_as_calls_online(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    place = build_without_prefect(load(config_file(**BATCH)), tmp_path / "w")
    same_tables(Workspace(finished), place)
    assert set(simulator.answered().values()) == {1}
    assert simulator.get("stats")["batches"]["items"] == len(simulator.answered())
    assert place.read_table("calls")["vendor_batch"].null_count() == 0
    found = load_batches(place.root)
    assert {batch.state for batch in found} == {COLLECTED}
    assert sum(batch.counts["ok"] for batch in found) == len(simulator.answered())
    assert reconciles(status(place))
    build_without_prefect(load(config_file(**BATCH)), tmp_path / "w")
    assert set(simulator.answered().values()) == {1}


def test_a_run_that_does_not_wait_goes_on_from_batch_to_batch(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    config = load(config_file(**BATCH))
    passes = 0
    while True:
        passes += 1
        assert passes < 200
        try:
            place = build_without_prefect(config, tmp_path / "w", wait=False)
            break
        except StillWaiting:
            assert reconciles(status(Workspace(tmp_path / "w")))
    assert passes > 7
    same_tables(Workspace(finished), place)
    assert set(simulator.answered().values()) == {1}


def test_a_few_calls_go_first_where_a_vendor_has_not_seen_the_schema(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    place = build_without_prefect(load(config_file(**BATCH)), tmp_path / "w")
    found = load_batches(place.root)
    canaries = [batch for batch in found if batch.canary]
    assert {(batch.model.split("/")[0], batch.items) for batch in canaries} >= {("openai", 5), ("google", 5)}
    assert all(batch.schema for batch in canaries)
    rest = [batch for batch in found if batch.schema and not batch.canary]
    assert rest
    assert len({(batch.model.split("/")[0], batch.schema) for batch in canaries}) == len(canaries)


@pytest.mark.parametrize(
    "knobs",
    [
        {"batch_duplicate": 0.2, "batch_unknown": 0.2, "batch_swap": 1},
        {"batch_missing": 0.2},
        {"batch_expire": 0.4},
        {"batch_lost": 1},
        {"batch_string_counts": 1, "batch_strange_status": 1},
        {"fault_500": 0.1, "fault_bad_json": 0.1},
    ],
    ids=lambda knobs: "-".join(knobs),
)
def test_only_the_gap_goes_out_again(
    finished: Path, tmp_path: Path, config_file: ConfigFile, simulator: Simulator, knobs: dict[str, float]
) -> None:
    simulator.post("knobs", knobs)
    config = load(config_file(**BATCH, limit=2, max_failed=1.0))
    while True:
        with suppress(BatchesFailed):  # a call that three batches expired with is another run's
            place = build_without_prefect(config, tmp_path / "w")
            break
    simulator.post("knobs", {"fault_bad_json": 0})
    found = load_batches(place.root)
    answered, stats = simulator.answered(), simulator.get("stats")
    assert {batch.state for batch in found} <= {COLLECTED, VOID}
    assert reconciles(status(place))
    ledger = pl.concat([pl.read_parquet(path) for path in (place.root / "ledger" / "sealed").rglob("*.parquet")])
    served = ledger.filter(pl.col("outcome") == "ok").group_by("call_id").len()
    assert dict(served.iter_rows()) == answered
    if "fault_bad_json" not in knobs:
        assert set(answered.values()) == {1}
    for kind in ("input_tokens", "output_tokens"):
        assert ledger[kind].sum() == sum(stats[f"{kind}_by_model"].values())
    if "batch_duplicate" in knobs:
        assert sum(batch.strays for batch in found) > 10
        assert list((place.root / "ledger" / "batches").glob("*.strays.jsonl"))
    if "batch_expire" in knobs:
        assert sum(batch.counts.get("expired", 0) for batch in found) > 0
    if "batch_missing" in knobs:
        assert sum(batch.counts.get("missing", 0) for batch in found) > 0


def test_a_limit_on_queued_tokens_is_kept_to_and_a_vendors_own_is_waited_for(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    simulator.post("knobs", {"batch_enqueued_tokens": 30_000})
    limits = {"openai/sim-teacher": {"batch_tokens": 12_000}}
    place = build_without_prefect(load(config_file(**BATCH, limit=2, limits=limits)), tmp_path / "w")
    assert reconciles(status(place))
    assert set(simulator.answered().values()) == {1}
    teacher = [batch for batch in load_batches(place.root) if batch.model == "openai/sim-teacher"]
    assert max(batch.tokens for batch in teacher) <= 12_000
    assert len(teacher) > 5


def test_a_batch_whose_model_is_refused_stops_that_model_and_nothing_is_lost(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    simulator.post("knobs", {"batch_invalid": 1})
    with pytest.raises(BatchesFailed):
        build_without_prefect(load(config_file(**BATCH, limit=1)), tmp_path / "w")
    simulator.post("knobs", {"batch_invalid": 0})
    found = status(Workspace(tmp_path / "w"))
    assert reconciles(found)
    assert simulator.calls() == 0


def test_an_open_batch_is_never_asked_online_and_a_cancelled_one_gives_what_it_ran(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    simulator.post("knobs", {"batch_s": 60})
    config, root = load(config_file(**BATCH, limit=2)), tmp_path / "w"
    with pytest.raises(StillWaiting):
        build_without_prefect(config, root, wait=False)
    online = load(config_file(limit=2))
    with pytest.raises(StillWaiting):
        build_without_prefect(online, root, wait=False)
    assert simulator.calls() == 0
    manifests = {path: path.stat().st_mtime_ns for path in (root / "manifests" / "answers").rglob("*.json")}
    with pytest.raises(StillWaiting, match="4 in vendor batches"):
        build_without_prefect(config, root, wait=False)
    assert {path: path.stat().st_mtime_ns for path in manifests} == manifests  # nothing was done for them
    listed = json.loads(criticgen("batches", "--workspace", root, "--json").stdout)
    assert {batch["state"] for batch in listed} == {"running"}
    assert all("cancelled" in line for line in cancel(config, Workspace(root)))
    place = build_without_prefect(online, root)
    assert reconciles(status(place))
    assert set(simulator.answered().values()) == {1}
    assert {batch.state for batch in load_batches(root)} == {COLLECTED}


def test_a_batch_that_cannot_be_looked_at_is_left_for_another_run(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(self: object, batch: str) -> Looked:
        raise BatchFailure(Reply(Outcome.AUTH, error="401: the key was withdrawn"))

    config, root = load(config_file(**BATCH, limit=2)), tmp_path / "w"
    with monkeypatch.context() as patched:
        patched.setattr("tasks.models.batch_openai.OpenAIBatches.look", refused)
        with pytest.raises(BatchesFailed, match=r"auth .401: the key was withdrawn"):
            build_without_prefect(config, root)
    assert "running" in {batch.state for batch in load_batches(root)}
    place = build_without_prefect(config, root)
    assert reconciles(status(place))
    assert set(simulator.answered().values()) == {1}


def test_where_no_call_sent_ahead_is_ok_the_others_are_not_sent(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    config, root = load(config_file(**BATCH, limit=3), "shard_size=6"), tmp_path / "w"
    simulator.post("knobs", {"fault_refusal.sim-judge-a": 1})
    with pytest.raises(
        BatchesFailed, match=r"none of the 5 calls that were sent ahead in a vendor batch was ok .refused 5"
    ):
        build_without_prefect(config, root)
    simulator.post("knobs", {"fault_refusal.sim-judge-a": 0})
    assert simulator.get("stats")["received_by_model"]["sim-judge-a"] == 5
    assert simulator.get("stats")["received_by_model"]["sim-judge-b"] > 50
    place = build_without_prefect(config, root)
    assert reconciles(status(place))
    refused = place.read_table("calls").filter(outcome="refused")
    assert len(refused) == 5

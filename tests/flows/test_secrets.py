"""No API key is found anywhere: in no file of the workspace, log, error or output of a command, nor in Prefect."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pipeline import Simulator, build_without_prefect, criticgen, criticgen_process, load
from quoting_vendor import AGAIN, FAILS, ODD, STOPS, QuotingVendor, forms, quoting_vendor

from flows.build import BatchesFailed
from flows.plan import STAGES
from storage.ledger import ledger_files
from storage.vendor_batches import load_batches
from tasks.batches import Retry
from tasks.calls import read_attempt
from tasks.config import Config
from tasks.models import Outcome

ConfigFile = Callable[..., Path]
Search = Callable[..., list[str]]

# Of the shapes that vendors give them; the last one is escaped in JSON and in URLs.
KEYS = {
    "OPENAI_API_KEY": "sk-proj-Tz4x9Qm2Lr8Wc1Vb6Nd3Kf7Hs5Jg0Pa-Ye_Uo2Ri4TbxFJ8mZqL3",
    "ANTHROPIC_API_KEY": "sk-ant-api03-Qw9Zx8Cv7Bn6Mk5Lj4Hg3Fd2Sa1Po0Iu-Yt_Re4Wq7xEzAA",
    "GEMINI_API_KEY": "AIzaSyD4x7Kp9mQ2wZ8vL1nB6tR3cY5hJ0fG-e_U",
    "MINE_API_KEY": "mK/9f8e+7d6c5b4a/3210Zq+xW7v==",
}
MIXED = ("ok", *FAILS, "ok", *AGAIN, "ok", "ok", *ODD, "ok", "ok", "ok", "ok")
# What is wrong with the answers that the simulator itself gives, online and in batches.
FAULTS = dict.fromkeys(
    ("fault_refusal", "fault_empty", "fault_500", "fault_truncate", "fault_bad_json", "fault_extra", "fault_score_six"),
    0.1,
)
BATCH_FAULTS = {
    "batch_s": 0.05, "batch_unknown": 0.3, "batch_duplicate": 0.2, "batch_missing": 0.1, "batch_expire": 0.1,
    "batch_invalid": 0.1, "batch_all_fail": 0.05, "batch_lost": 0.1, "batch_strange_status": 0.2,
}  # fmt: skip
# Not asyncio's logger: Prefect hangs when the loop that carries its logs logs through it.
LOUD = {
    "OPENAI_LOG": "debug",
    "ANTHROPIC_LOG": "debug",
    "PYTHONASYNCIODEBUG": "1",
    "PREFECT_LOGGING_LEVEL": "DEBUG",
    "PREFECT_LOGGING_ROOT_LEVEL": "DEBUG",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "openai,anthropic,google_genai,httpx2,aiohttp,tasks,storage,flows",
}


def config_of(url: str, **changes: Any) -> dict[str, Any]:
    def server(api: str, variable: str, path: str = "") -> dict[str, Any]:
        return {"api": api, "base_url": url + path, "key_env": variable, "timeout_s": 0.8}

    return {
        "simulator": None,
        "endpoints": {
            "openai": server("openai", "OPENAI_API_KEY", "/v1"),
            "anthropic": server("anthropic", "ANTHROPIC_API_KEY"),
            "google": server("google", "GEMINI_API_KEY"),
            "mine": server("openai-chat", "MINE_API_KEY", "/v1"),
        },
        "answers": {"generators": ["openai/sim-tiny", "mine/sim-small"]},
        "limits": {"default": {"min_concurrency": 16}},
        "limit": 1,
        "max_failed": 1.0,
    } | changes


def leaks(name: str, text: str) -> list[str]:
    return [
        f"{variable} in {name}: ...{text[max(0, at - 150) : at + 90]}"
        for variable, key in KEYS.items()
        for form in forms(key)
        if (at := text.find(form)) >= 0
    ]


def leaks_in_files(root: Path) -> list[str]:
    """Every file as it is, and the content of those that are compressed or cut into pages."""
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        found += leaks(str(path), path.read_bytes().decode("latin-1"))
        if path.suffix == ".parquet":
            found += leaks(f"{path}, decompressed", pl.read_parquet(path).write_ndjson())
        if path.suffix == ".db":
            with closing(sqlite3.connect(path)) as database:
                found += leaks(f"{path}, dumped", "\n".join(database.iterdump()))
    return found


def leaks_of_commands(root: Path) -> list[str]:
    calls = criticgen("query", "SELECT * FROM ledger", "--workspace", root, "--json")
    shown = json.loads(criticgen("query", "SELECT item_id FROM rubrics LIMIT 1", "--workspace", root, "--json").stdout)
    commands = [["status"], ["failures"], ["batches"], *(["show", row["item_id"]] for row in shown)]
    ended = [criticgen(*command, "--workspace", root, *json_) for command in commands for json_ in ([], ["--json"])]
    assert [one.stderr for one in ended] == [""] * len(ended)
    return [leak for one in (calls, *ended) for leak in leaks("a command's output", one.stdout)]


@pytest.fixture
def vendor(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuotingVendor]:
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    monkeypatch.setattr("tasks.calls.BACKOFF_S", 0.01)
    monkeypatch.setattr("tasks.models.limiter.FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr("tasks.vendor_batches.QUIET_S", 0.05)
    with quoting_vendor(simulator.url) as serving:
        yield serving
    simulator.post("knobs", dict.fromkeys([*FAULTS, *BATCH_FAULTS], 0) | {"batch_s": 0.5})


@pytest.fixture
def all_leaks(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Search:
    """All that a run in this process leaves: files, what commands show, logs, the SDKs' too, and what was raised."""
    caplog.set_level(logging.DEBUG)

    def search(root: Path, errors: list[BaseException]) -> list[str]:
        printed = capfd.readouterr()
        told = {"the log": caplog.text, "standard output": printed.out, "standard error": printed.err}
        told["an error"] = "\n".join(f"{error}\n{error!r}" for error in errors)
        assert "openai._base_client" in caplog.text
        return [
            *leaks_in_files(root),
            *leaks_of_commands(root),
            *(leak for one in told.items() for leak in leaks(*one)),
        ]

    return search


def outcomes_in(root: Path, config: Config) -> set[Outcome]:
    """The class of every attempt: what is wrong with the JSON shows when it is parsed."""
    records = [record for path in ledger_files(root) for record in pl.read_parquet(path).to_dicts()]
    return {read_attempt(record, STAGES[record["stage"]].output(config)).outcome for record in records}


@pytest.mark.slow
def test_no_key_is_left_by_any_failure_online(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, vendor: QuotingVendor, all_leaks: Search
) -> None:
    simulator.post("knobs", FAULTS)
    config, root = load(config_file(**config_of(vendor.url))), tmp_path / "w"
    errors: list[BaseException] = []
    vendor.trouble = MIXED
    for _ in range(2):
        build_without_prefect(config, root, retry=Retry())
    for stop in STOPS:
        vendor.trouble = ("ok", stop)
        with pytest.raises(BatchesFailed) as stopped:
            build_without_prefect(config, root, retry=Retry())
        errors.append(stopped.value)
    for url in ("http://127.0.0.1:9", "ftp://127.0.0.1", "http://127.0.0.1:99999"):
        nowhere = load(config_file(**config_of(url)))
        build_without_prefect(nowhere, root, retry=Retry())
    vendor.trouble = ("ok",)
    build_without_prefect(config, root, retry=Retry())
    assert vendor.keys == set(KEYS.values())
    assert set(vendor.seen) == {"ok", *STOPS, *FAILS, *AGAIN, *ODD}
    assert set(Outcome) - outcomes_in(root, config) == {
        *(Outcome.RATE_LIMITED, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.MISSING, Outcome.ABANDONED),
    }
    assert all_leaks(root, errors) == []


@pytest.mark.slow
def test_no_key_is_left_by_vendor_batches(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, vendor: QuotingVendor, all_leaks: Search
) -> None:
    simulator.post("knobs", FAULTS | BATCH_FAULTS)
    changes = {"transport": {"default": "batch"}, "batch_poll_s": 0.05, "limits": {"default": {"stall_limit_s": 0.5}}}
    config, root = load(config_file(**config_of(vendor.url, **changes))), tmp_path / "w"
    errors: list[BaseException] = []
    some = ("ok", "ok", "ok", "ok")
    for trouble in (
        (*STOPS, *FAILS),
        (*AGAIN,),
        ODD,
        (*some, *STOPS),
        (*some, *ODD),
        (*some, *FAILS, *AGAIN),
        some,
        some,
    ):
        vendor.trouble = trouble
        try:
            build_without_prefect(config, root, retry=Retry())
        except BatchesFailed as failed:
            errors.append(failed)
    assert errors
    assert vendor.keys == set(KEYS.values())
    found = load_batches(root)
    assert {batch.state for batch in found} >= {"collected", "void"}
    assert sum(batch.strays for batch in found) > 0
    found_outcomes = {Outcome.OK, Outcome.REFUSED, Outcome.MALFORMED, Outcome.MISSING, Outcome.EXPIRED, Outcome.SERVER}
    assert found_outcomes <= outcomes_in(root, config)
    assert all_leaks(root, errors) == []


@pytest.mark.slow
def test_no_key_is_left_by_a_run_under_prefect(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, vendor: QuotingVendor
) -> None:
    simulator.post("knobs", FAULTS)
    vendor.trouble = ("ok", "ok", "ok", *STOPS, "ok", "ok", "ok", *AGAIN, *ODD)
    path, root = config_file(**config_of(vendor.url)), tmp_path / "w"
    ended = criticgen_process("run", path, "--workspace", root, env=LOUD | {"PREFECT_API_URL": ""})
    assert ended.returncode == 1
    assert "ended red" in ended.stderr
    assert "openai._base_client" in ended.stderr
    with closing(sqlite3.connect(root / "prefect" / "prefect.db")) as database:
        logged = database.execute("SELECT count(*) FROM log WHERE name LIKE 'openai%'").fetchone()
        states = database.execute("SELECT count(*) FROM task_run_state WHERE type = 'FAILED'").fetchone()
    assert logged[0] > 0 < states[0]
    ping = criticgen("check", path, "--ping")
    assert ping.returncode == 1
    printed = [
        *leaks("stdout", ended.stdout),
        *leaks("stderr", ended.stderr),
        *leaks("check", ping.stdout + ping.stderr),
    ]
    assert printed + leaks_in_files(root) + leaks_of_commands(root) == []

"""Jobs beside the build: what they share, with the real simulator over real HTTP."""

import json
import os
import subprocess
import sys

import polars as pl
import pytest
import yaml
from pipeline import write_config

from flows.jobs import run_job
from storage.schemas import LEVEL_COLUMNS
from storage.workspace import Workspace
from tasks.config import load_config
from tasks.job_quote import Planned, job_quote
from tasks.jobs import Asker, Job, JobFailed, Kind, load_job
from tasks.prompts import fenced, fenced_item, load_prompt
from tasks.settings import ConfigError
from tasks.trajectories import Trajectory

MODEL = "openai/sim-judge-a"
ABOUT = ("question", "answer", "dimension")


def messages(row):
    item = fenced_item("objective", row["dimension"], [f"{name} of it" for name in LEVEL_COLUMNS])
    question, answer = fenced("question", row["question"]), fenced("answer", row["answer"])
    return load_prompt("trajectory").render(question=question, answer=answer, rubric_item=item)


SCORE = Kind("score", "trajectory", Trajectory, ABOUT, messages)
TELL = Kind("tell", "answer", str, ("question",), lambda row: load_prompt("answer").render(question=row["question"]))


def made_rows(count):
    return pl.DataFrame(
        {
            "question": [f"What is {n} + 2?" for n in range(count)],
            "answer": "5",
            "dimension": "Sum",
            "place": range(count),
        }
    )


def scored(rows, size=3):
    async def work(asker: Asker):
        async def shard_of(shard, part):
            return await asker.ask(SCORE, asker.run.config.asked[0], part, shard)

        return [value for values in await asker.over(rows, size, shard_of) for value in values]

    return work


def job_of(url, **values):
    return Job(name="scores", asked=[MODEL], simulator={"url": url}, **values)


def test_answers_come_in_the_order_of_the_rows_and_are_paid_once(simulator, tmp_path):
    rows = made_rows(7)
    twice = pl.concat([rows, rows.with_columns(place=pl.col("place") + 100)])
    place, job = Workspace(tmp_path / "job"), job_of(simulator.url)
    first = run_job(job, place, scored(twice))
    assert len(first) == 14
    assert all(0 <= value.score <= 5 for value in first)
    assert first[:7] == first[7:]
    calls = simulator.calls()
    assert calls == 7
    assert run_job(job, place, scored(twice)) == first
    assert run_job(job, place, scored(twice, size=5)) == first, "other shards, the same calls"
    assert simulator.calls() == calls
    assert len(run_job(job, place, scored(made_rows(9)))) == 9
    assert simulator.calls() == calls + 2


def test_a_quote_counts_what_is_left_and_knows_what_was_measured(simulator, tmp_path):
    price = {"input_usd_per_mtok": 1000, "output_usd_per_mtok": 2000}
    place, job = Workspace(tmp_path / "job"), job_of(simulator.url, prices={MODEL: price})
    rows = made_rows(7)
    twice = pl.concat([rows, rows])

    def quote(of):
        return job_quote(job, place, [Planned(SCORE, job.asked[0], of, output_tokens=100)])[0]

    before = quote(twice)
    assert (before["calls"], before["done"], before["left"]) == (7, 0, 7)
    assert before["output_tokens"] == 700
    assert before["usd"] == pytest.approx(before["input_tokens"] / 1000 + before["output_tokens"] / 500, rel=0.01)
    assert not before["measured"]
    assert simulator.calls() == 0
    run_job(job, place, scored(rows))
    after = quote(made_rows(9))
    assert (after["calls"], after["done"], after["left"]) == (9, 7, 2)
    assert after["measured"]
    calls = place.read_table("calls")
    assert after["output_tokens"] == pytest.approx(2 * calls["output_tokens"].mean(), abs=2)


def test_text_comes_back_as_it_is_and_samples_differ(simulator, tmp_path):
    rows = pl.concat([made_rows(2).with_columns(sample=pl.lit(number)) for number in range(3)])

    async def work(asker):
        return await asker.ask(TELL, asker.run.config.asked[0], rows, "00000")

    said = run_job(job_of(simulator.url), Workspace(tmp_path / "job"), work)
    assert len(said) == 6
    assert all(isinstance(text, str) and text for text in said)
    assert simulator.calls() == 6


def test_a_job_whose_calls_fail_says_so_and_the_next_one_asks_them_again(simulator, tmp_path):
    place, job = Workspace(tmp_path / "job"), job_of(simulator.url)
    simulator.post("script", {"script": {"sim-judge-a": ["fault_refusal"] * 7}})
    with pytest.raises(JobFailed, match="score 00000 all: 0 of 3 ok, 3 failed"):
        run_job(job, place, scored(made_rows(7)))
    refused = simulator.calls()
    with pytest.raises(JobFailed):
        run_job(job, place, scored(made_rows(7)))
    assert simulator.calls() == refused, "a refusal stands until it is to be asked again"
    assert None not in run_job(job, place, scored(made_rows(7)), retry=True)


def test_few_failures_are_none(simulator, tmp_path):
    place, job = Workspace(tmp_path / "job"), job_of(simulator.url, max_failed=1.0)
    simulator.post("script", {"script": {"sim-judge-a": ["fault_refusal"] * 4}})
    assert run_job(job, place, scored(made_rows(4))) == [None] * 4


IN_FLOW = """
import asyncio, json, sys
import polars as pl
from prefect import flow
from flows.jobs import run_job_in_flow
from storage.workspace import Workspace
from tasks.job_quote import Planned, job_quote
from tasks.jobs import Job, Kind
from tasks.prompts import load_prompt

TELL = Kind("tell", "answer", str, ("question",), lambda row: load_prompt("answer").render(question=row["question"]))

@flow(retries=1)
async def telling(url: str, workspace: str) -> list[str]:
    job = Job(name="telling", asked=["openai/sim-judge-a"], simulator={"url": url})

    async def work(asker):
        async def shard_of(shard, part):
            return await asker.ask(TELL, job.asked[0], part, shard)
        return await asker.over(pl.DataFrame({"question": [f"What is {n} + 2?" for n in range(5)]}), 3, shard_of)

    return sum(await run_job_in_flow(job, Workspace(workspace), work), [])

print(json.dumps(asyncio.run(telling(*sys.argv[1:]))))
"""


def test_a_retry_of_the_flow_run_asks_what_failed_and_nothing_else(simulator, tmp_path, prefect_url):
    simulator.post("script", {"script": {"sim-judge-a": ["fault_refusal"] * 3}})
    command = [sys.executable, "-c", IN_FLOW, simulator.url, str(tmp_path / "job")]
    env = os.environ | {"PREFECT_API_URL": prefect_url}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert len(said) == 5
    assert all(said)
    assert simulator.calls() == 3 + 5
    calls = Workspace(tmp_path / "job").read_table("calls")
    assert calls.group_by("call_id").agg(pl.col("outcome").last())["outcome"].to_list() == ["ok"] * 5


def test_the_settings_of_a_build_hold_for_a_job(tmp_path):
    path = write_config(
        tmp_path,
        "http://127.0.0.1:9",
        teacher={"name": "openai/sim-teacher", "params": {"temperature": 0.5}, "max_output_tokens": 99},
        limits={"default": {"max_concurrency": 3}, "google/sim-medium": {"max_concurrency": 2}},
        transport={"openai/sim-teacher": "batch", "judges": "batch"},
        budget_usd=4,
        prices={
            name: {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
            for name in ("openai/sim-teacher", "anthropic/sim-judge-a")
        },
    )
    load_config(path)
    job = load_job("check", ["openai/sim-teacher", "openai/sim-other"], path)
    assert job.asked[0].params == {"temperature": 0.5}
    assert job.asked[0].max_output_tokens == 99
    assert job.asked[1].params == {}
    assert job.limits_of("openai/sim-other").max_concurrency == 3
    assert list(job.limits) == ["default"]
    assert list(job.prices) == ["openai/sim-teacher"]
    assert job.budget_usd == 4
    assert job.transport_of("score", "openai/sim-teacher") == "batch"
    assert job.simulator is not None
    assert job.simulator.url == "http://127.0.0.1:9"


def test_a_file_of_its_own_and_no_file(tmp_path):
    assert load_job("check", ["openai/sim-x"], None).simulator is not None
    assert load_job("check", ["openai/gpt-5"], None).simulator is None
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"models": [{"name": "near/critic", "max_output_tokens": 7}], "endpoints": {}}))
    with pytest.raises(ConfigError, match="no endpoint 'near'"):
        load_job("check", ["near/critic"], path)
    near = {"near": {"api": "openai-chat", "base_url": "http://127.0.0.1:8000/v1"}}
    path.write_text(yaml.safe_dump({"models": [{"name": "near/critic", "max_output_tokens": 7}], "endpoints": near}))
    assert load_job("check", ["near/critic"], path, ["give_up_after=2"]).give_up_after == 2
    with pytest.raises(ConfigError, match="vendor/model"):
        load_job("check", ["critic"], path)

"""``criticgen evaluate --model`` and ``--verifier``: critics asked through the real simulator over real HTTP."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import yaml
from pipeline import Simulator, criticgen

from deployments.simulator.teacher import true_item_score
from storage.workspace import Workspace
from tasks.evaluation.examine import SHARD

CRITIC = ("--model", "openai/sim-critic")
VERIFIER = ("--verifier", "google/sim-verifier")
QUIETLY = ("--embedder", "none", "--json")


@pytest.fixture
def job_file(tmp_path: Path, simulator: Simulator) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"simulator": {"url": simulator.url}}))
    return path


def asked(*arguments: str | Path) -> dict:
    ended = criticgen("evaluate", *arguments, *QUIETLY)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_critic_and_a_verifier_are_asked_once(simulator, finished_workspace, job_file, tmp_path):
    reference = finished_workspace / "exports/refine_data/train.parquet"
    arguments = ("--reference", reference, *CRITIC, *VERIFIER, "--config", job_file, "--workspace", tmp_path / "ev")
    arguments += ("--limit", "110")
    rows = pl.read_parquet(reference).head(110)
    different = rows.select("question", "answer", "family", "dimension", "^level_.$").n_unique()
    lines = json.loads(criticgen("evaluate", *arguments, *QUIETLY, "--dry-run").stdout)
    assert [(line["stage"], line["left"], line["at_most"]) for line in lines] == [
        ("critique", different, False),
        ("verify", different, True),
    ]
    assert simulator.calls() == 0
    found = asked(*arguments)
    assert found["simulated"]
    assert found["references"] == 110
    overall = found["scores"][0]
    assert (overall["n"], overall["without_prediction"]) == (110, 0)
    refined = found["refinement"][0]
    assert refined["n"] == 110
    assert refined["improved"]["value"] > 0.3 > refined["degraded"]["value"], "a simulated refinement is never worse"
    assert found["gold"][0]["n"] == 110
    assert simulator.calls() == 2 * different, "rows about the same share a call"
    assert asked(*arguments) == found
    assert simulator.calls() == 2 * different
    # The order in which the verifier saw the two is undone: its scores are the right answers' true ones.
    said = pl.read_parquet(tmp_path / "ev/predictions.parquet")
    assert len(said) == 110 > SHARD
    right = [
        (
            told["score_before"] == true_item_score(row["question"], row["answer"], row["family"], row["dimension"]),
            told["score_after"]
            == true_item_score(row["question"], told["refined_answer"], row["family"], row["dimension"]),
        )
        for row, told in zip(rows.to_dicts(), said.to_dicts(), strict=True)
    ]
    assert min(sum(side) for side in zip(*right, strict=True)) > 0.85 * 110, "but for the simulated models' noise"


def test_a_verifier_scores_what_a_file_says(simulator, finished_workspace, job_file, tmp_path):
    rows = pl.read_parquet(finished_workspace / "exports/refine_data/train.parquet").head(9)
    rows.write_parquet(tmp_path / "reference.parquet")
    said = rows.select("instance_id", refined_answer=pl.when(pl.int_range(9) > 1).then("refined_answer"))
    said.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "said.parquet")
    files = ("--reference", tmp_path / "reference.parquet", "--predictions", tmp_path / "said.parquet")
    found = asked(*files, *VERIFIER, "--config", job_file, "--workspace", tmp_path / "ev")
    assert (found["refinement"][0]["n"], found["refinement"][0]["without_score"]) == (7, 2)
    assert simulator.calls() == 7
    ended = criticgen("evaluate", "--reference", tmp_path / "reference.parquet", "--predictions",
                      finished_workspace / "exports/rubric_data/train.parquet", *VERIFIER)  # fmt: skip
    assert ended.returncode == 1
    assert "no column refined_answer" in ended.stderr or "no instance_id of" in ended.stderr


def test_a_critic_of_an_ablation_and_a_general_model(simulator, finished_workspace, job_file, tmp_path):
    common = ("--reference", finished_workspace / "exports/refine_data/test.parquet", "--config", job_file)
    bare = asked(*common, *CRITIC, "--without", "reason", "--workspace", tmp_path / "bare")
    assert "reason" in bare["not_measured"]
    assert pl.read_parquet(tmp_path / "bare/predictions.parquet").columns[1:] == [
        "score",
        "suggestion",
        "refined_answer",
    ]
    rewriting = asked(*common, *CRITIC, "--rewrite-only", *VERIFIER, "--workspace", tmp_path / "rewrite")
    assert "scores" not in rewriting
    assert rewriting["refinement"][0]["n"] > 0
    general = asked(*common, *CRITIC, "--prompts", "teacher", "--workspace", tmp_path / "general")
    assert general["scores"][0]["n"] == general["references"]


def test_rubrics_are_asked_for_and_their_sensitivity_measured(simulator, finished_workspace, job_file, tmp_path):
    reference = finished_workspace / "exports/rubric_data/train.parquet"
    common = ("--reference", reference, *CRITIC, "--config", job_file, "--workspace", tmp_path / "ev")
    rows = pl.read_parquet(reference)
    questions = rows["question"].n_unique()
    lines = json.loads(criticgen("evaluate", *common, "--control", *QUIETLY, "--dry-run").stdout)
    assert [line["left"] for line in lines] == [len(rows), 2 * questions]
    found = asked(*common, "--control")["rubrics"]
    assert (found["asked"], found["valid"]) == (len(rows), len(rows))
    assert sum(found["families"].values()) == pytest.approx(found["items"] * found["valid"])
    assert simulator.calls() == len(rows) + 2 * questions
    assert 0 < found["sensitivity"]["mean"] <= 1
    assert found["control_sensitivity"]["questions"] == questions
    said = tmp_path / "ev/predictions.parquet"
    sheets = criticgen("rate", "export", "--rubrics", said, "--against", reference, "--out", tmp_path / "rate")
    assert sheets.returncode == 0, sheets.stderr
    refused = criticgen("evaluate", *common, *VERIFIER)
    assert "none of them an answer to verify" in refused.stderr


def test_feedback_bench_is_asked_on_its_own_scale(simulator, job_file, tmp_path):
    levels = {f"orig_score{level}_description": f"level {level} it is" for level in range(1, 6)}
    rows = [
        {"orig_instruction": f"What is {n} + 2?", "orig_response": f"1. It is {n} + 2 = {n + 2}\nFinal answer: {n + 2}"}
        | {"orig_reference_answer": "-", "orig_criteria": "Is the sum right?", **levels, "orig_score": str(1 + n % 5)}
        for n in range(10)
    ]
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = asked("--reference", path, *CRITIC, "--config", job_file, "--workspace", tmp_path / "ev")
    assert found["scale"] == [1, 5]
    assert found["scores"][0]["n"] == 10
    said = pl.read_parquet(tmp_path / "ev/predictions.parquet")
    assert said["score"].is_between(1, 5).all()


def test_what_cannot_be_asked_is_said(finished_workspace, job_file, tmp_path):
    reference = ("--reference", finished_workspace / "exports/refine_data/test.parquet")
    for arguments, said in (
        ((), "give the critic's predictions (a file), or a model to ask"),
        ((*CRITIC, "--predictions", tmp_path / "x.jsonl"), "one of the two"),
        ((*CRITIC, "--prompts", "mine"), "prompts: Input should be 'critic' or 'teacher'"),
        ((*CRITIC, "--without", "score"), "without.0: Input should be 'reason' or 'suggestion'"),
        (("--model", "critic"), "not of the form vendor/model"),
        ((*CRITIC, "--column", "reference.dimension=topic"), "no column 'topic' to ask a critic about"),
    ):
        ended = criticgen("evaluate", *reference, *arguments)
        assert ended.returncode == 1
        assert said in ended.stderr
    for name, text, said in (
        ("a.jsonl", '{"question": "q", "answer": "a", "dimension": "d"}\n', "no column says what a score means"),
        ("b.jsonl", '{"question": "q", "answer": "", "dimension": "d", "level_0": "l"}\n', "b.jsonl:1: no answer"),
        ("c.jsonl", '{"question": "q"\n', "c.jsonl:1: not JSON"),
    ):
        (tmp_path / name).write_text(text)
        ended = criticgen("evaluate", "--reference", tmp_path / name, *CRITIC, "--config", job_file)
        assert ended.returncode == 1
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_killed_evaluation_goes_on(simulator, finished_workspace, job_file, tmp_path):
    reference = finished_workspace / "exports/refine_data/train.parquet"
    arguments = ["evaluate", "--reference", reference, *CRITIC, *VERIFIER, "--config", job_file, "--workspace"]
    arguments += [tmp_path / "ev", "--set", "limits.default.max_concurrency=4", *QUIETLY]
    simulator.post("knobs", {"latency_s": 0.02})
    command = [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for _ in range(1500):
            if simulator.calls() >= 60 or process.poll() is not None:
                break
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it was killed"
        os.kill(process.pid, signal.SIGKILL)
    asked(*arguments[1:-3])
    served = simulator.answered()
    assert sum(count - 1 for count in served.values()) <= 8, "only what was in flight is asked twice"
    assert Workspace(tmp_path / "ev").read_table("calls")["outcome"].unique().to_list() == ["ok"]


IN_FLOW = """
import asyncio, json, sys
from flows.evaluate import evaluate_critic
from flows.evaluation import Evaluation

reference, config, workspace = sys.argv[1:]
evaluation = Evaluation(reference=reference, model="openai/sim-critic", verifier="google/sim-verifier", embedder="none")
print(json.dumps(asyncio.run(evaluate_critic(evaluation, config, workspace))))
"""


def test_the_flow_gives_the_same(simulator, finished_workspace, job_file, tmp_path, prefect_url):
    reference = finished_workspace / "exports/refine_data/test.parquet"
    command = [sys.executable, "-c", IN_FLOW, reference, job_file, tmp_path / "flow"]
    env = os.environ | {"PREFECT_API_URL": prefect_url}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    by_hand = ("--reference", reference, *CRITIC, *VERIFIER, "--config", job_file, "--workspace", tmp_path / "hand")
    assert json.loads(ended.stdout) == asked(*by_hand)
    assert (tmp_path / "flow/report/report.html").stat().st_size > 10_000

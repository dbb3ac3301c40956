import os
from collections import Counter
from statistics import mean

import pytest
from hypothesis import given, settings, strategies as st

from deployments.simulator import Knobs, true_item_score, true_scores
from deployments.simulator.checker import flaws
from deployments.simulator.dice import Dice
from deployments.simulator.mending import mend
from deployments.simulator.solver import coverage_answer, generator_answer
from deployments.simulator.teacher import base_dimension, given_score, rubric, trajectory
from tasks.rubrics import Rubric

QUESTION = "A baker has 24 rolls, sells 9 and bakes 5 trays of 12 more. How many rolls are there in the end?"
ANSWERS = [generator_answer(QUESTION, model, n) for model in ("sim-tiny", "sim-large") for n in range(50)]
LEVELS = [f"level {level} is this" for level in range(6)]


def test_rubrics_keep_the_pipelines_contract() -> None:
    for answer in [*ANSWERS, "", "no idea", "#### 7"]:
        Rubric.model_validate({"items": rubric(QUESTION, answer, 3)})


def test_rubrics_have_three_to_eight_items_and_five_on_average() -> None:
    sizes = [len(rubric(QUESTION, answer, 3)) for answer in ANSWERS]
    assert set(sizes) == {3, 4, 5, 6, 7, 8}
    assert 4.5 < mean(sizes) < 5.5
    assert min(len(rubric(QUESTION, answer, 6)) for answer in ANSWERS) >= 6


def test_a_rubric_is_about_its_answer() -> None:
    texts = {repr(rubric(QUESTION, answer, 3)) for answer in set(ANSWERS)}
    assert len(texts) == len(set(ANSWERS))


def test_some_items_repeat_an_earlier_one() -> None:
    items = [item for answer in ANSWERS for item in rubric(QUESTION, answer, 3)]
    repeated = [item for item in items if base_dimension(item["dimension"]) != item["dimension"]]
    assert 0.02 < len(repeated) / len(items) < 0.12


def test_item_scores_are_near_the_familys() -> None:
    scores = Counter(true_item_score(QUESTION, ANSWERS[0], "subjective", f"name {n}") for n in range(1000))
    true = true_scores(QUESTION, ANSWERS[0])["subjective"]
    assert set(scores) <= {true - 1, true, true + 1}
    assert 750 < scores[true] < 850
    assert true_item_score(QUESTION, "", "objective", "name (again)") == 0


@pytest.mark.parametrize(
    ("model", "options", "off"),
    [
        ("sim-teacher", {}, 0.05),
        ("sim-judge-a", {}, 0.1),
        ("sim-judge-a", {"judge_noise": 0}, 0.0),
        ("sim-judge-b", {"judge_noise.sim-judge-b": 0.3}, 0.3),
        ("sim-judge-a", {"judge_noise": 0, "judge_bias": -0.4}, 0.4),
    ],
)
def test_noise_and_bias(model: str, options: dict[str, float], off: float) -> None:
    knobs = Knobs.of(options).for_model(model)
    scores = [given_score(3, model, knobs, str(n)) for n in range(2000)]
    assert mean(score != 3 for score in scores) == pytest.approx(off, abs=0.03)
    assert set(scores) <= ({2, 3} if "judge_bias" in options else {2, 3, 4})


def test_noise_stays_within_the_scale() -> None:
    knobs = Knobs(teacher_noise=1.0)
    assert {given_score(0, "sim-teacher", knobs, str(n)) for n in range(50)} == {1}
    assert {given_score(5, "sim-teacher", knobs, str(n)) for n in range(50)} == {4}


@given(
    answer=st.sampled_from(ANSWERS) | st.builds(coverage_answer, st.just(QUESTION), st.integers(0, 4), st.integers())
)
@settings(max_examples=60, deadline=None)
def test_mending_a_flaw_never_lowers_a_score(answer: str) -> None:
    before = true_scores(QUESTION, answer)
    for flaw in flaws(QUESTION, answer):
        after = true_scores(QUESTION, mend(QUESTION, answer, flaw, Dice("seed")))
        assert after[flaw.family] > before[flaw.family] or before[flaw.family] == 0
        assert sum(after.values()) >= sum(before.values())


@pytest.mark.parametrize("answer", ["", "It is 12.", "3 + 4 = 8 and 8 + 1 = 9\n#### 9", *ANSWERS[:20]])
def test_refined_answers_are_at_least_as_good(answer: str) -> None:
    for item in rubric(QUESTION, answer, 3):
        said = trajectory(
            QUESTION, answer, item["family"], item["dimension"], LEVELS, model="sim-teacher", knobs=Knobs(), call="c"
        )
        before, after = true_scores(QUESTION, answer), true_scores(QUESTION, said["refined_answer"])
        assert sum(after.values()) >= sum(before.values())
        assert all(said[name] for name in ("reason", "suggestion"))


def test_models_word_the_same_finding_differently() -> None:
    said = [
        trajectory(QUESTION, ANSWERS[0], "objective", "Use of the 9", LEVELS, model=model, knobs=Knobs(), call="c")
        for model in ("sim-teacher", "sim-judge-a", "sim-judge-b")
    ]
    assert len({one["reason"] for one in said}) == 3


def test_a_perfect_answer_is_kept() -> None:
    answer = coverage_answer(QUESTION, 5, 1)
    knobs = Knobs(teacher_noise=0.0)
    names = [f"name {n}" for n in range(20)]
    five = next(name for name in names if true_item_score(QUESTION, answer, "objective", name) == 5)
    said = trajectory(QUESTION, answer, "objective", five, LEVELS, model="sim-teacher", knobs=knobs, call="c")
    assert (said["score"], said["refined_answer"]) == (5, answer)


@pytest.mark.skipif(
    not os.environ.get("CRITICGEN_TEST_DATA"), reason="CRITICGEN_TEST_DATA names no folder of real data"
)
def test_a_twentieth_of_refine_rows_are_near_duplicates() -> None:
    rows = _refine_rows(30)
    grams = [_grams(row) for row in rows]
    kept: list[set[tuple[str, ...]]] = []
    for one in grams:
        if all(4 * len(one & other) <= 3 * len(one | other) for other in kept):
            kept.append(one)
    assert 0.01 < 1 - len(kept) / len(grams) < 0.15


def _refine_rows(count: int) -> list[str]:
    import json
    from pathlib import Path

    file = Path(os.environ["CRITICGEN_TEST_DATA"]) / "questions/gsm8k_test.jsonl"
    questions = [json.loads(line)["question"] for line in file.read_text(encoding="utf-8").split("\n")[:count]]
    rows = []
    for question in questions:
        for generator in ("sim-tiny", "sim-small", "sim-large"):
            answer = generator_answer(question, generator, "seed")
            for item in rubric(question, answer, 3, "sim-teacher"):
                levels = [item[f"level_{level}"] for level in range(6)]
                said = trajectory(
                    question, answer, item["family"], item["dimension"], levels,
                    model="sim-teacher", knobs=Knobs(), call="c",
                )  # fmt: skip
                texts = [item["dimension"], *levels, said["reason"], said["suggestion"], said["refined_answer"]]
                rows.append("\n".join(texts))
    return rows


def _grams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))

"""Planted slips are found by the checker, and levels and strengths come out as meant."""

import json
import os
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings, strategies as st

from deployments.simulator.checker import flaws, true_quality, true_scores
from deployments.simulator.dice import Dice
from deployments.simulator.solver import coverage_answer, generator_answer, write_answer
from deployments.simulator.working import figure, right_working

QUESTION = "A baker has 24 rolls, sells 9 and bakes 5 trays of 12 more. How many rolls are there in the end?"
QUESTIONS = [
    f"{name} keeps {40 + 7 * n} {thing} in {2 + n % 5} boxes, loses {3 + n % 11} and finds {n % 13 + 6} {other}."
    for n, (name, thing, other) in enumerate(
        (name, thing, other)
        for name in ("Ana", "Bo", "Chike", "Dara", "Eli")
        for thing in ("marbles", "stamps", "shells", "coins")
        for other in ("pebbles", "buttons", "badges", "cards", "beads")
    )
]
FOUND_AS = {
    "off_by_one": "false_equation",
    "wrong_operation": "wrong_operation",
    "wrong_number": "wrong_number",
    "wrong_claim": "wrong_claim",
    "broken_chain": "broken_chain",
    "wrong_reference": "wrong_reference",
    "no_explanation": "no_explanation",
    "filler": "filler",
    "garbled": "garbled",
}


@given(seed=st.integers(), question=st.sampled_from(QUESTIONS))
@settings(max_examples=60, deadline=None)
def test_an_answer_without_slips_is_without_flaws(seed: int, question: str) -> None:
    assert flaws(question, write_answer(question, (), Dice(seed))) == ()


@given(kind=st.sampled_from(sorted(FOUND_AS)), place=st.integers(1, 2), seed=st.integers())
@settings(max_examples=200, deadline=None)
def test_a_slip_is_found_where_it_was_planted(kind: str, place: int, seed: int) -> None:
    answer = write_answer(QUESTION, {(kind, place)}, Dice(seed))
    found = flaws(QUESTION, answer)
    assert FOUND_AS[kind] in {flaw.kind for flaw in found if kind == "filler" or flaw.step == place}
    assert {flaw.kind for flaw in found} <= {FOUND_AS[kind], "wrong_result"}


@given(seed=st.integers())
@settings(max_examples=30, deadline=None)
def test_slips_of_the_whole_answer_are_found(seed: int) -> None:
    contradicting = flaws(QUESTION, write_answer(QUESTION, {("contradiction", -1)}, Dice(seed)))
    assert [flaw.kind for flaw in contradicting] == ["wrong_result", "contradiction"]
    unnumbered = flaws(QUESTION, write_answer(QUESTION, {("unnumbered", -1)}, Dice(seed)))
    assert [flaw.kind for flaw in unnumbered] == ["unnumbered"]


@given(level=st.integers(0, 5), question=st.sampled_from(QUESTIONS), seed=st.integers())
@settings(max_examples=60, deadline=None)
def test_a_coverage_answer_has_its_level_in_every_family(level: int, question: str, seed: int) -> None:
    scores = true_scores(question, coverage_answer(question, level, seed))
    assert scores == dict.fromkeys(("subjective", "objective", "self_derived"), level)


def test_stronger_models_answer_better() -> None:
    means = [
        mean(true_quality(question, generator_answer(question, model, "seed")) for question in QUESTIONS)
        for model in ("sim-tiny", "sim-small", "sim-medium", "sim-large")
    ]
    assert means == sorted(means)
    assert means[3] - means[0] > 1
    assert all(after - before > 0.2 for before, after in pairwise(means))


def test_answers_differ_between_models_and_samples() -> None:
    answers = {generator_answer(q, m, s) for q in QUESTIONS[:20] for m in ("sim-small", "sim-large") for s in (0, 1)}
    assert len(answers) > 75


def test_a_plain_chain_is_worked_out_as_it_should_be() -> None:
    working = right_working("Start with 12, add 5, multiply by 3, subtract 6. What do you get?")
    assert [step.equation for step in working.steps] == ["12 + 5 = 17", "17 * 3 = 51", "51 - 6 = 45"]


@given(question=st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_every_text_has_a_short_exact_working(question: str) -> None:
    steps = right_working(question).steps
    assert 3 <= len(steps) <= 6
    assert all(isinstance(step.result, int) and step.result > 0 for step in steps)
    assert all(before.result == after.left for before, after in pairwise(steps))


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (-3, "-3"), (2.5, "2.5"), (0.25, "0.25"), (1250, "1250")])
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.skipif(
    not os.environ.get("CRITICGEN_TEST_DATA"), reason="CRITICGEN_TEST_DATA names no folder of real data"
)
def test_real_questions_and_solutions() -> None:
    folder = Path(os.environ["CRITICGEN_TEST_DATA"])
    lines = (folder / "questions/gsm8k_test.jsonl").read_text(encoding="utf-8").split("\n")[:50]
    rows = [json.loads(line) for line in lines]
    for row in rows:
        assert set(true_scores(row["question"], row["answer"])) == {"subjective", "objective", "self_derived"}
        for level in range(6):
            assert true_quality(row["question"], coverage_answer(row["question"], level, "seed")) == level
    assert len({generator_answer(row["question"], "sim-large", "seed") for row in rows}) == 50

import json
import os
import re
from pathlib import Path

import pytest

from tasks.evaluation.gold import equivalent, final_answer, gold_figures

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", "none"))


@pytest.mark.parametrize(
    ("text", "answer", "mark"),
    [
        ("Add 40 and 2.\n#### 1,042\nDone", "1042", "hashes"),
        (r"so $\boxed{\frac{1}{2}}$ and #### none", "none", "hashes"),
        (r"so $x = \boxed{7}$. The answer is 8", "7", "boxed"),
        ("16 - 9 = 7\nA: 18", "18", "phrase"),
        ("**Answer:** 18 eggs.", "18 eggs", "phrase"),
        ("The final answer is: $18$.", "$18$", "phrase"),
        ("The answer is 3. No, the answer is 4.", "4", "phrase"),
        ("She makes 9 * 2 = $18 per day, 1,000.5 in all.", "1,000.5", "last_number"),
        ("I do not know.", None, None),
        ("", None, None),
    ],
)
def test_the_final_answer_and_its_mark(text: str, answer: str | None, mark: str | None) -> None:
    assert final_answer(text) == (answer, mark)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("1,080", "1080"),
        ("$1,080.00", "1080"),
        ("18 eggs", "18"),
        ("50%", "50"),
        ("-$5", "-5"),
        ("\u22123", "-3"),
        ("1/2", "0.5"),
        (r"\frac{1}{2}", "0.5"),
        (r"$\dfrac{3}{6}$", r"\frac12"),
        (r"2\sqrt{2}", r"\sqrt{8}"),
        (r"\{1, 2\}", r"\{2, 1\}"),
        ("(1,2)", r"\left(1, 2\right)"),
        (r"\boxed{7}", "7"),
        ("Blue", "blue"),
        (r"x = 4", "4"),
    ],
)
def test_answers_that_are_equal(answer: str, gold: str) -> None:
    assert equivalent(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("18", "81"), ("-5", "5"), ("0.33", "1/3"), ("12", "1,2"), (r"\sqrt{2}", "2"), ("(2,1)", "(1,2)"), ("", "7"),
        ("blue", "red"), ("no number", "7"), ("1 " * 400, "1"),
    ],
)  # fmt: skip
def test_answers_that_are_not(answer: str, gold: str) -> None:
    assert not equivalent(answer, gold)


def test_what_refinement_did_to_the_answers_by_hand() -> None:
    found = gold_figures(
        ["18", "18", "18", "18", None, "#### 18"],
        ["#### 18", "#### 17", "#### 18", "nothing", "#### 1", "#### 18"],
        ["#### 18", "#### 18", "#### 3", "nothing", "#### 1", r"\boxed{18}"],
    )
    shares = {name: found[name]["value"] for name in found if isinstance(found[name], dict) and "value" in found[name]}
    assert shares == {"accuracy_before": 0.6, "accuracy_after": 0.6, "wrong_to_right": 0.2, "right_to_wrong": 0.2}
    assert (found["n"], found["without_gold"]) == (5, 1)
    assert found["marks"]["after"] == {"hashes": 3, "boxed": 1, "phrase": 0, "last_number": 0, "none": 1}
    assert gold_figures([], [], [])["accuracy_after"]["note"] == "nothing to count"


@pytest.mark.skipif(not DATA.is_dir(), reason="CRITICGEN_TEST_DATA names no folder")
def test_four_models_answers_to_700_questions_are_judged_as_recorded() -> None:
    lines = (DATA / "answers/gsm8k_example_model_solutions.jsonl").read_text(encoding="utf-8").split("\n")
    disagreements = []
    for row in (json.loads(line) for line in lines if line):
        (gold,) = re.findall(r"\nA: (.*)\Z", row["ground_truth"])
        for model, solution in row.items():
            if isinstance(solution, dict):
                answer = final_answer(solution["solution"]).text
                if (answer is not None and equivalent(answer, gold)) != solution["is_correct"]:
                    disagreements.append((model, solution["solution"][-60:], gold, solution["is_correct"]))
    assert disagreements == []

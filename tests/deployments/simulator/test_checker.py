import pytest
from hypothesis import given, settings, strategies as st

from deployments.simulator import true_quality, true_scores
from deployments.simulator.checker import flaws, read_answer

QUESTION = "Start with 12, add 5 pears, multiply by 3 boxes, subtract 6 apples. What do you get?"
RIGHT = """1. To begin, add the five pears: 12 + 5 = 17
2. Then fill three boxes of it: 17 * 3 = 51
3. Take off the apples, as step 2 came to 51: 51 - 6 = 45
Final answer: 45"""


def kinds(answer: str) -> list[str]:
    return [flaw.kind for flaw in flaws(QUESTION, answer)]


def test_a_right_answer_scores_five_in_every_family() -> None:
    assert true_scores(QUESTION, RIGHT) == {"subjective": 5, "objective": 5, "self_derived": 5}
    assert true_quality(QUESTION, RIGHT) == 5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("= 45", "= 44"), ["false_equation", "contradiction"]),
        (("17 * 3 = 51", "17 + 3 = 20"), ["wrong_operation", "broken_chain", "wrong_reference"]),
        (("51 - 6 = 45", "51 - 7 = 44"), ["wrong_number", "contradiction"]),
        (("the five pears", "the 8 pears"), ["wrong_claim"]),
        (("came to 51", "came to 50"), ["wrong_reference"]),
        (("51 - 6 = 45", "17 - 6 = 11"), ["broken_chain", "contradiction"]),
        (("answer: 45", "answer: 46"), ["wrong_result", "contradiction"]),
        (("Final answer: 45", ""), ["no_conclusion"]),
        (("2. Then fill three boxes of it: ", "2. "), ["no_explanation"]),
        (("1. To", "To"), ["unnumbered"]),
        (("Then fill", "Then then fill"), ["garbled"]),
        (("\nFinal", "\nMake of that what you will.\nFinal"), ["filler"]),
    ],
)
def test_each_flaw(change: tuple[str, str], expected: list[str]) -> None:
    assert kinds(RIGHT.replace(*change)) == expected


def test_text_without_equations_has_nothing_of_use() -> None:
    assert true_scores(QUESTION, "I would rather not say.") == {"subjective": 2, "objective": 0, "self_derived": 0}
    assert true_scores(QUESTION, " \n") == {"subjective": 0, "objective": 0, "self_derived": 0}


def test_real_solutions_are_read() -> None:
    reading = read_answer("He sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs.\nShe makes 9 * 2 = $<<9*2=18>>18.\n#### 18")
    assert [(step.left, step.result, step.holds) for step in reading.steps] == [(16, 9, True), (9, 18, True)]
    assert reading.final == 18


def test_quality_is_the_mean_rounded_half_up() -> None:
    one_claim = RIGHT.replace("the five pears", "the 8 pears")
    assert sum(true_scores(QUESTION, one_claim).values()) == 14
    assert true_quality(QUESTION, one_claim) == 5
    assert true_quality(QUESTION, one_claim.replace("1. To", "To").replace("came to 51", "came to 50")) == 4


@given(
    question=st.text(max_size=80),
    answer=st.text(alphabet=st.sampled_from("0123456789 +-*/=.,:$%\nstep Final"), max_size=120),
)
@settings(max_examples=200, deadline=None)
def test_any_text_has_scores(question: str, answer: str) -> None:
    assert all(0 <= score <= 5 for score in true_scores(question, answer).values())

import polars as pl
import pytest

from storage.schemas import FAMILIES
from tasks.evaluation.sensitivity import answer_sensitivity, shift, word_types
from tasks.evaluation.static_rubric import STATIC_RUBRIC


def test_word_types_are_lower_case_words_and_numbers_once() -> None:
    assert word_types(["Unit-price of 12 kg", "Units, Of_PRICE"]) == {"unit", "price", "of", "12", "kg", "units"}


def test_shift_by_hand() -> None:
    assert shift(frozenset("abc"), frozenset("bcde")) == pytest.approx(1 - 2 / 5)
    assert shift(frozenset(), frozenset("a")) == 1
    assert shift(frozenset(), frozenset()) == 0


def test_sensitivity_is_averaged_within_questions_first() -> None:
    rows = [
        ("q1", "a1", "Unit price"), ("q1", "a2", "Unit cost"), ("q1", "a3", "Unit price"),
        ("q2", "b1", "Tone"), ("q2", "b2", "Length"),
        ("q3", "c1", "Tone"),
    ]  # fmt: skip
    items = pl.DataFrame(rows, schema=["question_id", "answer_id", "dimension"], orient="row")
    # q1: pairs 2/3, 0, 2/3, mean 4/9; q2: 1; q3 has one rubric.
    found = answer_sensitivity(items)
    assert found["mean"] == pytest.approx((4 / 9 + 1) / 2)
    assert (found["questions"], found["single"]) == (2, 1)


def test_the_control_compares_two_rubrics_of_the_question_alone() -> None:
    rows = [("q1", 0, "Unit price"), ("q1", 1, "Unit price"), ("q1", 1, "Sums")]
    items = pl.DataFrame(rows, schema=["question_id", "sample", "dimension"], orient="row")
    assert answer_sensitivity(items, "sample")["mean"] == pytest.approx(1 / 3)
    alone = answer_sensitivity(items.filter(sample=0), "sample")
    assert (alone["mean"], alone["note"]) == (None, "no question has two rubrics")


def test_the_static_rubric_has_three_items_of_each_family_with_six_different_levels() -> None:
    assert [item.family for item in STATIC_RUBRIC] == [family for family in FAMILIES for _ in range(3)]
    assert len({item.dimension for item in STATIC_RUBRIC}) == 9
    assert {len(set(item.levels)) for item in STATIC_RUBRIC} == {6}

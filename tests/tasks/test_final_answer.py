import pytest
from hypothesis import given, strategies as st

from tasks.final_answer import last_boxed, split_at_hashes


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"so $x = \boxed{7}$.", "7"),
        (r"$\boxed{\frac{13}{6}}$", r"\frac{13}{6}"),
        (r"$\boxed{1}$ or rather $\boxed{2}$", "2"),
        (r"$\boxed{ \sqrt{\frac{a_{1}}{b^{2}}} }$", r"\sqrt{\frac{a_{1}}{b^{2}}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\{1, 2)}", r"\{1, 2)"),
        (r"\boxed {5}", "5"),
        (r"\fbox{9}", "9"),
        ("\\boxed{\n12\n}", "12"),
        (r"\boxed{3} and \boxed{", "3"),
        (r"\boxed{3} and \boxed{ }", "3"),
        (r"\boxed{3} and \boxed 4", "3"),
        (r"\boxed{never {closed}", None),
        (r"a proof, no box", None),
        ("", None),
    ],
)
def test_the_last_whole_box_is_the_answer(solution: str, answer: str | None) -> None:
    assert last_boxed(solution) == answer


@given(st.text(alphabet=r"ab \{}", max_size=30))
def test_any_text_has_a_boxed_answer_or_none(text: str) -> None:
    assert last_boxed(text) is None
    boxed = last_boxed(r"\boxed{1}" + text)
    assert boxed == "1"


def test_hashes_part_the_solution_from_the_answer() -> None:
    assert split_at_hashes("Add 40 and 2.\n#### 42") == ("Add 40 and 2.", "42")
    assert split_at_hashes("#### 5") == ("", "5")
    assert split_at_hashes("no mark") is None
    assert split_at_hashes("mark, no answer ####  ") is None


@pytest.mark.parametrize(
    ("written", "number"),
    [("1,080", "1080"), ("-2,520,000", "-2520000"), ("1,450.75", "1450.75"), ("1,2", "1,2"), ("12,3456", "12,3456")],
)
def test_thousands_commas_are_taken_out(written: str, number: str) -> None:
    assert split_at_hashes(f"#### {written}") == ("", number)

from decimal import Decimal
from typing import Any

import pytest

from tasks.config import Source
from tasks.sources import columns, gsm8k, limo, natural_reasoning, numinamath_cot, qwq_longcot
from tasks.sources.faults import UnusableRow
from tasks.sources.question import Question, optional, required


def test_gsm8k_has_its_answer_after_the_hashes() -> None:
    row = {"question": "How many?", "answer": "He has 2*540 = <<2*540=1080>>1,080.\n#### 1,080"}
    solution = "He has 2*540 = <<2*540=1080>>1,080."
    assert gsm8k.read(row) == Question("How many?", "1080", solution, "MIT")


def test_gsm8k_without_hashes_is_unusable() -> None:
    with pytest.raises(UnusableRow, match="no final answer after ####") as caught:
        gsm8k.read({"question": "How many?", "answer": "Two."})
    assert caught.value.kind == "missing_field"


def test_limo_has_solution_and_answer() -> None:
    row = {"question": "q", "solution": "long", "answer": "8"}
    assert limo.read(row) == Question("q", "8", "long", "Apache-2.0")
    assert limo.read({**row, "answer": 8}).reference_answer == "8"


def test_natural_reasoning_has_a_reference_or_none() -> None:
    row = {"question": "q", "reference_answer": "gravity", "responses": [{"response": "..."}]}
    assert natural_reasoning.read(row) == Question("q", "gravity", None, "CC-BY-NC-4.0")
    assert natural_reasoning.read({**row, "reference_answer": ""}).reference_answer is None


def test_numinamath_has_its_answer_in_the_last_box() -> None:
    row = {"source": "cn_k12", "problem": "p", "solution": r"so $\boxed{\frac{3}{8}}$", "messages": []}
    assert numinamath_cot.read(row) == Question("p", r"\frac{3}{8}", r"so $\boxed{\frac{3}{8}}$", "Apache-2.0")
    assert numinamath_cot.read({**row, "solution": "a proof"}).reference_answer is None


def test_qwq_longcot_has_no_reference() -> None:
    assert qwq_longcot.read({"problem": "p", "qwq": "hmm", "source": "s"}) == Question("p", None, None, "Apache-2.0")


def test_columns_are_those_that_the_config_names() -> None:
    source = Source(name="own", path="x.csv", question="puzzle", reference_answer="result")
    assert columns.columns(source) == ("puzzle", "result")
    assert columns.read({"puzzle": "p", "result": 51.0, "other": []}, source) == Question("p", "51")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("  as it stands ", "  as it stands "), ("", None), (" \n", None), (None, None), (float("nan"), None),
        (51.0, "51"), (0.5, "0.5"), (1e300, "1e+300"), (-3, "-3"), (2**80, "1208925819614629174706176"),
        (Decimal("1.50"), "1.50"), (True, "true"),
    ],
)  # fmt: skip
def test_a_reference_is_text_a_number_or_nothing(value: Any, text: str | None) -> None:
    assert optional({"a": value}, "a") == text


@pytest.mark.parametrize(
    ("row", "kind", "reason"),
    [
        ({"a": 1, "b": 2}, "missing_field", r"'q' is missing \(the row has 'a', 'b'\)"),
        ({}, "missing_field", r"'q' is missing \(the row has nothing\)"),
        ({"q": None}, "missing_field", "'q' is null"),
        ({"q": " \n"}, "empty", "'q' is empty"),
        ({"q": ["a"]}, "broken", "'q' is not text but a list"),
        ({"q": 7}, "broken", "'q' is not text but a number"),
    ],
)
def test_a_question_is_text_or_the_row_is_unusable(row: dict[str, Any], kind: str, reason: str) -> None:
    with pytest.raises(UnusableRow, match=f"^{reason}$") as caught:
        required(row, "q")
    assert caught.value.kind == kind


def test_a_list_is_no_reference() -> None:
    with pytest.raises(UnusableRow, match="'a' is not text but a list"):
        optional({"a": ["2"]}, "a")

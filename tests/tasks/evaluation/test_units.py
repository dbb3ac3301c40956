from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from tasks.evaluation.units import align, match, units_of


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Use a unit, e.g. metres. Then stop.", ["Use a unit, e.g. metres.", "Then stop."]),
        ("It is 3.5 times 1,000.25. The rest holds.", ["It is 3.5 times 1,000.25.", "The rest holds."]),
        ("Here $A = 3. B = 5.$ is used. So it holds.", ["Here $A = 3. B = 5.$ is used.", "So it holds."]),
        (r"The step \(f(x) = x. Then\) follows. Next.", [r"The step \(f(x) = x. Then\) follows.", "Next."]),
        ("We get $$x = 1.\ny = 2.$$ as said.", ["We get $$x = 1.\ny = 2.$$ as said."]),
        ("Use Eq. (3) there. The sum is 4.", ["Use Eq. (3) there.", "The sum is 4."]),
        ("See Fig. 3, i.e. the plot. Fix p. 5 too.", ["See Fig. 3, i.e. the plot.", "Fix p. 5 too."]),
        ("- Add the units\n- Correct the sum", ["- Add the units", "- Correct the sum"]),
        ("1. Add the units.\n2. Correct the sum.", ["1. Add the units.", "2. Correct the sum."]),
        ("Is it right? No. It is not!", ["Is it right?", "No.", "It is not!"]),
        ("答案是错的。请改正。", ["答案是错的。", "请改正。"]),
        ("It costs $5 a day. Then $7 a week.", ["It costs $5 a day.", "Then $7 a week."]),
        ("Right.\n---\nWrong.", ["Right. ---", "Wrong."]),
        ("", []),
        (" \n\t", []),
        ("...", []),
    ],
)
def test_units_are_sentences_and_lines(text: str, units: list[str]) -> None:
    assert units_of(text) == units


@given(st.text(max_size=80))
def test_no_letter_or_digit_is_lost(text: str) -> None:
    assert [c for c in "".join(units_of(text)) if c.isalnum()] == [c for c in text if c.isalnum()]


def test_precision_and_recall_by_hand() -> None:
    # Two generated units, three of the reference; cosines down the reference: (1, 0), (0.6, 0.8), (0, -1).
    generated = np.array([[1, 0], [0, 1]], np.float32)
    reference = np.array([[1, 0], [0.6, 0.8], [0, -1]], np.float32)
    precision, recall = (1 + 0.8) / 2, (1 + 0.8 + 0) / 3
    assert match(generated, reference) == pytest.approx((precision, recall, 2 * 0.9 * 0.6 / 1.5))


def test_text_without_a_unit_matches_only_its_like() -> None:
    none, some = np.empty((0, 2), np.float32), np.ones((1, 2), np.float32)
    assert match(none, none) == (1, 1, 1)
    assert match(none, some) == match(some, none) == (0, 0, 0)


def test_opposite_texts_have_no_f1() -> None:
    one = np.array([[1, 0]], np.float32)
    assert match(one, -one) == (-1, -1, 0)


def test_each_pair_has_its_figures_and_each_unit_is_embedded_once() -> None:
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        asked.extend(texts)
        return np.array([[1, 0] if text.startswith("Add") else [0, 1] for text in texts], np.float32)

    found = align(["Add units. Stop.", "Add units.", ""], ["Add a sum.", "Stop.", ""], embed)
    assert sorted(asked) == ["Add a sum.", "Add units.", "Stop."]
    assert found.precision.tolist() == [0.5, 0, 1]
    assert found.recall.tolist() == [1, 0, 1]
    assert found.f1.tolist() == pytest.approx([2 / 3, 0, 1])

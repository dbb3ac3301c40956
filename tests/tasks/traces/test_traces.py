import json
import os
from pathlib import Path

import pytest

from tasks.traces.figures import FIGURES, Counts, count, patch_completion
from tasks.traces.results import ResultError, classified, patches, read_verdict

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", "none"))


def values(counts: Counts) -> dict[str, float | None]:
    return {name: figure(counts).value for name, figure in FIGURES.items()}


def test_the_figures_by_hand() -> None:
    assert values(Counts(tp=30, fp=10, tn=40, fn=20)) == pytest.approx(
        {
            "specificity": 0.8,
            "recall": 0.6,
            "precision": 0.75,
            "balanced_accuracy": 0.7,
            "balanced_accuracy_as_published": 0.4 + 30 / 140,
            "f_half": 1.25 * 0.75 * 0.6 / (0.25 * 0.75 + 0.6),
        }
    )


def test_no_right_positive_is_zero_and_no_right_negative_too() -> None:
    assert values(Counts(tp=0, fp=5, tn=5, fn=5)) == pytest.approx(
        {
            "specificity": 0.5, "recall": 0, "precision": 0, "balanced_accuracy": 0.25,
            "balanced_accuracy_as_published": 0.25, "f_half": 0,
        }
    )  # fmt: skip
    assert values(Counts(tp=5, fp=5, tn=0, fn=0))["balanced_accuracy"] == 0.5


def test_an_empty_class_gives_null_and_says_which() -> None:
    only_wrong = Counts(tp=0, fp=0, tn=9, fn=0)
    assert FIGURES["specificity"](only_wrong).value == 1
    assert FIGURES["recall"](only_wrong) == (None, "no correct trace")
    assert FIGURES["balanced_accuracy"](only_wrong) == (None, "no correct trace")
    assert FIGURES["f_half"](only_wrong) == (None, "no trace was called correct; no correct trace")
    only_right = Counts(tp=0, fp=0, tn=0, fn=4)
    assert FIGURES["specificity"](only_right).note == "no incorrect trace"
    published = "no incorrect trace; no trace was classified rightly"
    assert FIGURES["balanced_accuracy_as_published"](only_right) == (None, published)
    assert set(values(Counts(0, 0, 0, 0)).values()) == {None}


def test_counts_leave_out_verdicts_that_say_neither() -> None:
    assert count([True, True, False, False, True], [True, False, True, False, None]) == (1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("said", "correct"),
    [
        ("Correct", True), ("correct.", True), (" **Right** ", True), (True, True), (1, True),
        ("Incorrect", False), ("wrong", False), ("Wrong!", False), ("Not correct", False), (False, False), (0, False),
        ("partly correct", None), ("", None), (None, None), ("N/A", None), (2, None),
    ],
)  # fmt: skip
def test_verdicts_in_their_spellings(said: object, correct: bool | None) -> None:
    assert read_verdict(said) is correct


def test_patches_that_are_empty_do_not_count(tmp_path: Path) -> None:
    assert patch_completion(["a", "", " ", None, "b", "c"], [True, True, False, False, False, True]).value == 2 / 3
    assert patch_completion([""], [False]) == (None, "every patch is empty")
    path = tmp_path / "p.jsonl"
    path.write_text('{"patch": "diff", "passed": true}\n{"patch": "", "passed": null}\n')
    assert patches(path) == {"patches": 2, "empty": 1, "patch_completion": {"value": 1.0, "note": None}}
    path.write_text('{"patch": "diff", "passed": "maybe"}\n')
    with pytest.raises(ResultError, match=r"p.jsonl:1: passed 'maybe' is neither true nor false"):
        patches(path)


def test_what_is_wrong_with_a_results_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"label": "so-so", "verdict": "wrong"}\n')
    with pytest.raises(ResultError, match=r"r.jsonl:1: label 'so-so' says neither"):
        classified(path)
    with pytest.raises(ResultError, match=r"no column 'out.pred'; the row has label, verdict"):
        classified(path, "verdict", "out.pred")


@pytest.mark.skipif(not DATA.is_dir(), reason="CRITICGEN_TEST_DATA names no folder")
@pytest.mark.parametrize(("file", "rows"), [("gpt35", 90), ("metamath", 22), ("wizardmath", 3)])
def test_recorded_verdicts_on_mr_gsm8k(file: str, rows: int) -> None:
    """Only solutions that people found wrong, and that the model found wrong, are in these files."""
    path = DATA / f"traces/mr_gsm8k_{file}_judgements.json"
    (output,) = [name for name in json.loads(path.read_text())[0] if name.endswith("_eval_output")]
    found = classified(path, "model_output_solution_correctness", f"{output}.correctness_pred")
    assert (found["traces"], found["tn"], found["unread"]) == (rows, rows, 0)
    assert found["figures"]["specificity"]["value"] == 1
    assert found["figures"]["balanced_accuracy"] == {"value": None, "note": "no correct trace"}
    assert found["figures"]["f_half"]["value"] is None

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.weighing.preferences import PreferenceError, Sample, read_preferences


def rows(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


CASE = {"case_id": 7, "instruction": "q", "response_a": "x", "response_b": "y", "label": "B", "rubrics": ["c1", "c2"]}


def test_the_three_benchmarks_are_known_by_their_columns(tmp_path: Path) -> None:
    assert read_preferences(rows(tmp_path / "rubric.jsonl", CASE)) == [Sample("7", "q", ("x", "y"), 1, ("c1", "c2"))]
    judge = {"pair_id": "p", "question": "q", "response_A": "x", "response_B": "y", "label": "A>B"}
    rubrics = rows(
        tmp_path / "r.jsonl", {"id": "p", "rubrics": [{"criterion": "c", "weight": 5}]}, {"id": 3, "rubrics": ["d"]}
    )
    assert read_preferences(rows(tmp_path / "judge.jsonl", judge), rubrics) == [Sample("p", "q", ("x", "y"), 0, ("c",))]
    reward = {"id": 3, "prompt": "q", "chosen": ["x"], "rejected": ["y", "z"], "subset": "Precise IF"}
    assert read_preferences(rows(tmp_path / "reward.jsonl", reward), rubrics) == [
        Sample("3#1", "q", ("x", "y"), 0, ("d",)),
        Sample("3#2", "q", ("x", "z"), 0, ("d",)),
    ]
    one = {**reward, "chosen": "x", "rejected": "y"}
    assert read_preferences(rows(tmp_path / "one.jsonl", one)) == [Sample("3", "q", ("x", "y"), 0)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**CASE, "label": "both"}, r"f.jsonl:1: label 'both' is neither A nor B"),
        ({**CASE, "rubrics": "be good"}, r"f.jsonl:1: rubrics are no JSON list"),
        ({**CASE, "rubrics": [{"weight": 1}]}, r"f.jsonl:1: a rubric is a text or an object with criterion"),
        ({k: v for k, v in CASE.items() if k != "response_b"}, r"f.jsonl:1: no response_b"),
        ({"question": "q"}, r"f.jsonl:1: none of case_id, pair_id and chosen"),
    ],
)
def test_a_row_that_is_no_sample_is_named(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(PreferenceError, match=says):
        read_preferences(rows(tmp_path / "f.jsonl", row))

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from tasks.evaluation.compare import compare
from tasks.evaluation.report import html, markdown, write_report
from tasks.evaluation.scores import score_figures
from tasks.evaluation.tables import Scale, TableError, read_pairs

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", "none"))
REFERENCE = [
    {"item_id": f"i{n}", "score": score, "family": family, "reason": reason, "answer": "A: 4", "reference_answer": "4"}
    for n, (score, family, reason) in enumerate(
        [
            (0, "objective", "Wrong."),
            (2, "objective", "Vague."),
            (5, "subjective", "Right."),
            (4, "subjective", "Fine."),
        ]
    )
]
PREDICTED = [
    {"item_id": "i0", "score": 1, "reason": "Wrong.", "refined_answer": "A: 4", "score_before": 0, "score_after": 3},
    {"item_id": "i1", "score": "2", "reason": "Other.", "refined_answer": "A: 5", "score_before": 2, "score_after": 2},
    {"item_id": "i2", "score": 7, "reason": None, "refined_answer": None, "score_before": 5, "score_after": 4},
    {"item_id": "none", "score": 3},
]


def rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def same_word(texts: Sequence[str]) -> NDArray[np.float32]:
    words = ["Wrong.", "Vague.", "Right.", "Fine.", "Other."]
    return np.eye(5, dtype=np.float32)[[words.index(text) for text in texts]]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return rows(tmp_path / "p.jsonl", PREDICTED), rows(tmp_path / "r.jsonl", REFERENCE)


def test_two_files_give_every_figure_they_allow(files: tuple[Path, Path]) -> None:
    pairs = read_pairs(*files)
    assert (pairs.out_of_scale, pairs.without_reference, pairs.scale) == (1, 1, (0, 5))
    found = compare(pairs, embed=same_word, embedder="words", resamples=20)
    overall = found["scores"][0]
    assert (overall["n"], overall["without_prediction"]) == (2, 2)
    assert overall["figures"]["mean_absolute_error"]["value"] == 0.5
    assert found["score_table"]["counts"][0][1] == 1
    assert [(row["group"], row["n"], row["f1"]) for row in found["units"]["reason"]] == [
        (None, 4, 0.25),
        ("objective", 2, 0.5),
        ("subjective", 2, 0),
    ]
    assert found["refinement"][0]["improved"]["value"] == pytest.approx(1 / 3)
    assert found["gold"][0]["right_to_wrong"]["value"] == 0.75
    assert found["not_measured"] == {"suggestion": "the predictions have no column suggestion"}


def test_the_report_is_one_page_a_table_and_the_same_numbers(files: tuple[Path, Path], tmp_path: Path) -> None:
    found = {
        "predictions": "<b>p</b>.jsonl",
        "reference": "r.jsonl",
        **compare(read_pairs(*files), embed=same_word, embedder="words", resamples=20),
    }
    page, table = html(found), markdown(found)
    assert "<b>p</b>" not in page
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page
    assert "| Mean absolute error | 2 | 0.5000 [0.0000, 1.0000] |" in table
    assert "| improved | 3 | 33.33% [" in table
    assert "family" not in table
    write_report(found, tmp_path / "out")
    assert json.loads((tmp_path / "out/report.json").read_text()) == json.loads(json.dumps(found))


def test_columns_of_other_names_rows_in_order_and_another_scale(tmp_path: Path) -> None:
    predictions = rows(tmp_path / "p.jsonl", [{"rating": 90}, {"rating": 10}])
    reference = rows(tmp_path / "r.jsonl", [{"score": 100}, {"score": 0}])
    pairs = read_pairs(
        predictions, reference, columns={"predictions.score": "rating"}, in_order=True, scale=Scale(0, 100)
    )
    assert pairs.frame.select("predicted_score", "score").rows() == [(90, 100), (10, 0)]


def test_feedback_bench_is_read_with_its_string_scores_on_its_scale(tmp_path: Path) -> None:
    bench = [
        {"orig_instruction": f"q{n}", "orig_response": "r", "orig_criteria": "c", "orig_score": str(n), "score": None}
        for n in range(1, 6)
    ]
    predicted = [{**{k: row[k] for k in row if k != "orig_score"}, "score": 6 - n} for n, row in enumerate(bench, 1)]
    pairs = read_pairs(rows(tmp_path / "p.jsonl", predicted[::-1]), rows(tmp_path / "bench.json.jsonl", bench))
    assert pairs.scale == (1, 5)
    assert pairs.frame["score"].to_list() == [1, 2, 3, 4, 5]
    assert pairs.frame["predicted_score"].to_list() == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("predicted", "options", "says"),
    [
        ([{"item_id": "i0", "score": "four"}], {}, r"p.jsonl:1: score 'four' is no number"),
        ([{"item_id": "i0"}, {"item_id": "i0"}], {}, r"p.jsonl: item_id 'i0' stands in more than one row"),
        ([{"item_id": "x", "score": 1}], {}, r"no item_id of .*p.jsonl is in .*r.jsonl"),
        ([{"id": 1, "score": 1}], {}, r"no column to join by"),
        ([{"item_id": None, "score": 1}], {}, r"p.jsonl:1: no item_id"),
        ([{"item_id": "i0"}], {"key": "name"}, r"p.jsonl: no column 'name' to join by"),
        ([{"item_id": "i0"}], {"in_order": True}, r"1 predictions, 4 references"),
        ([{"item_id": "i0"}], {"columns": {"score": "x"}}, r"column 'score' is not known: predictions.score"),
        ([{"item_id": "i0"}], {"columns": {"predictions.score": "x"}}, r"p.jsonl: no column 'x'; it has item_id"),
        ([{"item_id": "i0", "score": 1}], {"scale": Scale(1, 5)}, r"r.jsonl: score 0 is outside the scale 1 to 5"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    tmp_path: Path, predicted: list[dict[str, Any]], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(TableError, match=says):
        read_pairs(rows(tmp_path / "p.jsonl", predicted), rows(tmp_path / "r.jsonl", REFERENCE), **options)


def test_files_without_anything_in_common_are_refused(tmp_path: Path) -> None:
    pairs = read_pairs(rows(tmp_path / "p.jsonl", [{"item_id": "i0"}]), rows(tmp_path / "r.jsonl", REFERENCE))
    with pytest.raises(TableError, match="nothing can be measured: scores: the predictions have no column score"):
        compare(pairs, embed=None, embedder=None)


@pytest.mark.skipif(not DATA.is_dir(), reason="CRITICGEN_TEST_DATA names no folder")
def test_gpt4s_repeated_scores_of_mt_bench_correlate_as_scipy_has_it() -> None:
    scores = pl.read_json(DATA / "rubrics/prometheus_mt_bench_eval.json")["gpt4_score"].to_list()
    first, second, _ = np.array(scores, float).T
    found = score_figures(first, second, resamples=200)
    assert found["pearson"].value == pytest.approx(stats.pearsonr(first, second).statistic)
    assert found["spearman"].value == pytest.approx(stats.spearmanr(first, second).statistic)
    assert found["kendall"].value == pytest.approx(stats.kendalltau(first, second).statistic)
    low, high = found["kendall"].low, found["kendall"].high
    assert low is not None
    assert high is not None
    assert 0 < low < stats.kendalltau(first, second).statistic < high <= 1

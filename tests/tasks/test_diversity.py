import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from storage.schemas import DIVERSITY
from tasks.diversity import Count, distinct_n, diversity
from tasks.unique import Unique

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", ""))
needs_data = pytest.mark.skipif(
    not os.environ.get("CRITICGEN_TEST_DATA"), reason="CRITICGEN_TEST_DATA is not set: no real data here"
)

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8).map(" ".join), max_size=8)


def refine_rows() -> pl.DataFrame:
    """Two questions; the first has two answers, of which one has two rubric items."""
    return pl.DataFrame(
        {
            "question_id": ["q1", "q1", "q1", "q2"],
            "answer_id": ["a1", "a1", "a2", "a3"],
            "question": ["a b c", "a b c", "a b c", "a b d"],
            "answer": ["x y", "x y", "x y z", "y z"],
            "rubric": ["r s", "s r", "r s", "t"],
            "reason": ["same words", "same words", None, "other words"],
            "suggestion": ["", "", "", ""],
            "refined_answer": ["a a a a", "a a a a", "a a a a", "a a a a"],
        }
    )


def figures(table: pl.DataFrame, field: str, counted: str) -> dict[int, tuple[int, int, int, float | None]]:
    rows = table.filter(field=field, counted=counted).select("n", "texts", "ngrams", "unique_ngrams", "distinct")
    return {row[0]: row[1:] for row in rows.iter_rows()}


def test_a_question_counts_once_and_beside_it_once_per_row() -> None:
    table = diversity({("refine_data", "candidates"): refine_rows()})
    assert figures(table, "question", "distinct") == {
        2: (2, 4, 3, 0.75),
        3: (2, 2, 2, 1.0),
        4: (2, 0, 0, None),
    }
    assert figures(table, "question", "rows")[2] == (4, 8, 3, 0.375)
    assert figures(table, "answer", "distinct")[2] == (3, 4, 2, 0.5)
    assert figures(table, "answer", "rows")[2] == (4, 5, 2, 0.4)


def test_a_generated_field_counts_per_row_and_null_is_no_text() -> None:
    table = diversity({("refine_data", "candidates"): refine_rows()})
    assert figures(table, "rubric", "rows")[2] == (4, 3, 2, 2 / 3)
    assert figures(table, "reason", "rows")[2] == (3, 3, 2, 2 / 3)
    assert figures(table, "suggestion", "rows")[2] == (4, 0, 0, None)
    assert figures(table, "refined_answer", "rows")[2] == (4, 12, 1, 1 / 12)
    assert table.filter(pl.col("field").is_in(["rubric", "reason"]), counted="distinct").is_empty()


def test_each_data_set_has_its_fields_at_each_step() -> None:
    rubrics = refine_rows().drop("reason", "suggestion", "refined_answer")
    table = diversity({("rubric_data", "candidates"): rubrics, ("rubric_data", "near_duplicates"): rubrics.clear()})
    assert table.schema == pl.DataFrame(pl.from_arrow(DIVERSITY.schema.empty_table())).schema
    assert table.group_by("step", "field", maintain_order=True).len().rows() == [
        (step, field, 3 if field == "rubric" else 6)
        for step in ("candidates", "near_duplicates")
        for field in ("question", "answer", "rubric")
    ]
    assert figures(table.filter(step="near_duplicates"), "question", "rows")[2] == (0, 0, 0, None)


@settings(deadline=None)
@given(st.integers(1, 4))
def test_frames_one_after_another_give_the_figures_of_one_frame(size: int) -> None:
    whole = diversity({("refine_data", "candidates"): refine_rows()})
    assert diversity({("refine_data", "candidates"): refine_rows().iter_slices(size)}).equals(whole)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 4))
def test_distinct_n_is_unique_over_all(first: list[str], second: list[str], n: int) -> None:
    lists = [text.split() for text in first + second]
    grams = [tuple(tokens[at : at + n]) for tokens in lists for at in range(len(tokens) - n + 1)]
    found = distinct_n([pl.Series(first, dtype=pl.String), pl.Series(second, dtype=pl.String)], n, "word")
    assert found == Count(len(lists), len(grams), len(set(grams)))
    assert found.distinct == (len(set(grams)) / len(grams) if grams else None)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=60), max_size=8))
def test_different_values_are_counted_also_when_they_do_not_fit_the_table(lists: list[list[int]]) -> None:
    unique = Unique(slots=16)
    for values in lists:
        unique.add(np.array(values, np.uint64))
    assert len(unique) == len({value for values in lists for value in values})


def test_different_values_are_counted_over_many_growths() -> None:
    unique = Unique(slots=1 << 18)
    for start in range(0, 2_000_000, 250_000):
        unique.add(np.arange(start, start + 500_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert len(unique) == 2_250_000


def test_a_missing_column_and_another_data_set_are_named() -> None:
    with pytest.raises(ValueError, match="diversity of refine_data, candidates: no column reason, suggestion"):
        diversity({("refine_data", "candidates"): refine_rows().drop("reason", "suggestion")})
    with pytest.raises(ValueError, match="no data set 'traces'"):
        diversity({("traces", "candidates"): refine_rows()})


@needs_data
def test_endless_repetition_shows() -> None:
    def distinct(model: str) -> float | None:
        lines = (DATA / f"dedup/selfinstruct_{model}.jsonl").read_text(encoding="utf-8").split("\n")
        return distinct_n([pl.Series([json.loads(line)["response"] for line in lines if line])], 4, "word").distinct

    assert distinct("davinci_base") == pytest.approx(0.083, abs=0.001)
    assert distinct("text_davinci_003") == pytest.approx(0.838, abs=0.001)


@needs_data
def test_questions_of_brackets_have_no_ngrams() -> None:
    lines = (DATA / "traces/bbmistake_dyck_languages.jsonl").read_text(encoding="utf-8").split("\n")
    questions = [json.loads(line)["input"] for line in lines if line]
    # < and > are math symbols, the other brackets only separate.
    brackets = pl.Series([question for question in questions if "<" not in question and ">" not in question])
    assert distinct_n([brackets], 2, "word") == Count(145, 0, 0)

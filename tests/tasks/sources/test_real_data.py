"""Real files, where CRITICGEN_TEST_DATA names the folder that holds them."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tasks.config import Source
from tasks.sources import Loaded, SourceError, load_source
from tasks.sources.json_text import parse_object

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", ""))
pytestmark = pytest.mark.skipif(
    not os.environ.get("CRITICGEN_TEST_DATA"), reason="CRITICGEN_TEST_DATA is not set: no real data here"
)


def load(file: str, **source: Any) -> Loaded:
    config = Source(name="real", path=str(DATA / file), **source)
    return load_source(config, limit=None, max_characters=100_000, skip_bad_rows=False)


def test_every_gsm8k_test_question_has_a_numeric_answer() -> None:
    loaded = load("questions/gsm8k_test.jsonl", adapter="gsm8k")
    assert (len(loaded.questions), loaded.rows_read, loaded.dropped) == (1319, 1319, {})
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", answer) for answer in loaded.questions["reference_answer"])
    assert all(loaded.questions["reference_solution"].str.len_chars() > 0)


def test_a_line_separator_in_a_question_stays() -> None:
    questions = load("questions/gsm8k_train.jsonl", adapter="gsm8k").questions
    assert len(questions) == 3000
    [(row, text)] = questions.select("source_row", "text").filter(questions["text"].str.contains("\u2028")).rows()
    assert (row, text.count("\u2028"), text[:15]) == (2382, 2, "Clive opens a b")


def test_olympiadbench_through_columns() -> None:
    questions = load("questions/olympiadbench.jsonl", reference_answer="answer", licence="Apache-2.0").questions
    assert (len(questions), questions["reference_answer"].null_count()) == (675, 0)
    assert questions["reference_answer"][1] == r"$\frac{1}{2 n+2}$"


def test_svamp_through_columns_has_whole_numbers() -> None:
    questions = load("questions/svamp.jsonl", question="input", reference_answer="target").questions
    assert (len(questions), questions["reference_answer"][0]) == (1000, "51")
    assert all(answer.removeprefix("-").isdigit() for answer in questions["reference_answer"])


def test_numinamath_answers_are_in_boxes() -> None:
    questions = load("questions/numinamath_cot_3rows.jsonl", adapter="numinamath_cot").questions
    assert questions["reference_answer"].to_list() == [r"\frac{13}{6}", r"\frac{32}{25}", "4"]


def test_parquet_with_nested_columns_through_columns() -> None:
    loaded = load("messy/curator_camel_gt_dataset.parquet", reference_answer="answer")
    assert (len(loaded.questions), loaded.dropped) == (27, {})
    with pytest.raises(SourceError, match=r"no column 'problem'; the file has 'solution', 'question', 'cot_type'"):
        load("messy/curator_reasoning_dataset.parquet", question="problem")


def test_a_file_of_something_else_is_refused_with_what_its_rows_have() -> None:
    with pytest.raises(SourceError, match=r"3 of 3 rows .*\n.*:1: 'question' is missing \(the row has 'custom_id'"):
        load("messy/curator_gemini_batch_response.jsonl")
    with pytest.raises(SourceError, match=r"1,319 of 1,319 rows .*\n.*:1: 'problem' is missing"):
        load("questions/gsm8k_test.jsonl", adapter="numinamath_cot")


def test_json_is_accepted_and_refused_as_the_parsers_test_suite_has_it() -> None:
    verdicts = {}
    for file in sorted((DATA / "messy/JSONTestSuite").iterdir()):
        try:
            parse_object(b'{"v": ' + file.read_bytes() + b"}")
        except ValueError:
            verdicts[file.name] = False
        else:
            verdicts[file.name] = True
    assert len(verdicts) == 318
    assert [name for name, taken in verdicts.items() if taken != (name[0] == "y") and name[0] != "i"] == []

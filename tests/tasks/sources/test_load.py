import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from storage.ids import content_id
from storage.schemas import QUESTIONS
from tasks.config import Source
from tasks.sources import Loaded, SourceError, assign_shards, load_source, source_fingerprint, spread


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def load(path: Path, limit: int | None = None, skip: bool = False, characters: int = 1000, **source: Any) -> Loaded:
    config = Source(name="own", path=str(path), **source)
    return load_source(config, limit=limit, max_characters=characters, skip_bad_rows=skip)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two good questions, one row for each reason to drop one, and a seventh bad row."""
    good, again = ({"question": "one"}, {"question": "two"}), {"question": "one"}
    bad: list[object] = ["{", {"question": None}, {"question": " "}, {"question": "x" * 2000}, []]
    return jsonl(tmp_path / "mixed.jsonl", good[0], *bad, again, good[1], {"other": 1})


def test_questions_have_the_columns_of_the_table_but_cluster_and_shard(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"q": "What?", "a": 7, "s": "steps"})
    loaded = load(path, question="q", reference_answer="a", reference_solution="s", licence="CC0-1.0")
    assert loaded.questions.columns == [name for name in QUESTIONS.columns if name not in ("cluster", "shard")]
    assert loaded.questions.rows() == [
        (content_id("question", "own", "What?"), "own", 1, "CC0-1.0", "What?", "7", "steps")
    ]
    assert (loaded.rows_read, loaded.dropped, loaded.sanitized, loaded.examples) == (1, {}, 0, [])


def test_bad_rows_stop_the_source_with_examples_counts_and_the_way_on(mixed: Path) -> None:
    with pytest.raises(SourceError) as caught:
        load(mixed)
    assert str(caught.value).replace(str(mixed), "mixed.jsonl") == (
        "source own: 7 of 9 rows read cannot be used (broken 2, duplicate 1, empty 1, missing_field 2, too_long 1):\n"
        "  mixed.jsonl:2: not JSON: Expecting property name enclosed in double quotes at column 2\n"
        "  mixed.jsonl:3: 'question' is null\n"
        "  mixed.jsonl:4: 'question' is empty\n"
        "  mixed.jsonl:5: 2,000 characters (at most 1,000)\n"
        "  mixed.jsonl:6: not a JSON object\n"
        "Mend them, or go on without them: --skip-bad-rows leaves bad rows out and counts them."
    )


@pytest.mark.parametrize("settings", [{"skip": True}, {"skip_bad_rows": True}])
def test_bad_rows_are_left_out_and_counted_where_that_is_asked_for(mixed: Path, settings: dict[str, bool]) -> None:
    loaded = load(mixed, **settings)
    assert loaded.questions.select("source_row", "text").rows() == [(1, "one"), (8, "two")]
    assert loaded.dropped == {"broken": 2, "missing_field": 2, "empty": 1, "too_long": 1, "duplicate": 1}
    assert loaded.rows_read == 9 == len(loaded.questions) + sum(loaded.dropped.values())
    assert len(loaded.examples) == 5


def test_a_duplicate_is_named_with_the_row_it_repeats(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"question": "a"}, {"question": "a"}, {"question": "b"})
    with pytest.raises(SourceError, match=r"own\.jsonl:2: the question of row 1 again"):
        load(path)
    loaded = load(path, skip=True)
    assert (loaded.questions["text"].to_list(), loaded.dropped) == (["a", "b"], {"duplicate": 1})


def test_reading_ends_at_the_limit(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"question": "a"}, {"question": "a"}, {"question": "b"}, "broken")
    loaded = load(path, limit=2, skip=True)
    assert (loaded.questions["source_row"].to_list(), loaded.rows_read) == ([1, 3], 3)
    assert load(tmp_path / "no such file", limit=0).questions.is_empty()


def test_a_source_without_a_usable_row_is_refused_even_where_bad_rows_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?s)2 of 2 rows .*the row has 'input'.*check `adapter` and the column"):
        load(jsonl(tmp_path / "own.jsonl", {"input": "a"}, {"input": "b"}), skip=True)
    with pytest.raises(SourceError, match="holds no rows"):
        load(jsonl(tmp_path / "blank.jsonl", "", ""))


def test_a_named_column_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"question": "a", "answer": None}, {"question": "b"})
    assert load(path, reference_answer="answer").questions["reference_answer"].to_list() == [None, None]
    with pytest.raises(SourceError, match=r"no row of .* has 'anwser'"):
        load(path, reference_answer="anwser")


def test_lone_surrogates_and_nul_are_replaced_and_counted(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", '{"question": "a\\ud800b", "answer": "c\\u0000"}', {"question": "\U0001f600"})
    loaded = load(path, reference_answer="answer")
    assert loaded.questions.select("text", "reference_answer").rows() == [("a\ufffdb", "c\ufffd"), ("\U0001f600", None)]
    assert loaded.sanitized == 1


def test_the_configs_licence_goes_before_the_adapters(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"question": "a", "answer": "#### 1"})
    assert load(path, adapter="gsm8k").questions["licence"].to_list() == ["MIT"]
    assert load(path, adapter="gsm8k", licence="CC0-1.0").questions["licence"].to_list() == ["CC0-1.0"]


@pytest.mark.parametrize(
    ("limit", "sources", "shares"),
    [(None, 2, [None, None]), (10, 5, [2, 2, 2, 2, 2]), (11, 3, [4, 4, 3]), (2, 4, [1, 1, 0, 0])],
)
def test_a_limit_is_spread_evenly(limit: int | None, sources: int, shares: list[int | None]) -> None:
    assert spread(limit, sources) == shares


@given(st.integers(1, 10_000), st.integers(1, 20))
def test_spread_shares_sum_to_the_limit_and_differ_by_one_at_most(limit: int, sources: int) -> None:
    shares = [share for share in spread(limit, sources) if share is not None]
    assert (len(shares), sum(shares), max(shares) - min(shares) <= 1) == (sources, limit, True)
    assert shares == sorted(shares, reverse=True)


def test_shards_are_cut_within_each_source() -> None:
    questions = pl.DataFrame({"source": ["a", "a", "b", "a", "b"], "text": list("vwxyz")})
    assert assign_shards(questions, 2)["shard"].to_list() == ["a-0000", "a-0000", "b-0000", "a-0001", "b-0000"]


def test_more_questions_leave_the_shards_before_as_they_are() -> None:
    questions = pl.DataFrame({"source": ["a"] * 60_001})
    shards = assign_shards(questions, 6)["shard"]
    assert (shards[:100].to_list(), shards[-1]) == (assign_shards(questions[:100], 6)["shard"].to_list(), "a-10000")


def test_a_fingerprint_follows_content_and_reading_but_not_the_place(tmp_path: Path) -> None:
    source = Source(name="own", path=str(jsonl(tmp_path / "a.jsonl", {"question": "a"})), reference_answer="answer")
    mark = source_fingerprint(source)
    copy = source.model_copy(
        update={"path": str(jsonl(tmp_path / "b.jsonl", {"question": "a"})), "skip_bad_rows": True}
    )
    assert source_fingerprint(copy) == mark
    others: list[dict[str, Any]] = [{"name": "other"}, {"question": "q"}, {"reference_answer": None}]
    others += [{"licence": "MIT"}, {"adapter": "limo"}]
    marks = {source_fingerprint(source.model_copy(update=change)) for change in others}
    jsonl(tmp_path / "a.jsonl", {"question": "b"})
    assert len(marks | {mark, source_fingerprint(source)}) == 7
    with pytest.raises(SourceError, match="no such file"):
        source_fingerprint(source.model_copy(update={"path": str(tmp_path / "none.jsonl")}))


def test_a_fingerprint_needs_the_columns_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("q,a\n1,2\n")
    with pytest.raises(SourceError, match="no column 'question'"):
        source_fingerprint(Source(name="own", path=str(tmp_path / "own.csv")))

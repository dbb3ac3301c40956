import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from tasks.sources import SourceError
from tasks.sources.faults import BadRow
from tasks.sources.json_text import parse_object
from tasks.sources.rows import read_rows


def rows_of(path: Path, *columns: str) -> list[tuple[int, Any]]:
    return [(number, row.reason if isinstance(row, BadRow) else row) for number, row in read_rows(path, columns)]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_jsonl_lines_end_at_newline_only(jsonl: Path) -> None:
    text = "first\u2028second\u0085third\x1efourth".replace("\x1e", "\\u001e")
    written(jsonl, f'{{"q": "{text}"}}\n{{"q": "next"}}'.encode())
    assert rows_of(jsonl) == [(1, {"q": "first\u2028second\u0085third\x1efourth"}), (2, {"q": "next"})]


def test_jsonl_takes_crlf_and_a_byte_order_mark_and_counts_blank_lines(jsonl: Path) -> None:
    written(jsonl, b'\xef\xbb\xbf{"q": "a"}\r\n\r\n \t\n{"q": "b"}\r\n')
    assert rows_of(jsonl) == [(1, {"q": "a"}), (4, {"q": "b"})]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"q": "a"', "not JSON: Expecting ',' delimiter at column 10"),
        (b'{"q": "a"} {"q": "b"}', "not JSON: Extra data at column 12"),
        (b'{"q": "a\tb"}', "not JSON: Invalid control character at column 9"),
        (b'{"q": NaN}', "not JSON: NaN is no number there"),
        (b'{"q": -Infinity}', "not JSON: -Infinity is no number there"),
        (b'{"q": 1e999}', "not JSON: 1e999 is no number there"),
        (b'{"q": "\xff"}', "not UTF-8: byte 0xff at column 8"),
        (b'{"q": "\xed\xa0\x80"}', "not UTF-8: byte 0xed at column 8"),
        (b"[1, 2]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON that can be read: nested too deeply"),
    ],
)
def test_a_jsonl_line_that_cannot_be_read_is_one_bad_row(jsonl: Path, line: bytes, reason: str) -> None:
    written(jsonl, b'{"q": 1}\n' + line + b'\n{"q": 3}\n')
    assert rows_of(jsonl) == [(1, {"q": 1}), (2, reason), (3, {"q": 3})]


def test_a_bad_row_names_file_and_line(jsonl: Path) -> None:
    [(_, row)] = read_rows(written(jsonl, b"\n[]\n"))
    assert str(row) == f"{jsonl}:2: not a JSON object"


def test_lone_surrogates_and_long_integers_are_read_as_they_stand() -> None:
    assert parse_object(b'{"q": "a\\ud800b\\u0000"}') == {"q": "a\ud800b\0"}
    assert parse_object(b'{"a": 123456789012345678901234567890, "b": 1.5}') == {
        "a": 123456789012345678901234567890,
        "b": 1.5,
    }


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())))
@settings(max_examples=50)
def test_every_json_object_makes_the_round_trip(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value).encode()) == value


def test_json_is_a_list_of_objects(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows.json", b'\xef\xbb\xbf[{"q": "a"}, 5, {"q": [{"r": NaN}]},\n {"q": 12345678901234567890123}]'
    )
    nan = "not JSON: NaN or an infinity is no number there"
    assert rows_of(path) == [(1, {"q": "a"}), (2, "not a JSON object"), (3, nan), (4, {"q": 12345678901234567890123})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"q": 1}', "not a JSON list. A .json file holds one list of objects"),
        (b'{"q": 1}\n{"q": 2}\n', "Extra data at line 2, column 1.* name it .jsonl"),
        (b'[{"q": 1},\n {"q": \xff}]', "not UTF-8: byte 0xff at line 2, column 8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_list_of_objects_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        rows_of(written(tmp_path / "rows.json", content))


def test_csv_has_quotes_newlines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", '\ufeffq,a\r\n"one, ""two""\nthree\u2028four",5\r\n\r\nnext,\r\n'.encode())
    assert rows_of(path, "q") == [(1, {"q": 'one, "two"\nthree\u2028four', "a": "5"}), (2, {"q": "next", "a": ""})]


def test_csv_rows_that_cannot_be_read_are_bad_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", b'q,a\n1,2\n1,2,3\n1\n"x"y,2\nna\xefve,2\n3,4\n"open,5\n6,7\n')
    assert rows_of(path) == [
        (1, {"q": "1", "a": "2"}),
        (2, "3 fields where the header has 2 (line 3)"),
        (3, "1 fields where the header has 2 (line 4)"),
        (4, "not CSV: ',' expected after '\"' (the record ends at line 5)"),
        (5, "not UTF-8 (line 6)"),
        (6, {"q": "3", "a": "4"}),
        (7, "not CSV: unexpected end of data (the record ends at line 9)"),
    ]


def test_csv_takes_fields_longer_than_the_readers_usual_limit(tmp_path: Path) -> None:
    [(_, row)] = rows_of(written(tmp_path / "rows.csv", b"q\n" + b"x" * 200_000 + b"\n"))
    assert len(row["q"]) == 200_000


def test_parquet_reads_only_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"q": ["a", None], "n": [1, 2], "deep": [[{"x": 1}], []]}).write_parquet(path)
    assert rows_of(path, "n", "q") == [(1, {"q": "a", "n": 1}), (2, {"q": None, "n": 2})]
    assert rows_of(path)[0] == (1, {"q": "a", "n": 1, "deep": [{"x": 1}]})


def test_parquet_text_that_is_not_utf8_is_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    values = pa.Array.from_buffers(pa.string(), 3, [None, *pa.array([b"a", b"\xff", b"c"]).buffers()[1:]])
    pa.parquet.write_table(pa.table({"q": values}), path)
    assert rows_of(path) == [(1, {"q": "a"}), (2, "not UTF-8"), (3, {"q": "c"})]


@pytest.mark.parametrize(("name", "content"), [("rows.csv", b"q,a\n1,2\n"), ("rows.parquet", None)])
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content) if content else pl.DataFrame({"q": ["1"], "a": ["2"]}).write_parquet(path)
    with pytest.raises(SourceError, match=rf"{name}: no column 'question'; the file has 'q', 'a'"):
        rows_of(path, "q", "question")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b"", "the file is empty"),
        ("rows.jsonl", b'\xff\xfe{\x00"\x00', "UTF-16; save it as UTF-8"),
        ("rows.jsonl.gz", b"x", "unknown format '.gz'; a source is a .jsonl, .json, .csv, .parquet file"),
        ("rows", b"x", "unknown format ''"),
        ("rows.parquet", b"PAR1 and then nothing", "not a Parquet file that can be read"),
        ("rows.csv", b"q,a,q\n1,2,3\n", "more than one column is named 'q'"),
        ("rows.csv", b'"q', "the header is not CSV"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        rows_of(written(tmp_path / name, content))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"rows\.jsonl: no such file"):
        read_rows(tmp_path / "rows.jsonl")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(SourceError, match="this is a folder"):
        read_rows(tmp_path / "folder.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(jsonl: Path) -> None:
    written(jsonl, b"{}").chmod(0)
    with pytest.raises(SourceError, match="cannot be read: Permission denied"):
        read_rows(jsonl)

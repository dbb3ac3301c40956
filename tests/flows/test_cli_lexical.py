"""The lexical commands as they are typed."""

import json
from pathlib import Path

import polars as pl
import pytest
from pipeline import criticgen

from storage.workspace import Workspace

ROWS = [
    {"key": "b", "title": "one", "body": "two three four five six"},
    {"key": "a", "title": "One", "body": "two, three four five six!"},
    {"key": "c", "title": "seven", "body": None},
    {"key": "d", "title": "Seven", "body": ""},
]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_every_row_has_its_decision_in_the_order_of_the_file(tmp_path: Path, jsonl: Path, suffix: str) -> None:
    file, out = tmp_path / f"again{suffix}", tmp_path / f"out{suffix}"
    frame = pl.DataFrame(ROWS)
    {".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet, ".csv": frame.write_csv}[suffix](file)
    fields = ("--text", "title", "--text", "body", "--id", "key")
    ended = criticgen("near-duplicates", file, *fields, "--out", out)
    assert ended.stdout == f"4 rows: 2 kept, 2 dropped; decisions in {out}\n"
    read = {".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet, ".csv": pl.read_csv}[suffix]
    assert read(out).rows() == [
        ("b", False, "a", 3, 3, 1.0),
        ("a", True, None, None, None, None),
        ("c", True, None, None, None, None),
        ("d", False, "c", None, None, 1.0),
    ]
    criticgen("near-duplicates", file, *fields, "--out", out, "--order", "input")
    assert read(out)["twin"].to_list() == [None, "b", None, "c"]


def test_without_an_id_rows_are_named_by_their_number(tmp_path: Path, jsonl: Path) -> None:
    criticgen("near-duplicates", jsonl, "--text", "title", "--out", tmp_path / "out.jsonl", "--order", "input")
    assert pl.read_ndjson(tmp_path / "out.jsonl")["twin"].to_list() == [None, "1", None, "3"]


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ('{"t": "a"}\n{"t": \n', (), "rows.jsonl:2: not JSON"),
        ('{"t": "a"}\n{"u": "b"}\n', (), "rows.jsonl:2: no field 't'; the row has 'u'"),
        ('{"t": 7}\n', (), "rows.jsonl:1: 't' is a number, not text"),
        ('{"t": "a", "i": null}\n', ("--id", "i"), "rows.jsonl:1: 'i' is null, not text"),
        ('{"t": "a", "i": "x"}\n{"t": "b", "i": "x"}\n', ("--id", "i"), "instance x stands twice (field 'i')"),
        ('{"t": "a"}\n', ("--threshold", "1.5"), "threshold 1.5: a Jaccard lies within 0 and 1"),
        ("", (), "the file is empty"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, arguments: tuple[str, ...], says: str) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "out.parquet"
    file.write_text(text)
    ended = criticgen("near-duplicates", file, "--text", "t", "--out", out, *arguments)
    assert (ended.returncode, says in ended.stderr) == (1, True), ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_parquet_column_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    file, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    pl.DataFrame({"t": [1.5], "i": [None]}, schema={"t": pl.Float64, "i": pl.String}).write_parquet(file)
    assert "no column 'x'; the file has 't', 'i'" in criticgen("diversity", file, "--text", "x").stderr
    assert "the column 't' is double, not text" in criticgen("diversity", file, "--text", "t").stderr
    arguments = ("near-duplicates", file, "--text", "i", "--id", "i", "--out", out)
    assert "rows.parquet:1: 'i' is null, not text" in criticgen(*arguments).stderr
    file.write_bytes(b"PAR1 is no file")
    assert "not a Parquet file that can be read" in criticgen("diversity", file, "--text", "t").stderr
    assert "decisions are written as" in criticgen("near-duplicates", file, "--text", "t", "--out", "o.txt").stderr


def test_diversity_of_a_field(jsonl: Path) -> None:
    found = json.loads(criticgen("diversity", jsonl, "--text", "body", "--json").stdout)
    assert [(row["n"], row["texts"], row["ngrams"], row["unique_ngrams"], row["distinct"]) for row in found] == [
        (2, 4, 8, 4, 0.5),
        (3, 4, 6, 3, 0.5),
        (4, 4, 4, 2, 0.5),
    ]
    assert criticgen("diversity", jsonl, "--text", "title").stdout.startswith(
        "title  Distinct-2 none  0 of 0 n-grams in 4 texts\n"
    )


def test_a_dropped_row_is_shown_beside_the_one_it_repeats(finished: Path) -> None:
    place = Workspace(finished)
    kept, dropped = place.read_table("rubrics")["answer_id"].unique().sort()[:2].to_list()
    table = place.read_table("near_duplicates").filter(pl.col("kept"), data_set="rubric_data")
    row = table.head(1).with_columns(
        kept=pl.lit(False), instance_id=pl.lit(dropped), twin_id=pl.lit(kept), jaccard=pl.lit(1.0)
    )
    place.write_table("near_duplicates", pl.concat([table.filter(pl.col("instance_id") != dropped), row]), "all")
    assert (
        f"{dropped}  repeats {kept}  the same normalized text"
        in criticgen("duplicates", "--workspace", finished).stdout
    )
    shown = criticgen("duplicates", "--workspace", finished, "--show", dropped)
    assert shown.stdout.startswith(f"rubric_data: {dropped} repeats {kept}: the same normalized text\n\ndropped:\n")
    assert "⟦" in shown.stdout
    assert "no dropped instance" in criticgen("duplicates", "--workspace", finished, "--show", "zzz").stderr

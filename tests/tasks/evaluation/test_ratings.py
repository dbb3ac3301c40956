import csv
import json
from pathlib import Path
from typing import Literal

import openpyxl
import pytest

from tasks.evaluation.ratings import RatingError, RubricPair, export_sheets, import_sheets
from tasks.evaluation.sheets import LONGEST_CELL, SheetError, read_sheet, write_sheet

SYSTEMS = ("ours", "static")
PAIRS = [RubricPair(f"id{n}", f"=SUM(A{n})", "+1 answer", (f"ours {n}", f"static {n}")) for n in range(4)]
Scores = dict[str, tuple[int, int, int, int]]  # by pair id: ours' relevance and coverage, static's


def fill(path: Path, key: Path, scores: Scores) -> None:
    """Give each rubric its scores, wherever the draw has put it."""
    order = json.loads(key.read_text())["pairs"]
    columns = ("pair", "relevance_a", "relevance_b", "coverage_a", "coverage_b")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        pair = order[int(row["pair"]) - 1]
        ours, static = scores[pair["id"]][:2], scores[pair["id"]][2:]
        a, b = (ours, static) if pair["a"] == "ours" else (static, ours)
        row.update(dict(zip(columns[1:], map(str, (a[0], b[0], a[1], b[1])), strict=True)))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


FIRST: Scores = {"id0": (4, 4, 3, 4), "id1": (5, 5, 3, 4), "id2": (4, 3, 2, 2), "id3": (3, 3, 3, 3)}
SECOND: Scores = {**FIRST, "id1": (5, 4, 3, 4)}


def test_the_means_are_those_after_adjudication(tmp_path: Path) -> None:
    export_sheets(PAIRS, SYSTEMS, tmp_path, seed=3)
    key, sheets = tmp_path / "key.json", tmp_path / "sheets"
    fill(sheets / "rater_1.csv", key, FIRST)
    fill(sheets / "rater_2.csv", key, SECOND)
    before = import_sheets(tmp_path)
    assert (before["adjudicated"], before["adjudication_rate"], before["means"]) == (1, 0.25, None)
    assert len(before["to_adjudicate"]) == 1
    fill(sheets / "adjudicator.csv", key, {"id1": (2, 2, 1, 1)})
    after = import_sheets(tmp_path)
    # ours: relevance 4 2 4 3, coverage 4 2 3 3; static: relevance 3 1 2 3, coverage 4 1 2 3.
    assert after["means"] == {
        "ours": {"relevance": 3.25, "coverage": 3.0},
        "static": {"relevance": 2.25, "coverage": 2.5},
    }
    assert after["to_adjudicate"] == []
    # Kappa is that of the raters: relevance without a difference; coverage 4 5 3 3 4 4 2 3 against 4 4 3 3 4 4 2 3.
    assert after["kappa"]["relevance"]["quadratic"]["value"] == 1
    # Linear: observed 1; by chance over 8: |i - j| of 2 3 3 3 4 4 4 5 against 2 3 3 3 4 4 4 4 sums to 54.
    assert after["kappa"]["coverage"]["linear"]["value"] == pytest.approx(1 - 1 / (54 / 8))


def test_agreement_needs_no_adjudicator(tmp_path: Path) -> None:
    export_sheets(PAIRS, SYSTEMS, tmp_path)
    for rater in ("rater_1", "rater_2"):
        fill(tmp_path / "sheets" / f"{rater}.csv", tmp_path / "key.json", FIRST)
    found = import_sheets(tmp_path)
    assert (found["adjudication_rate"], found["means"]["ours"]["relevance"]) == (0, 4)
    assert not (tmp_path / "sheets" / "adjudicator.csv").exists()


def test_sheets_are_blind_and_the_draw_puts_each_system_on_both_sides(tmp_path: Path) -> None:
    pairs = [RubricPair(str(n), "q", "a", (f"first {n}", f"second {n}")) for n in range(40)]
    export_sheets(pairs, SYSTEMS, tmp_path)
    rows = read_sheet(tmp_path / "sheets/rater_1.csv", ("pair", "rubric_a"))
    sides = [row["rubric_a"].split()[0] for row in rows]
    assert 8 < sides.count("first") < 32
    text = (tmp_path / "sheets/rater_1.csv").read_text()
    assert "ours" not in text
    assert "static" not in text


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_no_cell_is_a_formula(tmp_path: Path, kind: Literal["csv", "xlsx"]) -> None:
    export_sheets(PAIRS, SYSTEMS, tmp_path, kind=kind)
    path = tmp_path / "sheets" / f"rater_1.{kind}"
    if kind == "csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    else:
        types = {cell.data_type for row in openpyxl.load_workbook(path).active.iter_rows() for cell in row}
        assert types == {"s", "n"}


def test_a_sheet_that_is_not_filled_in_rightly_is_named_by_row_and_column(tmp_path: Path) -> None:
    export_sheets(PAIRS, SYSTEMS, tmp_path)
    key, sheets = tmp_path / "key.json", tmp_path / "sheets"
    with pytest.raises(RatingError, match=r"rater_1.csv, row 2, relevance_a: empty; a score is a whole number"):
        import_sheets(tmp_path)
    fill(sheets / "rater_1.csv", key, FIRST)
    fill(sheets / "rater_2.csv", key, {**FIRST, "id2": (6, 3, 2, 2)})
    with pytest.raises(RatingError, match="'6'; a score is a whole number from 1 to 5"):
        import_sheets(tmp_path)
    lines = (sheets / "rater_2.csv").read_text().splitlines(keepends=True)
    (sheets / "rater_2.csv").write_text("".join(lines[:-1]))
    with pytest.raises(RatingError, match="is missing"):
        import_sheets(tmp_path)
    with pytest.raises(RatingError, match="may be with the raters"):
        export_sheets(PAIRS, SYSTEMS, tmp_path)


def test_a_long_text_is_cut_for_xlsx_and_says_so(tmp_path: Path) -> None:
    write_sheet(tmp_path / "s.xlsx", ("a", "b"), [[1, "x" * 40_000], [2, "short"]])
    first, second = read_sheet(tmp_path / "s.xlsx", ("a", "b"))
    assert len(first["b"]) == LONGEST_CELL
    assert first["b"].endswith("[cut: 40,000 characters in all]")
    assert second == {"a": "2", "b": "short"}
    (tmp_path / "bad.xlsx").write_text("no workbook")
    with pytest.raises(SheetError, match=r"bad.xlsx: cannot be read"):
        read_sheet(tmp_path / "bad.xlsx", ("a",))

"""Sheets for people, CSV or XLSX: every cell is text or a number, never a formula.

A spreadsheet program reads a CSV cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end as a formula:
such text gets an apostrophe in front. XLSX has a type for text, and its cells hold at most 32,767 characters: what is
longer is cut, and says so.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from storage.errors import UserError

LONGEST_CELL = 32_767
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

Cell = str | int | None


class SheetError(UserError):
    """A sheet that cannot be read or written."""


def write_sheet(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Write a sheet with a header; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".xlsx":
        _write_xlsx(path, columns, rows)
        return
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # the mark tells spreadsheet programs the encoding
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_harmless(cell) for cell in row] for row in rows)


def read_sheet(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Every row as text, without spaces around it; empty rows are left out. Raises ``SheetError``."""
    try:
        header, *rows = _cells_of_xlsx(path) if path.suffix == ".xlsx" else _cells_of_csv(path)
    except FileNotFoundError:
        raise SheetError(f"{path}: no such file") from None
    except Exception as error:  # openpyxl raises what its zip and XML readers raise
        raise SheetError(f"{path}: cannot be read: {error}") from None
    missing = [name for name in columns if name not in header]
    if missing:
        raise SheetError(f"{path}: no column {', '.join(missing)}; it has {', '.join(filter(None, header))}")
    places = [header.index(name) for name in columns]
    padded = [row + [""] * (len(header) - len(row)) for row in rows if any(row)]
    return [{name: row[place] for name, place in zip(columns, places, strict=True)} for row in padded]


def _harmless(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _write_xlsx(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(path, {"in_memory": True}) as book:
        sheet = book.add_worksheet("ratings")
        wrapped = book.add_format({"text_wrap": True, "valign": "top"})
        sheet.freeze_panes(1, 1)
        sheet.set_column(1, len(columns) - 1, 40, wrapped)
        for at, row in enumerate([columns, *rows]):
            for place, cell in enumerate(row):
                if isinstance(cell, int):
                    sheet.write_number(at, place, cell)
                elif cell is not None:
                    sheet.write_string(at, place, _cut(cell), wrapped)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_CELL:
        return text
    note = f"\n[cut: {len(text):,} characters in all]"
    return text[: LONGEST_CELL - len(note)] + note


def _cells_of_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        start = file.readline()
        file.seek(0)
        # Some spreadsheet programs save with semicolons where the decimal sign is a comma.
        delimiter = ";" if start.count(";") > start.count(",") else ","
        return [[cell.strip() for cell in row] for row in csv.reader(file, delimiter=delimiter)] or [[]]


def _cells_of_xlsx(path: Path) -> list[list[str]]:
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        return [["" if cell is None else str(cell).strip() for cell in row] for row in rows] or [[]]
    finally:
        book.close()

"""The human protocol of CriticGen, section 4.1: two raters, blind, and an adjudicator.

Two rubrics of one answer stand side by side as A and B, which is which drawn per pair. Each rater gives both 1 to 5
for relevance (fits this answer) and coverage (holds its salient failure modes). Where the two differ by a point or
more on any of the four scores, the adjudicator scores both rubrics anew, and these scores stand; elsewhere the mean
of the two does. Cohen's kappa is that of the two raters before adjudication, over both rubrics.

    FOLDER/key.json               which rubric is A; not for the raters
    FOLDER/sheets/rater_1.csv     (or .xlsx) and rater_2: to be filled in
    FOLDER/sheets/adjudicator.csv written by the import, for the pairs the raters differ on
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from storage.errors import UserError
from tasks.agreement import score_matrix, weighted_kappa
from tasks.evaluation.sheets import read_sheet, write_sheet

ATTRIBUTES = ("relevance", "coverage")
SCORES = tuple(f"{attribute}_{rubric}" for attribute, rubric in product(ATTRIBUTES, "ab"))
COLUMNS = ("pair", "question", "answer", "rubric_a", "rubric_b", *SCORES)
RATERS = ("rater_1", "rater_2")
ADJUDICATOR = "adjudicator"

Ratings = NDArray[np.float64]  # pairs x the four of SCORES


class RatingError(UserError):
    """Sheets that cannot be used; the message names file, row and column."""


class RubricPair(NamedTuple):
    """Two rubrics for one answer, as text, in the order of the systems."""

    id: str
    question: str
    answer: str
    rubrics: tuple[str, str]


def export_sheets(
    pairs: Sequence[RubricPair],
    systems: tuple[str, str],
    folder: Path,
    *,
    kind: Literal["csv", "xlsx"] = "csv",
    seed: int = 0,
) -> list[Path]:
    """Write the key and both raters' sheets. Raises ``RatingError`` where a key stands already: sheets may be out."""
    key_path = folder / "key.json"
    if key_path.exists():
        raise RatingError(f"{key_path} exists: its sheets may be with the raters; name another folder")
    if not pairs:
        raise RatingError("no pair of rubrics to rate")
    random = np.random.default_rng(seed)
    order = [pairs[place] for place in random.permutation(len(pairs))]
    swapped = [bool(flip) for flip in random.integers(0, 2, len(order))]
    rows: list[list[str | int | None]] = [
        [number, pair.question, pair.answer, *(pair.rubrics[::-1] if flip else pair.rubrics), *(None for _ in SCORES)]
        for number, (pair, flip) in enumerate(zip(order, swapped, strict=True), 1)
    ]
    written = [folder / "sheets" / f"{rater}.{kind}" for rater in RATERS]
    for path in written:
        write_sheet(path, COLUMNS, rows)
    key = {
        "systems": systems,
        "kind": kind,
        "pairs": [
            {"pair": number, "id": pair.id, "a": systems[flip], "b": systems[not flip]}
            for number, (pair, flip) in enumerate(zip(order, swapped, strict=True), 1)
        ],
    }
    key_path.write_bytes(orjson.dumps(key, option=orjson.OPT_INDENT_2))
    return [*written, key_path]


def import_sheets(folder: Path) -> dict[str, Any]:
    """The figures of the filled sheets; the adjudicator's sheet is written where one is needed and not there.

    ``to_adjudicate`` pairs wait for the adjudicator: while there are any, no mean is given. Raises ``RatingError``
    for a sheet that is missing, has a row too few or too many, or a score that is no whole number from 1 to 5.
    """
    try:
        key = orjson.loads((folder / "key.json").read_bytes())
    except (OSError, ValueError) as error:
        raise RatingError(
            f"{folder / 'key.json'}: cannot be read ({error}); `criticgen rate export` writes it"
        ) from None
    systems, kind, pairs = key["systems"], key["kind"], key["pairs"]
    numbers = [pair["pair"] for pair in pairs]
    sheets = {rater: folder / "sheets" / f"{rater}.{kind}" for rater in (*RATERS, ADJUDICATOR)}
    first, second = (_ratings(sheets[rater], numbers) for rater in RATERS)
    differ = np.any(np.abs(first - second) >= 1, axis=1)
    disputed = [numbers[place] for place in np.flatnonzero(differ)]
    final = (first + second) / 2
    waiting = bool(disputed)
    if disputed:
        if sheets[ADJUDICATOR].exists():
            ruled = _ratings(sheets[ADJUDICATOR], disputed, blank=True)
            waiting = bool(np.isnan(ruled).any())
            final[differ] = ruled
        else:
            texts = {int(row["pair"]): row for row in read_sheet(sheets[RATERS[0]], COLUMNS)}
            write_sheet(
                sheets[ADJUDICATOR],
                COLUMNS,
                [
                    [number, *(texts[number][name] for name in COLUMNS[1:5]), *(None for _ in SCORES)]
                    for number in disputed
                ],
            )
    return {
        "pairs": len(pairs),
        "adjudicated": len(disputed),
        "adjudication_rate": len(disputed) / len(pairs),
        "to_adjudicate": disputed if waiting else [],
        "adjudicator_sheet": str(sheets[ADJUDICATOR]) if waiting else None,
        "kappa": {attribute: _kappa(first, second, place) for place, attribute in enumerate(ATTRIBUTES)},
        "means": None if waiting else _means(final, systems, pairs),
    }


def _kappa(first: Ratings, second: Ratings, attribute: int) -> dict[str, Any]:
    """Of one attribute's scores of both rubrics."""
    columns = slice(2 * attribute, 2 * attribute + 2)
    matrix = score_matrix(first[:, columns].ravel(), second[:, columns].ravel())
    return {name: weighted_kappa(matrix, power=power)._asdict() for name, power in (("linear", 1), ("quadratic", 2))}


def _means(final: Ratings, systems: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    means = {}
    for system in systems:
        place = np.array([0 if pair["a"] == system else 1 for pair in pairs])
        rows = np.arange(len(pairs))
        means[system] = {name: float(final[rows, 2 * at + place].mean()) for at, name in enumerate(ATTRIBUTES)}
    return means


def _ratings(path: Path, numbers: Sequence[int], *, blank: bool = False) -> Ratings:
    """A sheet's scores in the order of ``numbers``; NaN for empty ones where these are allowed."""
    rows, faults = {}, []
    for at, row in enumerate(read_sheet(path, COLUMNS), 2):
        try:
            number = int(row["pair"])
        except ValueError:
            faults.append(f"{path}, row {at}: pair {row['pair']!r} is no number")
            continue
        if number not in numbers or number in rows:
            faults.append(
                f"{path}, row {at}: pair {number} {'stands twice' if number in rows else 'is not of this key'}"
            )
        rows[number] = [_score(row[name], blank, f"{path}, row {at}, {name}", faults) for name in SCORES]
    faults += [f"{path}: pair {number} is missing" for number in numbers if number not in rows]
    if faults:
        more = f"\n  and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise RatingError("ratings cannot be read:\n  " + "\n  ".join(faults[:5]) + more)
    return np.array([rows[number] for number in numbers])


def _score(cell: str, blank: bool, place: str, faults: list[str]) -> float:
    if cell in {"1", "2", "3", "4", "5", "1.0", "2.0", "3.0", "4.0", "5.0"}:
        return float(cell)
    if cell or not blank:
        faults.append(f"{place}: {'empty' if not cell else repr(cell)}; a score is a whole number from 1 to 5")
    return float("nan")

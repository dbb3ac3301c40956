"""Pairwise preference benchmarks from files: a prompt, two responses, which is preferred, and criteria where given.

    RubricBench    case_id, instruction, response_a, response_b, label, rubrics
    JudgeBench     pair_id, question, response_A, response_B, label ("A>B" or "B>A")
    RewardBench    id, prompt, chosen, rejected (RewardBench 2: lists, of which every pair is a sample)

Which it is, its columns say. For those without rubrics, ``read_rubrics`` reads a file of id and rubrics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from storage.errors import UserError
from tasks.sources.faults import BadRow
from tasks.sources.rows import read_rows

_FIRST = {"a", "a>b", "a>>b", "response_a", "first"}
_SECOND = {"b", "b>a", "b>>a", "response_b", "second"}
_CRITERION = ("criterion", "rubric", "description", "text", "content")


class PreferenceError(UserError):
    """A benchmark file that cannot be used; the message names file and row."""


@dataclass(frozen=True)
class Sample:
    """Two responses to a prompt; ``preferred`` is 0 or 1."""

    id: str
    prompt: str
    responses: tuple[str, str]
    preferred: int
    criteria: tuple[str, ...] = ()


def read_preferences(path: Path, rubrics: Path | None = None) -> list[Sample]:
    """Every sample, with the criteria of ``rubrics`` where its own file has none. Raises ``PreferenceError``."""
    samples: list[Sample] = []
    for place, row in _rows(path):
        try:
            samples += _samples(row, place)
        except KeyError as missing:
            raise PreferenceError(f"{place}: no {missing.args[0]}") from None
        except ValueError as error:
            raise PreferenceError(f"{place}: {error}") from None
    if not samples:
        raise PreferenceError(f"{path}: no sample in it")
    if rubrics is None:
        return samples
    criteria = read_rubrics(rubrics)
    return [one if one.criteria else replace(one, criteria=criteria.get(one.id.split("#")[0], ())) for one in samples]


def read_rubrics(path: Path) -> dict[str, tuple[str, ...]]:
    """Criteria by the id of their sample."""
    found = {}
    for place, row in _rows(path):
        name = next((row[key] for key in ("id", "case_id", "pair_id") if row.get(key) is not None), None)
        if name is None:
            raise PreferenceError(f"{place}: no id")
        try:
            found[str(name)] = criteria_of(row.get("rubrics"))
        except ValueError as error:
            raise PreferenceError(f"{place}: {error}") from None
    return found


def criteria_of(rubrics: Any) -> tuple[str, ...]:
    """Criteria from a list of texts or of objects with one, or the JSON of it; weights that came along are left out.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(rubrics, str):
        try:
            rubrics = orjson.loads(rubrics)
        except ValueError:
            raise ValueError("rubrics are no JSON list") from None
    if rubrics is None or not isinstance(rubrics, list):
        raise ValueError(f"rubrics are {type(rubrics).__name__}, not a list")
    texts = [_criterion(entry) for entry in rubrics]
    if any(not text.strip() for text in texts):
        raise ValueError("a rubric's criterion is empty")
    return tuple(texts)


def _criterion(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Mapping):
        for name in _CRITERION:
            if isinstance(entry.get(name), str):
                return str(entry[name])
    raise ValueError(f"a rubric is a text or an object with {', '.join(_CRITERION)}, not {str(entry)[:60]}")


def _samples(row: Mapping[str, Any], place: str) -> list[Sample]:
    if "case_id" in row:
        criteria = criteria_of(row["rubrics"])
        responses = str(row["response_a"]), str(row["response_b"])
        return [Sample(str(row["case_id"]), str(row["instruction"]), responses, _preferred(row["label"]), criteria)]
    if "pair_id" in row:
        responses = str(row["response_A"]), str(row["response_B"])
        return [Sample(str(row["pair_id"]), str(row["question"]), responses, _preferred(row["label"]))]
    if "chosen" in row:
        chosen, rejected = (value if isinstance(value, list) else [value] for value in (row["chosen"], row["rejected"]))
        pairs = [(str(good), str(bad)) for good in chosen for bad in rejected]
        ids = [str(row["id"])] if len(pairs) == 1 else [f"{row['id']}#{number}" for number in range(1, len(pairs) + 1)]
        return [Sample(name, str(row["prompt"]), pair, 0) for name, pair in zip(ids, pairs, strict=True)]
    raise PreferenceError(f"{place}: none of case_id, pair_id and chosen: no benchmark that is known")


def _preferred(label: Any) -> int:
    said = str(label).strip().lower()
    if said in _FIRST | _SECOND:
        return int(said in _SECOND)
    raise ValueError(f"label {label!r} is neither A nor B")


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in read_rows(path.absolute()):
        if isinstance(row, BadRow):
            raise PreferenceError(str(row))
        yield f"{path}:{number}", row

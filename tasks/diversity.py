"""Lexical diversity (CriticGen, Appendix B, Eq. 8): how much of what a field says is said once.

    Distinct-n = |unique n-grams| / |all n-grams|   over all texts of one field, n = 2, 3, 4

It is exact. N-grams never cross texts. A question stands in the rows of all its answers, and an answer in those of
all its rubric items, so per row their figure falls with the number of models and items and says little about the
text. Hence ``counted``:

    question, answer                              distinct  each question id or answer id once: the reported figure
                                                  rows      once for every row it stands in
    rubric, reason, suggestion, refined_answer    rows      a row's own text

In rubric_data a row is an answer and ``rubric`` its whole rubric; in refine_data a row is a rubric item and
``rubric`` that item's text.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl

from storage.schemas import DIVERSITY
from tasks.text import Mode, Ragged, ngrams, token_hashes
from tasks.unique import Unique

INPUT = {"question": "question_id", "answer": "answer_id"}
GENERATED = {
    "rubric_data": ("rubric",),
    "refine_data": ("rubric", "reason", "suggestion", "refined_answer"),
}
NS = (2, 3, 4)
CHUNK = 4096  # rows tokenized at a time

Frames = pl.DataFrame | Iterable[pl.DataFrame]


class Count(NamedTuple):
    """Texts, all their n-grams, and how many of these differ."""

    texts: int
    ngrams: int
    unique: int

    @property
    def distinct(self) -> float | None:
        """Distinct-n, None where there is no n-gram."""
        return self.unique / self.ngrams if self.ngrams else None


def distinct(texts: Iterable[pl.Series], ns: Iterable[int], mode: Mode) -> dict[int, Count]:
    """Distinct-n for each n, over the texts of all the series. Null is no text; an empty one has no n-grams."""
    field = _Field(ns)
    for series in texts:
        for first in range(0, len(series), CHUNK):
            field.add(token_hashes(series.slice(first, CHUNK).drop_nulls(), mode))
    return field.counts()


def distinct_n(texts: Iterable[pl.Series], n: int, mode: Mode) -> Count:
    """Distinct-n over the texts of all the series."""
    return distinct(texts, [n], mode)[n]


def diversity(collections: Mapping[tuple[str, str], Frames], *, mode: Mode = "word") -> pl.DataFrame:
    """The table ``diversity``.

    ``collections`` has for each data set (rubric_data, refine_data) and filter step the rows that stand at that
    step, as a frame or as frames one after another. Columns: question_id, answer_id, question, answer and the
    generated fields of the data set. One question_id (answer_id) has one text, so the first row of it is read. A
    null text is not counted. Raises ``ValueError`` for another data set and for a missing column.
    """
    rows: list[dict[str, object]] = []
    for (data_set, step), frames in collections.items():
        if data_set not in GENERATED:
            raise ValueError(f"diversity: no data set {data_set!r} (there are {', '.join(GENERATED)})")
        for field, counted, n, count in _counts(frames, data_set, step, mode):
            rows.append(
                {
                    "data_set": data_set,
                    "field": field,
                    "step": step,
                    "counted": counted,
                    "n": n,
                    "texts": count.texts,
                    "ngrams": count.ngrams,
                    "unique_ngrams": count.unique,
                    "distinct": count.distinct,
                }
            )
    empty = pl.DataFrame(pl.from_arrow(DIVERSITY.schema.empty_table()))
    return pl.DataFrame(rows, schema=empty.schema)


def _counts(frames: Frames, data_set: str, step: str, mode: Mode) -> Iterator[tuple[str, str, int, Count]]:
    inputs = {field: _InputField(id_) for field, id_ in INPUT.items()}
    generated = {field: _Field(NS) for field in GENERATED[data_set]}
    for chunk in _chunks(frames):
        if missing := {*INPUT, *INPUT.values(), *generated} - {*chunk.columns}:
            raise ValueError(f"diversity of {data_set}, {step}: no column {', '.join(sorted(missing))}")
        for name, field in inputs.items():
            field.add_rows(chunk, name, mode)
        for name, own in generated.items():
            own.add(token_hashes(chunk[name].drop_nulls(), mode))
    for name, field in inputs.items():
        yield from ((name, "distinct", n, field.count(n)) for n in NS)
        yield from ((name, "rows", n, field.count_rows(n)) for n in NS)
    for name, own in generated.items():
        yield from ((name, "rows", n, own.count(n)) for n in NS)


def _chunks(frames: Frames) -> Iterator[pl.DataFrame]:
    for frame in [frames] if isinstance(frames, pl.DataFrame) else frames:
        yield from frame.iter_slices(CHUNK)


class _Field:
    """The n-grams of one field, for several n."""

    def __init__(self, ns: Iterable[int]) -> None:
        self._texts = 0
        self._ngrams = dict.fromkeys(ns, 0)
        self._unique = {n: Unique() for n in self._ngrams}

    def add(self, tokens: Ragged) -> None:
        self._texts += len(tokens.counts)
        for n, unique in self._unique.items():
            grams = ngrams(tokens, n).values
            self._ngrams[n] += len(grams)
            unique.add(grams)

    def count(self, n: int) -> Count:
        return Count(self._texts, self._ngrams[n], len(self._unique[n]))

    def counts(self) -> dict[int, Count]:
        return {n: self.count(n) for n in self._unique}


class _InputField(_Field):
    """A field whose texts stand in many rows: each is read once, and its rows are counted."""

    def __init__(self, id_: str) -> None:
        super().__init__(NS)
        self._id = id_
        self._tokens = pl.DataFrame(schema={"id": pl.String, "tokens": pl.Int64})
        self._rows = [pl.DataFrame(schema={"id": pl.String, "rows": pl.UInt32})]

    def add_rows(self, chunk: pl.DataFrame, name: str, mode: Mode) -> None:
        texts = (
            chunk.select(pl.col(self._id).cast(pl.String).alias("id"), pl.col(name).alias("text"))
            .drop_nulls("text")
            .group_by("id", maintain_order=True)
            .agg(pl.col("text").first(), pl.len().cast(pl.UInt32).alias("rows"))
        )
        self._rows.append(texts.select("id", "rows"))
        new = texts.join(self._tokens, on="id", how="anti", maintain_order="left")
        tokens = token_hashes(new["text"], mode)
        self.add(tokens)
        self._tokens = pl.concat([self._tokens, new.select("id", pl.Series("tokens", tokens.counts))])

    def count_rows(self, n: int) -> Count:
        """As ``count``, every row for itself: the same texts again and again bring no new n-gram."""
        rows = pl.concat(self._rows).join(self._tokens, on="id")
        ngrams_ = (pl.col("rows").cast(pl.Int64) * (pl.col("tokens") - n + 1).clip(0)).sum()
        texts, all_ngrams = rows.select(pl.col("rows").cast(pl.Int64).sum(), ngrams_.alias("ngrams")).row(0)
        return Count(texts, all_ngrams, self.count(n).unique)

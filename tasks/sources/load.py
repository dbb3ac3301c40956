"""From a source of the config to question rows: read, check, number, and count what is dropped and why."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from storage.ids import content_id, file_id
from tasks.config import Source
from tasks.sources import columns, gsm8k, hub, limo, natural_reasoning, numinamath_cot, qwq_longcot
from tasks.sources.faults import BadRow, SourceError, UnusableRow
from tasks.sources.question import Question, Row
from tasks.sources.rows import read_rows
from tasks.structured import sanitize

READING = 1  # part of every fingerprint: raise it when an adapter takes something else from a row
CHUNK = 50_000  # rows
EXAMPLES = 5

ADAPTERS = {
    "gsm8k": gsm8k,
    "limo": limo,
    "natural_reasoning": natural_reasoning,
    "numinamath_cot": numinamath_cot,
    "qwq_longcot": qwq_longcot,
}

SCHEMA = {
    "question_id": pl.String,
    "source": pl.String,
    "source_row": pl.Int64,
    "licence": pl.String,
    "text": pl.String,
    "reference_answer": pl.String,
    "reference_solution": pl.String,
}


@dataclass(frozen=True)
class Loaded:
    """A source's questions, and what became of every row: ``rows_read`` is the questions plus ``dropped``.

    ``dropped`` counts by reason: broken, missing_field, empty, too_long, duplicate. ``sanitized`` counts the
    questions in which lone surrogates or NUL became U+FFFD. ``examples`` are the first few bad rows.
    """

    questions: pl.DataFrame
    dropped: dict[str, int] = field(default_factory=dict)
    rows_read: int = 0
    sanitized: int = 0
    examples: list[str] = field(default_factory=list)


def load_source(source: Source, *, limit: int | None, max_characters: int, skip_bad_rows: bool) -> Loaded:
    """The first ``limit`` questions of a source (None: all), reading no further than that.

    ``source_row`` counts on over the files of a hub data set. A row whose text the source had before is bad too,
    as a duplicate. Raises ``SourceError`` where the source cannot be read, gives no question at all, lacks a column
    that it names, or has a bad row, unless ``skip_bad_rows`` or the source's own setting says to go on without.
    """
    if limit == 0:
        return Loaded(pl.DataFrame(schema=SCHEMA))
    wanted, read = _adapter(source)
    unseen = set(wanted)
    frames: list[pl.DataFrame] = []
    chunk: list[tuple[str | int | None, ...]] = []
    dropped: Counter[str] = Counter()
    examples: list[str] = []
    known: dict[str, int] = {}
    rows_read = sanitized = 0
    for number, found in _read(_files(source), wanted, read, unseen):
        rows_read += 1
        if isinstance(found, Question) and len(found.text) > max_characters:
            reason = f"{len(found.text):,} characters (at most {max_characters:,})"
            found = BadRow(source.path or hub.place(source), number, reason, "too_long")
        if isinstance(found, Question):
            text, answer, solution, changed = _sanitized(found)
            question_id = content_id("question", source.name, text)
            if question_id in known:
                reason = f"the question of row {known[question_id]} again"
                found = BadRow(source.path or hub.place(source), number, reason, "duplicate")
        if isinstance(found, BadRow):
            dropped[found.kind] += 1
            if len(examples) < EXAMPLES:
                examples.append(str(found))
            continue
        known[question_id] = number
        sanitized += changed
        chunk.append((question_id, source.name, number, source.licence or found.licence, text, answer, solution))
        if len(chunk) == CHUNK:
            frames.append(pl.DataFrame(chunk, SCHEMA, orient="row"))
            chunk = []
        if len(known) == limit:
            break
    frames.append(pl.DataFrame(chunk, SCHEMA, orient="row"))
    loaded = Loaded(pl.concat(frames), dict(dropped), rows_read, sanitized, examples)
    _check(source, loaded, unseen, skip_bad_rows or source.skip_bad_rows)
    return loaded


def source_fingerprint(source: Source) -> str:
    """A hash of what decides a source's questions, beside the arguments of ``load_source``: the data (a file's content,
    or a hub data set's commit) and the fields of the config that say how it is read. Raises ``SourceError`` for a
    source that is not there, or a CSV or Parquet file without a column that it names.
    """
    if source.path is None:
        data: tuple[str | None, ...] = (source.hub, source.hub_config, source.split, hub.commit(source))
    else:
        path = Path(source.path)
        rows = read_rows(path, _adapter(source)[0])
        if path.suffix.lower() != ".json":  # which would be read to its end
            next(rows, None)
        data = (path.suffix.lower(), file_id(path))
    named = (source.question, source.reference_answer, source.reference_solution) if source.adapter == "columns" else ()
    return content_id("source", READING, source.name, source.adapter, named, source.licence, data)


def spread(limit: int | None, sources: int) -> list[int | None]:
    """Each source's share of ``limit`` questions in all, the first ones one more where it does not come out even."""
    if limit is None:
        return [None] * sources
    share, rest = divmod(limit, sources)
    return [share + (place < rest) for place in range(sources)]


def assign_shards(questions: pl.DataFrame, shard_size: int) -> pl.DataFrame:
    """Adds the column ``shard``: ``<source>-<index>``, each source's questions in the frame's order."""
    index = pl.int_range(pl.len()).over("source") // shard_size
    name = pl.format("{}-{}", "source", index.cast(pl.String).str.zfill(4))
    return questions.with_columns(name.alias("shard"))


def _adapter(source: Source) -> tuple[Sequence[str], Callable[[Row], Question]]:
    if source.adapter == "columns":
        return columns.columns(source), partial(columns.read, source=source)
    adapter = ADAPTERS[source.adapter]
    return adapter.COLUMNS, adapter.read


def _files(source: Source) -> Iterable[Path]:
    return hub.parquet_files(source) if source.path is None else [Path(source.path)]


def _read(
    files: Iterable[Path], wanted: Sequence[str], read: Callable[[Row], Question], unseen: set[str]
) -> Iterator[tuple[int, Question | BadRow]]:
    """Each row's number in the source and what it holds. Takes from ``unseen`` the columns that it meets."""
    before = 0
    for file in files:
        number = 0
        for number, row in read_rows(file, wanted):
            found: Question | BadRow
            if isinstance(row, BadRow):
                found = row
            else:
                if unseen:
                    unseen.difference_update(row)
                try:
                    found = read(row)
                except UnusableRow as error:
                    found = BadRow(str(file), number, str(error), error.kind)
            yield before + number, found
        before += number


def _sanitized(question: Question) -> tuple[str, str | None, str | None, bool]:
    text, changed = sanitize(question.text)
    answer, answer_changed = sanitize(question.reference_answer or "")
    solution, solution_changed = sanitize(question.reference_solution or "")
    return text, answer or None, solution or None, changed or answer_changed or solution_changed


def _check(source: Source, loaded: Loaded, unseen: set[str], skip_bad_rows: bool) -> None:
    place = source.path or hub.place(source)
    if loaded.rows_read == 0:
        raise SourceError(f"source {source.name}: {place} holds no rows")
    bad = dict(sorted(loaded.dropped.items()))
    none_good = loaded.questions.is_empty()
    if bad and (none_good or not skip_bad_rows):
        counts = ", ".join(f"{kind} {count:,}" for kind, count in bad.items())
        advice = (
            "No row can be used: check `adapter` and the column names of this source."
            if none_good
            else "Mend them, or go on without them: --skip-bad-rows leaves bad rows out and counts them."
        )
        summary = f"{sum(bad.values()):,} of {loaded.rows_read:,} rows read cannot be used ({counts}):"
        examples = [f"  {example}" for example in loaded.examples]
        raise SourceError("\n".join([f"source {source.name}: {summary}", *examples, advice]))
    if unseen:
        raise SourceError(
            f"source {source.name}: no row of {place} has {' or '.join(map(repr, sorted(unseen)))}; "
            "check the column names of this source"
        )

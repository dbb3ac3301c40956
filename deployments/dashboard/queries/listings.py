"""The tables as lists: what is shown of each, filtered by, searched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storage.errors import UserError
from storage.schemas import LEVEL_COLUMNS


class NoSuchListing(UserError):
    """There is no such table, filter or order."""


@dataclass(frozen=True)
class Listing:
    """A table as a list: its id's column, the columns shown, the SQL of its filters, the texts that are searched.

    ``unique``: the id is of one row alone, so that texts are read for the rows of a page only.
    """

    table: str
    id: str
    columns: Sequence[str]
    filters: Mapping[str, str] = field(default_factory=dict)
    searched: Sequence[str] = ()
    unique: bool = True


def listing_of(table: str) -> Listing:
    """Raises ``NoSuchListing``."""
    if table not in LISTINGS:
        raise NoSuchListing(f"there is no table {table!r}: {', '.join(LISTINGS)}")
    return LISTINGS[table]


def _own(*names: str) -> dict[str, str]:
    return {name: f"{name} = ${name}" for name in names}


# A shard is of one source, and a shard's rows lie together.
_SOURCE = {"source": "shard IN (SELECT DISTINCT shard FROM questions WHERE source = $source)"}
_CALL_FILTERS = _SOURCE | _own("stage", "model", "outcome", "batch", "shard")
_LEVELS = tuple(LEVEL_COLUMNS)

LISTINGS = {
    listing.table: listing
    for listing in (
        Listing(
            "items",
            "item_id",
            ("item_id", "source", "generator", "origin", "family", "dimension", "teacher_score", "votes", "fate"),
            _own("source", "generator", "origin", "family", "fate", "shard") | {"score": "teacher_score = $score"},
            ("dimension", *_LEVELS),
        ),
        Listing(
            "questions",
            "question_id",
            ("question_id", "source", "source_row", "text", "reference_answer", "shard"),
            _own("source", "shard"),
            ("text", "reference_answer"),
        ),
        Listing(
            "answers",
            "answer_id",
            ("answer_id", "model", "origin", "target_score", "text", "shard"),
            _SOURCE | _own("model", "origin", "shard") | {"score": "target_score = $score"},
            ("text",),
        ),
        Listing(
            "rubrics",
            "item_id",
            ("item_id", "family", "dimension", "level_0", "level_5", "repaired", "shard"),
            _SOURCE | _own("family", "shard"),
            ("dimension", *_LEVELS),
        ),
        Listing(
            "trajectories",
            "call_id",
            ("item_id", "role", "model", "score", "reason", "suggestion", "shard"),
            _SOURCE | _own("role", "model", "score", "shard"),
            ("reason", "suggestion", "refined_answer"),
        ),
        Listing(
            "consensus",
            "item_id",
            ("item_id", "teacher_score", "votes", "kept", "reason", "shard"),
            _SOURCE | _own("reason", "shard") | {"score": "teacher_score = $score"},
        ),
        Listing(
            "coverage",
            "question_id",
            ("question_id", "dimension", "round", "level", "covered_before", "requested", "synthesized_score", "hit"),
            _SOURCE | _own("shard") | {"score": "level = $score"},
            unique=False,
        ),
        Listing(
            "calls",
            "call_id",
            (
                "call_id",
                "stage",
                "model",
                "outcome",
                "error",
                "attempts",
                "output_tokens",
                "cost_usd",
                "latency_s",
                "batch",
            ),
            _CALL_FILTERS,
            ("error",),
        ),
        Listing(
            "ledger",
            "call_id",
            ("call_id", "attempt", "run", "stage", "model", "outcome", "error", "latency_s", "finished_at"),
            _CALL_FILTERS,
            ("text", "error"),
            unique=False,
        ),
        Listing(
            "near_duplicates",
            "instance_id",
            ("data_set", "instance_id", "kept", "twin_id", "shared", "jaccard"),
            _own("data_set") | {"fate": "kept = ($fate = 'kept')", "twin_id": "twin_id = $twin_id"},
            unique=False,
        ),
        Listing(
            "splits",
            "instance_id",
            ("data_set", "instance_id", "question_id", "split"),
            _own("data_set", "split"),
            unique=False,
        ),
        Listing(
            "diversity",
            "field",
            ("data_set", "field", "step", "counted", "n", "ngrams", "distinct"),
            _own("data_set"),
            unique=False,
        ),
    )
}

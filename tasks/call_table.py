"""The calls table: each call of the ledger once, with its class and what it took."""

from collections.abc import Mapping, Sequence

import polars as pl

from storage.schemas import CALLS
from tasks.calls import Attempt
from tasks.models import Outcome
from tasks.models.outcomes import UNBILLED

UNASKED = "todo"


def calls_table(
    records: pl.DataFrame,
    attempts: Mapping[str, Sequence[Attempt]],
    outcomes: Mapping[str, Outcome | None],
    *,
    wanted: bool,
) -> pl.DataFrame:
    """The calls table's rows of these ledger records; an outcome of None is a call still to be asked."""
    verdicts = pl.DataFrame(
        [
            (call_id, outcome.value if outcome else UNASKED, None if outcome is Outcome.OK else tried[-1].error)
            for call_id, outcome in outcomes.items()
            if (tried := attempts[call_id])
        ],
        {"call_id": pl.String, "outcome": pl.String, "error": pl.String},
        orient="row",
    ).with_columns(wanted=pl.lit(wanted))

    def reported(name: str) -> pl.Expr:
        """The sum of what was reported; null when nothing was."""
        return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)

    unknown = pl.col("cost_usd").is_null() & ~pl.col("outcome").is_in([o.value for o in UNBILLED])

    last = ("stage", "shard", "batch", "model", "prompt", "question_id", "answer_id", "item_id")
    calls = records.group_by("call_id", maintain_order=True).agg(
        *[pl.col(name).last() for name in (*last, "latency_s", "request_id", "vendor_batch", "finished_at")],
        pl.len().cast(pl.Int16).alias("attempts"),
        *[reported(name) for name in ("input_tokens", "cached_tokens", "output_tokens", "thinking_tokens")],
        pl.when(~unknown.any()).then(pl.col("cost_usd").sum()).alias("cost_usd"),
    )
    return calls.join(verdicts, on="call_id").select(list(CALLS.columns)).sort("call_id")

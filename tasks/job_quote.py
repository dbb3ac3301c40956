"""What a job would ask and what that costs, before anything is asked: ``--dry-run``.

Calls that the ledger holds are not asked again. Tokens of a call are the mean of the stage's calls to the same model,
where the ledger has some; else a token is taken as 4 bytes of the prompt, and an answer as long as the job says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from storage.ledger import read_attempts
from storage.workspace import Workspace
from tasks.batches import call_ids
from tasks.jobs import Job, Kind, named_rows, stage_of
from tasks.models import Outcome, Usage
from tasks.models.prices import prices_of
from tasks.prompt_lengths import BYTES_PER_TOKEN
from tasks.settings import Model

_SAMPLE = 200  # prompts that are rendered for their length


@dataclass(frozen=True)
class Planned:
    """Calls of one kind to one model.

    ``rows`` are what they are about; not ``known``: they follow from other calls, and stand-ins of their number and
    length are given. ``output_tokens``: what an answer takes where none is measured.
    """

    kind: Kind[Any]
    model: Model
    rows: pl.DataFrame
    output_tokens: int
    known: bool = True


def job_quote(job: Job, place: Workspace | None, planned: Sequence[Planned]) -> list[dict[str, Any]]:
    """A line for each: stage, model, calls, done, left, input_tokens and output_tokens (of those left), usd (null:
    the price is not known), measured, and at_most (what was not known was counted in full).
    """
    columns = ["call_id", "stage", "model", "outcome", "input_tokens", "output_tokens"]
    held = None if place is None else read_attempts(place.root, columns).filter(outcome=Outcome.OK.value)
    return [_line(job, held, each) for each in planned]


def _line(job: Job, held: pl.DataFrame | None, plan: Planned) -> dict[str, Any]:
    rows = named_rows(plan.kind, plan.rows).unique(["question_id", "sample"], keep="first", maintain_order=True)
    stage = stage_of(plan.kind, plan.model, rows)
    same = None if held is None else held.filter(stage=plan.kind.stage, model=plan.model.name)
    done = 0
    if same is not None and plan.known:
        done = len(set(call_ids(stage, job, plan.model, rows)) & set(same["call_id"]))
    measured = same is not None and not same.is_empty()
    if measured:
        sent, received = same.select(pl.col("input_tokens", "output_tokens").mean().fill_null(0)).row(0)  # type: ignore[union-attr]
    else:
        sample = rows.head(_SAMPLE).to_dicts()
        texts = [message.text for row in sample for message in stage.messages(job, row)]
        shape = len(str(stage.schema(job) or "")) * len(sample)
        sent = (sum(len(text.encode()) for text in texts) + shape) / BYTES_PER_TOKEN / max(len(sample), 1)
        received = plan.output_tokens
    left = len(rows) - done
    batch = job.transport_of(plan.kind.stage, plan.model.name) == "batch"
    each = prices_of(job, plan.model).cost_usd(Usage(round(sent), 0, round(received)), batch=batch)
    return {
        "stage": plan.kind.stage,
        "model": plan.model.name,
        "calls": len(rows),
        "done": done,
        "left": left,
        "input_tokens": round(left * sent),
        "output_tokens": round(left * received),
        "usd": None if each is None else left * each,
        "measured": measured,
        "at_most": not plan.known,
    }

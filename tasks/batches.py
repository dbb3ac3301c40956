"""An annotation batch: one stage of one shard. Wanted minus done, asked, and written to its tables.

Every stage that asks models is a ``Stage``; ``run_batch`` is the same for all of them. A batch's manifest
holds the fingerprint of its inputs and settings: where it still stands, nothing is compared row by row.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from math import ceil
from typing import Any, Generic, TypeVar

import polars as pl
from pydantic import BaseModel

from storage.ids import content_id
from storage.ledger import Ledger, Record
from storage.schemas import TABLES
from storage.workspace import Workspace, now
from tasks.call_table import UNASKED, calls_table
from tasks.calls import Attempt, Call, Caller, Row, next_step, read_attempt
from tasks.models import Message, Outcome, Request
from tasks.prompts import load_prompt
from tasks.settings import Asking, Model
from tasks.structured import Parsed

C = TypeVar("C", bound=Asking)  # the settings of the job
Manifest = dict[str, Any]


class BatchFailed(Exception):
    """More of a batch's calls failed than ``max_failed`` allows, or calls were left. Its rows are written."""


class BatchWaits(Exception):
    """Calls of a batch are in vendor batches that this run does not wait for. Its other rows are written."""


@dataclass(frozen=True)
class Batch:
    """``part`` tells a stage's batches of one shard apart: pool, coverage-1, ..., or all."""

    stage: str
    shard: str
    part: str

    @property
    def name(self) -> str:
        return f"{self.stage} {self.shard} {self.part}"

    @property
    def place(self) -> tuple[str, str, str]:
        return self.stage, self.shard, self.part


@dataclass(frozen=True)
class Answered:
    """A call that has a value: the row it was asked for, the value, and the vendor's word for why it stopped."""

    row: Row
    parsed: Parsed[Any]
    finish_reason: str | None


@cache
def release() -> str:
    """This project's version: part of every fingerprint, so that a new release reads the ledger anew."""
    return version("criticgen-data")


@cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    return output.model_json_schema()


@dataclass(frozen=True)
class Stage(Generic[C]):
    """How one stage asks. All functions are pure.

    ``models(config)`` are asked; ``inputs(workspace, config, batch)`` gives a row for each thing asked about
    (columns ``question_id``, ``answer_id``, ``item_id``, ``sample``, and what ``messages`` needs);
    ``table(answered)`` makes the rows of ``writes``. A call's id is made of the prompt, the model, the schema,
    those ids and the columns ``asked_about``; ``selects(config)`` are settings that change which calls are wanted.
    """

    name: str
    prompt: str
    output: Callable[[C], type[BaseModel] | None]
    writes: str
    models: Callable[[C], Sequence[Model]]
    before: Callable[[C, Batch], Sequence[tuple[str, ...]]]
    inputs: Callable[[Workspace, C, Batch], pl.DataFrame]
    messages: Callable[[C, Row], tuple[Message, ...]]
    table: Callable[[Sequence[Answered]], pl.DataFrame]
    asked_about: Sequence[str] = ()
    selects: Callable[[C], Any] = lambda config: None
    file: Callable[[Batch], tuple[str, ...]] = lambda batch: (batch.shard, batch.part)

    def schema(self, config: C) -> Mapping[str, Any] | None:
        output = self.output(config)
        return None if output is None else _schema(output)

    def call_key(self, config: C, model: Model) -> str:
        """The part of a call id that a stage's calls to one model share."""
        prompt = load_prompt(self.prompt).id
        return content_id(self.name, prompt, config.model_key(model), self.schema(config))


@dataclass(frozen=True)
class Retry:
    """The failed calls to ask again: of a stage, a model, a class, a shard, each None for all.

    An abandoned call is asked again only where its class is named.
    """

    stage: str | None = None
    model: str | None = None
    outcome: str | None = None
    shard: str | None = None

    def covers(self, batch: Batch, model: str, outcome: str) -> bool:
        if self.outcome is None and outcome == Outcome.ABANDONED:
            return False
        wanted = (
            (self.stage, batch.stage),
            (self.model, model),
            (self.outcome, outcome),
            (self.shard, batch.shard),
        )
        return outcome != Outcome.OK and all(asked in (None, found) for asked, found in wanted)


@dataclass
class Run(Generic[C]):
    """One run over a workspace: what its batches share.

    ``ranks`` orders the shards where their calls wait for one model: shards that end one after the other, not all
    at the end, give the judges work while the teacher is still busy.
    """

    config: C
    workspace: Workspace
    ledger: Ledger
    caller: Caller
    stage_of: Callable[[Batch], Stage[C]]
    retry: Retry | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)


def fingerprint(stage: Stage[C], config: C, batch: Batch, workspace: Workspace) -> str | None:
    """Hash of all that decides a batch's tables; None while a batch before it is not complete."""
    outputs = []
    for place in stage.before(config, batch):
        manifest = workspace.read_manifest(*place)
        if manifest is None:
            return None
        outputs.append(manifest["output"])
    keys = [stage.call_key(config, model) for model in stage.models(config)]
    return content_id(release(), keys, stage.selects(config), outputs)


def stands(stage: Stage[C], config: C, batch: Batch, workspace: Workspace, retry: Retry | None = None) -> bool:
    """Whether the batch's tables are there and are what the settings ask for, so that nothing is to be done."""
    manifest = workspace.read_manifest(*batch.place)
    if manifest is None or is_red(manifest, config) or manifest["todo"]:
        return False
    if retry and any(retry.covers(batch, retry.model or "", outcome) for outcome in manifest["failed"]):
        return False
    files = (workspace.table_path(stage.writes, *stage.file(batch)), workspace.table_path("calls", *batch.place))
    same = bool(manifest["fingerprint"] == fingerprint(stage, config, batch, workspace))
    return same and all(file.exists() for file in files)


def still_waits(run: Run[C], stage: Stage[C], batch: Batch) -> Manifest | None:
    """The batch's manifest, where all that it lacks is in vendor batches that this run does not wait for."""
    manifest = run.workspace.read_manifest(*batch.place)
    desk = run.caller.desk
    if manifest is None or desk is None or not manifest["todo"]:
        return None
    if not manifest["todo"] == manifest["waiting"] == desk.left_open(batch.name):
        return None
    same = manifest["fingerprint"] == fingerprint(stage, run.config, batch, run.workspace)
    return manifest if same else None


def is_red(manifest: Manifest, config: Asking) -> bool:
    """Whether calls were left out for a cause, or more of them failed than the config allows."""
    failed, allowed = sum(manifest["failed"].values()), ceil(config.max_failed * manifest["wanted"])
    return bool(manifest["todo"] > manifest["waiting"]) or failed > allowed


def wanted(stage: Stage[C], config: C, inputs: pl.DataFrame) -> list[Row]:
    """The calls the inputs need, each row with its ``call_id`` and ``model``."""
    rows = inputs.to_dicts()
    return [
        row | {"call_id": call_id, "model": model.name}
        for model in stage.models(config)
        for row, call_id in zip(rows, call_ids(stage, config, model, inputs), strict=True)
    ]


def call_ids(stage: Stage[C], config: C, model: Model, inputs: pl.DataFrame) -> list[str]:
    """The id of the model's call for each row of the inputs, of which the ids and ``asked_about`` alone are read."""
    key = stage.call_key(config, model)
    about = inputs.select("question_id", "answer_id", "item_id", "sample", *stage.asked_about)
    return [content_id(key, *row) for row in about.iter_rows()]


async def run_batch(run: Run[C], stage: Stage[C], batch: Batch, retry: Retry | None = None) -> Manifest:
    """Do one annotation batch and write its manifest. ``retry`` comes beside the run's own.

    Raises ``BatchFailed`` when it ends red, ``BatchWaits`` when it has not ended.
    """
    config, workspace = run.config, run.workspace
    mark = fingerprint(stage, config, batch, workspace)
    models = {model.name: model for model in stage.models(config)}
    prompt = load_prompt(stage.prompt).id
    output, schema = stage.output(config), stage.schema(config)
    retries = [asked for asked in (run.retry, retry) if asked is not None]

    def prepare() -> tuple[list[Row], dict[str, list[Attempt]]]:
        rows = wanted(stage, config, stage.inputs(workspace, config, batch))
        attempts: dict[str, list[Attempt]] = {row["call_id"]: [] for row in rows}
        ids = pl.Series("call_id", list(attempts), pl.String)
        for record in run.ledger.records(batch.stage, ids).to_dicts():
            attempts[record["call_id"]].append(read_attempt(record, output))
        return rows, attempts

    def call_of(row: Row, failed_as: Outcome | None) -> Call:
        model = models[row["model"]]
        shared: Record = {
            "call_id": row["call_id"],
            "stage": batch.stage,
            "shard": batch.shard,
            "batch": batch.name,
            "model": model.name,
            "prompt": prompt,
            **{name: row[name] for name in ("question_id", "answer_id", "item_id", "sample")},
        }

        def request() -> Request:
            return Request(
                row["call_id"],
                stage.messages(config, row),
                model.max_output_tokens,
                schema,
                output.__name__.lower() if output else "output",
                model.params,
                run.ranks.get(batch.shard, 0),
            )

        return Call(
            model,
            request,
            shared,
            output,
            batched=config.transport_of(batch.stage, model.name) == "batch",
            of_run=run.ledger.run if failed_as else None,
            reopened=failed_as is Outcome.ABANDONED,
        )

    rows, attempts = await asyncio.to_thread(prepare)
    outcomes: dict[str, Outcome | None] = {}
    todo: list[tuple[Row, Outcome | None]] = []
    for row in rows:
        step = next_step(attempts[row["call_id"]], config.give_up_after)
        if not isinstance(step, Outcome):
            todo.append((row, None))
        elif any(asked.covers(batch, row["model"], step) for asked in retries):
            todo.append((row, step))
        else:
            outcomes[row["call_id"]] = step
    run.caller.progress.begin(batch.stage, len(rows), len(rows) - len(todo))

    async def settle(row: Row, failed_as: Outcome | None) -> None:
        outcome = await run.caller.settle(call_of(row, failed_as), attempts[row["call_id"]])
        outcomes[row["call_id"]] = outcome
        run.caller.progress.ended(batch.stage, outcome)

    await all_of(settle(*call) for call in todo)
    return await asyncio.to_thread(_write, run, stage, batch, mark, rows, attempts, outcomes)


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; the first error ends the others and is raised as it is, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in work:
                group.create_task(part)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _write(
    run: Run[C],
    stage: Stage[C],
    batch: Batch,
    mark: str | None,
    rows: Sequence[Row],
    attempts: Mapping[str, Sequence[Attempt]],
    outcomes: Mapping[str, Outcome | None],
) -> Manifest:
    workspace = run.workspace
    ids = pl.Series("call_id", [row["call_id"] for row in rows], pl.String)
    records = run.ledger.records(batch.stage, ids)
    answered = []
    for row in rows:
        good = next((a for a in attempts[row["call_id"]] if a.value is not None), None)
        if good is not None and good.value is not None:
            answered.append(Answered(row, good.value, good.finish_reason))
    table = stage.table(answered)
    calls = calls_table(records, attempts, outcomes, wanted=True).with_columns(
        shard=pl.lit(batch.shard), batch=pl.lit(batch.name)
    )
    run.ledger.seal(batch.stage, batch.shard, batch.name)
    workspace.forget_manifest(*batch.place)
    workspace.write_table(stage.writes, table, *stage.file(batch))
    workspace.write_table("calls", calls, *batch.place)

    counts = Counter(outcome.value if outcome else UNASKED for outcome in outcomes.values())
    unasked = {row["model"] for row in rows if outcomes[row["call_id"]] is None}
    failed = {name: n for name, n in sorted(counts.items()) if name not in (Outcome.OK.value, UNASKED)}
    manifest: Manifest = {
        "stage": batch.stage,
        "shard": batch.shard,
        "part": batch.part,
        "fingerprint": mark,
        "output": content_id(mark, sorted(call.row["call_id"] for call in answered)),
        "wanted": len(rows),
        "ok": counts[Outcome.OK.value],
        "failed": failed,
        "todo": counts[UNASKED],
        "rows": len(table),
        "red": False,
        "waiting": sum(outcome is None and call_id in run.caller.waiting for call_id, outcome in outcomes.items()),
        "left": {name: run.caller.left[name] for name in sorted(unasked & run.caller.left.keys())},
        **{name: int(calls[name].sum()) for name in ("attempts", "input_tokens", "output_tokens")},
        "cost_usd": None if calls["cost_usd"].has_nulls() else float(calls["cost_usd"].sum()),
        "run": run.ledger.run,
        "finished_at": now(),
    }
    manifest["red"] = is_red(manifest, run.config)
    workspace.write_manifest(manifest, *batch.place)
    if manifest["red"]:
        raise BatchFailed(state_message(manifest))
    if manifest["todo"]:
        raise BatchWaits(state_message(manifest))
    return manifest


def state_message(manifest: Manifest) -> str:
    """``rubrics gsm8k-0003 pool: 118 of 120 ok, 2 failed (refused 1, truncated 1)``."""
    name = f"{manifest['stage']} {manifest['shard']} {manifest['part']}"
    parts = [f"{manifest['ok']} of {manifest['wanted']} ok"]
    if failed := manifest["failed"]:
        parts.append(f"{sum(failed.values())} failed ({', '.join(f'{k} {n}' for k, n in failed.items())})")
    if manifest["waiting"]:
        parts.append(f"{manifest['waiting']} in vendor batches")
    if left := manifest["todo"] - manifest["waiting"]:
        parts.append(f"{left} not asked")
    parts += [f"{model}: {why}" for model, why in manifest["left"].items()]
    return f"{name}: {', '.join(parts)}"


def frame_for(table: str, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame with the table's columns and types; also where there are none."""
    empty = pl.from_arrow(TABLES[table].schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return pl.DataFrame(rows, schema=empty.schema, orient="row")

"""Jobs beside the build that ask models: weighing, evaluating, classifying, criticizing.

A job's rows are cut into shards, and a shard goes through rounds of calls. Each round is an annotation batch in the
job's own workspace, so that a job resumes, retries, keeps to its budget and uses vendor batches as the build does.

    verify = Kind("verify", "verify", Verdict, ("instruction", "response", "criterion"), messages)

    async def weigh(shard: str, rows: pl.DataFrame) -> list[int | None]:
        verdicts = await asker.ask(verify, model, rows, shard)    # None where a call failed for good
        ...

    results = await asker.over(rows, 100, weigh)
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import polars as pl
from pydantic import BaseModel, Field

from storage.errors import UserError
from storage.ids import content_id
from tasks import batches
from tasks.batches import Answered, Batch, BatchFailed, BatchWaits, Run, Stage, all_of, frame_for
from tasks.calls import Row
from tasks.config import read_yaml, validated
from tasks.models import Message
from tasks.settings import Asking, Model

V = TypeVar("V", bound=BaseModel | str)
T = TypeVar("T")


class Job(Asking):
    """The settings of a job: servers, limits, prices and budget, and the models it asks."""

    asked: list[Model] = Field(min_length=1, description="The models that the job asks")

    @property
    def models(self) -> list[Model]:
        return self.asked


class JobFailed(UserError):
    """Calls of a job failed, or were not made; what was answered is kept."""


def load_job(name: str, models: Sequence[str], path: Path | None, overrides: Sequence[str] = ()) -> Job:
    """The settings of a job that asks these models (vendor/model).

    The file may be any build's config: its servers, limits, prices, budget and simulator hold for the job, and so do
    the parameters of a model that it names anywhere; ``models`` in it is a list of models with their parameters.
    Without a file models are asked at their vendors', and those named sim-... of a simulator that is started.
    Raises ``ConfigError``.
    """
    values = {} if path is None else read_yaml(path)
    shared = {key: value for key, value in values.items() if key in Asking.model_fields and key != "name"}
    known = {model["name"]: model for model in _models_in(values) if isinstance(model.get("name"), str)}
    asked = [known.get(model, {"name": model}) for model in dict.fromkeys(models)]
    names = {model["name"] for model in asked}
    for section in ("limits", "prices", "transport"):  # of the models that this job asks
        if isinstance(given := shared.get(section), dict):
            shared[section] = {key: value for key, value in given.items() if key in {*names, "default"}}
    simulated = [model.partition("/")[2].startswith("sim-") for model in names]
    if path is None and all(simulated):
        shared["simulator"] = {}
    if not any(simulated):
        shared.pop("simulator", None)
    return validated(Job, {"name": name, **shared, "asked": asked}, list(overrides), str(path or name))


def _models_in(value: Any) -> list[dict[str, Any]]:
    """Every object with a name of the form vendor/model."""
    if isinstance(value, dict):
        own = [value] if "/" in str(value.get("name", "")) else []
        return own + [model for part in value.values() for model in _models_in(part)]
    return [model for part in value for model in _models_in(part)] if isinstance(value, list) else []


@dataclass(frozen=True)
class Kind(Generic[V]):
    """One kind of call: what it is about, and what comes back.

    ``about`` names the columns of a row that decide the call: ``messages`` is given these alone.
    """

    stage: str
    prompt: str
    output: type[V]  # str: plain text
    about: tuple[str, ...]
    messages: Callable[[Row], tuple[Message, ...]]

    @property
    def schema(self) -> type[BaseModel] | None:
        return self.output if issubclass(self.output, BaseModel) else None

    def read(self, value: str) -> V:
        return cast(V, self.schema.model_validate_json(value) if self.schema else value)


@dataclass
class Asker:
    """Asks for a job. ``do_batch`` does one annotation batch: as it is, or as a Prefect task run."""

    run: Run[Job]
    do_batch: Callable[[Run[Job], Batch], Awaitable[None]]
    stages: dict[Batch, Stage[Job]]
    _asking: dict[tuple[str, str, str, int], asyncio.Event] = field(default_factory=dict)

    async def over(self, rows: pl.DataFrame, size: int, work: Callable[[str, pl.DataFrame], Awaitable[T]]) -> list[T]:
        """``work`` on each shard of so many rows, some at the same time; the results in order.

        Raises ``JobFailed`` where shards could not be finished, once the others are.
        """
        places = asyncio.Semaphore(self.run.config.shards_in_flight)
        shards = [(f"{number:05}", part) for number, part in enumerate(rows.iter_slices(size))]
        self.run.ranks = {shard: rank for rank, (shard, _) in enumerate(shards)}
        done: dict[str, T] = {}
        unfinished: list[str] = []

        async def one(shard: str, part: pl.DataFrame) -> None:
            async with places:
                try:
                    done[shard] = await work(shard, part)
                except (BatchFailed, BatchWaits) as left:
                    unfinished.append(str(left))

        await all_of(one(*shard) for shard in shards)
        if unfinished:
            lines = [f"batches that did not end: {len(unfinished)}; what was answered is kept. The first:"]
            raise JobFailed("\n  ".join([*lines, *unfinished[:5]]))
        return [done[shard] for shard, _ in shards]

    async def ask(
        self, kind: Kind[V], model: Model, rows: pl.DataFrame, shard: str, part: str = "all"
    ) -> list[V | None]:
        """The answer for each row, None where its call failed for good. Rows about the same share a call.

        A column ``sample`` numbers repeated calls about the same. Raises what ``run_batch`` raises.
        """
        all_named = named_rows(kind, rows)
        named = all_named.unique(["question_id", "sample"], keep="first", maintain_order=True)
        batch = Batch(kind.stage, shard, part)
        stage = self.stages[batch] = stage_of(kind, model, named)
        run = self.run
        if not batches.stands(stage, run.config, batch, run.workspace, run.retry):
            async with self._alone(kind.stage, model.name, named):
                await self.do_batch(run, batch)
        found = {
            (row_id, sample): kind.read(value)
            for row_id, sample, value in run.workspace.read_table(
                "replies", *stage.file(batch), columns=["row_id", "sample", "value"]
            ).iter_rows()
        }
        return [found.get(key) for key in all_named.select("question_id", "sample").iter_rows()]

    @asynccontextmanager
    async def _alone(self, stage: str, model: str, rows: pl.DataFrame) -> AsyncIterator[None]:
        """Wait for the batches that began before and have calls of these rows too: no call is made twice.

        A batch waits for earlier ones only, so none waits for ever.
        """
        keys = [(stage, model, *row) for row in rows.select("question_id", "sample").iter_rows()]
        others = {self._asking[key] for key in keys if key in self._asking}
        ended = asyncio.Event()
        self._asking |= dict.fromkeys(keys, ended)
        try:
            for other in others:
                await other.wait()
            yield
        finally:
            ended.set()
            for key in keys:
                if self._asking.get(key) is ended:
                    del self._asking[key]


def named_rows(kind: Kind[V], rows: pl.DataFrame) -> pl.DataFrame:
    """What a call of the kind is about, a row for each of ``rows``, with the ids that a stage's inputs have."""
    about = rows.select(kind.about)
    return about.with_columns(
        question_id=pl.Series([content_id(*row) for row in about.iter_rows()], dtype=pl.String),
        sample=rows["sample"].cast(pl.Int64) if "sample" in rows.columns else pl.lit(0, pl.Int64),
        answer_id=pl.lit(None, pl.String),
        item_id=pl.lit(None, pl.String),
    )


def stage_of(kind: Kind[V], model: Model, rows: pl.DataFrame) -> Stage[Job]:
    """The stage that asks the model about these ``named_rows``."""
    ids = content_id(*rows["question_id"], *rows["sample"])
    return Stage(
        name=kind.stage,
        prompt=kind.prompt,
        output=lambda job: kind.schema,
        writes="replies",
        models=lambda job: [model],
        before=lambda job, batch: (),
        inputs=lambda workspace, job, batch: rows,
        messages=lambda job, row: kind.messages({name: row[name] for name in kind.about}),
        table=_replies,
        selects=lambda job: ids,
        file=lambda batch: batch.place,
    )


def _replies(answered: Sequence[Answered]) -> pl.DataFrame:
    return frame_for(
        "replies",
        [
            {
                "call_id": call.row["call_id"],
                "row_id": call.row["question_id"],
                "sample": call.row["sample"],
                "model": call.row["model"],
                "value": value.model_dump_json() if isinstance(value := call.parsed.value, BaseModel) else value,
                "repaired": call.parsed.repaired,
                "sanitized": call.parsed.sanitized,
            }
            for call in answered
        ],
    )

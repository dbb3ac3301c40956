"""``criticgen evaluate``: a critic held against references, from a file of what it said or by asking it.

A model is asked by a job's annotation batches (flows/jobs.py); what came of it is the workspace's predictions.parquet,
which is then read as any file of predictions is.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows.jobs import run_job
from storage.errors import UserError
from storage.workspace import Workspace, whole_file
from tasks.critic import FIELDS, Words
from tasks.evaluation.compare import evaluate_pairs
from tasks.evaluation.examine import Examined, critiques, planned_critiques, planned_rubrics, rubric_figures, rubrics
from tasks.evaluation.items import COLUMNS, has_rubrics, lowest_score, read_answers, read_items
from tasks.evaluation.tables import Pairs, Scale, TableError, read_pairs
from tasks.job_quote import Planned, job_quote
from tasks.jobs import Asker, Job, load_job
from tasks.rubrics import Rubric

PREDICTIONS = "predictions.parquet"


class Evaluation(BaseModel):
    """What is evaluated, and against what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reference: Path = Field(description="What it is held against, as exports/refine_data/test.parquet")
    predictions: Path | None = Field(None, description="What the critic said: JSONL, JSON, CSV or Parquet")
    model: str | None = Field(None, description="A critic to ask, as vendor/model")
    verifier: str | None = Field(None, description="A model that scores answers before and after, as vendor/model")
    prompts: Words = Field("critic", description="Its own, of a trained critic, or the teacher's, of a general model")
    without: list[Literal["reason", "suggestion"]] = Field(
        default_factory=list, description="Fields that the critic was trained without"
    )
    rewrite_only: bool = Field(False, description="The critic was trained to write the refined answer alone")
    control: bool = Field(False, description="Of rubrics: ask for two of each question alone, too")
    limit: int | None = Field(None, gt=0, description="So many of the first references")
    columns: dict[str, str] = Field(
        default_factory=dict, description="Columns of other names: predictions.score: rating"
    )
    key: str | None = Field(None, description="Column to join by; item_id or instance_id when not given")
    in_order: bool = Field(False, description="Join the rows by their order")
    scale: tuple[float, float] | None = Field(None, description="Lowest and highest score: 0 to 5, or 1 to 5")
    embedder: str | None = Field(None, description="minilm, sentence-transformers:NAME, openai#MODEL, or none")
    key_env: str = Field("OPENAI_API_KEY", description="Variable that holds the embedding server's key")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.predictions is None) == (self.model is None):
            raise ValueError("give the critic's predictions (a file), or a model to ask: one of the two")
        if self.rewrite_only and self.without:
            raise ValueError("give either without or rewrite_only")
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        return ("refined_answer",) if self.rewrite_only else tuple(name for name in FIELDS if name not in self.without)

    @property
    def asks(self) -> list[str]:
        return [name for name in (self.model, self.verifier) if name is not None]


@dataclass(frozen=True)
class Prepared:
    """What is to be asked, and what is made of the answers."""

    job: Job
    planned: list[Planned]
    work: Callable[[Asker], Awaitable[Any]]
    finish: Callable[[Any, Workspace], dict[str, Any]]


def evaluate_files(asked: Evaluation) -> dict[str, Any]:
    """What two files allow to measure. No model is asked. Raises ``UserError``."""
    return _named(asked, _figures(asked, _given(asked)))


def prepare(asked: Evaluation, config: Path | None = None, overrides: list[str] | None = None) -> Prepared:
    """Read the files and settings; nothing is asked. Raises ``UserError``."""
    job = load_job("evaluate", asked.asks, config, overrides or [])
    models = {model.name: model for model in job.asked}
    critic = models[asked.model] if asked.model else None
    if critic is not None and has_rubrics(asked.reference):
        return _of_rubrics(asked, job)
    items = read_items(asked.reference, _of_items(asked), asked.limit)
    given = None if critic is not None else _given(asked)
    if given is not None:
        if "predicted_refined_answer" not in given.frame.columns:
            raise TableError(f"{asked.predictions}: no column refined_answer for {asked.verifier} to score")
        items = items.with_columns(refined_answer=given.frame["predicted_refined_answer"])
    verifier = models[asked.verifier] if asked.verifier else None
    examined = Examined(critic, verifier, asked.prompts, asked.fields, lowest_score(items))

    def finish(rows: pl.DataFrame, place: Workspace) -> dict[str, Any]:
        if given is not None:
            scores = {f"predicted_{name}": rows[name].cast(pl.Float64) for name in ("score_before", "score_after")}
            return _named(asked, _figures(asked, given._replace(frame=given.frame.with_columns(**scores))), job)
        with whole_file(path := place.root / PREDICTIONS) as file:
            rows.write_parquet(file)
        pairs = read_pairs(
            path, asked.reference, columns=_of_pairs(asked), in_order=True, scale=_scale(asked), limit=asked.limit
        )
        return _named(asked, _figures(asked, pairs), job)

    return Prepared(job, planned_critiques(examined, items), critiques(examined, items), finish)


def evaluate(asked: Evaluation, prepared: Prepared, place: Workspace, *, retry: bool = False) -> dict[str, Any]:
    """Ask and measure, in this process. Raises ``UserError``."""
    return prepared.finish(run_job(prepared.job, place, prepared.work, retry=retry), place)


def quote(prepared: Prepared, root: Path) -> list[dict[str, Any]]:
    """What is left to ask, and what that costs."""
    place = Workspace(root, create=False) if (root / "workspace.json").exists() else None
    return job_quote(prepared.job, place, prepared.planned)


def default_workspace(asked: Evaluation) -> Path:
    """Of its own for each critic, or verifier of a file."""
    return Path("workspaces") / f"evaluate-{asked.asks[0].replace('/', '-')}"


def _of_rubrics(asked: Evaluation, job: Job) -> Prepared:
    if asked.verifier is not None:
        raise UserError(f"{asked.reference} has rubrics, and none of them an answer to verify: leave out the verifier")
    answers = read_answers(asked.reference, asked.limit)
    critic = job.asked[0]

    def finish(found: tuple[list[Rubric | None], list[Rubric | None]], place: Workspace) -> dict[str, Any]:
        made = [None if rubric is None else [item.model_dump() for item in rubric.items] for rubric in found[0]]
        with whole_file(place.root / PREDICTIONS) as file:
            answers.drop("dimensions").with_columns(pl.Series("rubric", made)).write_parquet(file)
        figures = {"references": len(answers), "rubrics": rubric_figures(answers, *found), "not_measured": {}}
        return _named(asked, figures, job)

    return Prepared(
        job,
        planned_rubrics(critic, asked.prompts, answers, control=asked.control),
        rubrics(critic, asked.prompts, answers, control=asked.control),
        finish,
    )


def _given(asked: Evaluation) -> Pairs:
    if asked.predictions is None:
        raise UserError("name a file of predictions, or a model to ask")
    return read_pairs(
        asked.predictions,
        asked.reference,
        columns=_of_pairs(asked),
        key=asked.key,
        in_order=asked.in_order,
        scale=_scale(asked),
        limit=asked.limit,
    )


def _figures(asked: Evaluation, pairs: Pairs) -> dict[str, Any]:
    return evaluate_pairs(pairs, embedder=asked.embedder, key_env=asked.key_env)


def _named(asked: Evaluation, found: dict[str, Any], job: Job | None = None) -> dict[str, Any]:
    named = {"predictions": asked.model or str(asked.predictions and asked.predictions.name)}
    named |= {"reference": asked.reference.name}
    if asked.verifier:
        named |= {"verifier": asked.verifier}
    return named | {"simulated": job is not None and job.simulated} | found


def _scale(asked: Evaluation) -> Scale | None:
    return Scale(*asked.scale) if asked.scale else None


_ITEM_NAMES = {f"reference.{name}" for name in COLUMNS}
_BOTH = {"reference.answer", "reference.family"}


def _of_items(asked: Evaluation) -> dict[str, str]:
    return {name: column for name, column in asked.columns.items() if name in _ITEM_NAMES}


def _of_pairs(asked: Evaluation) -> dict[str, str]:
    return {name: column for name, column in asked.columns.items() if name not in _ITEM_NAMES - _BOTH}

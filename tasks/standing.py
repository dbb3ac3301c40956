"""Which calls a config wants of its questions, and which of them a workspace holds. Nothing is asked or written.

A call's wanted set is known as far as the calls before it are settled: a rubric's items are known once the rubric is
there. What is not known yet is left to an estimate (tasks/quote.py).

    node              its calls follow from         the node before it
    answers           questions and generators
    rubrics           answers that are ok           answers, or coverage of the same part
    trajectories      items of rubrics that are ok  rubrics of the same part
    judges            trajectories that are ok      trajectories of the same part
    coverage          levels no answer has          all trajectories of the parts before
"""

from dataclasses import dataclass

import polars as pl

from storage.ids import content_id
from storage.ledger import frame_of, read_attempts
from storage.workspace import Workspace
from tasks.answers import ANSWERS
from tasks.batches import Answered, Stage, call_ids, frame_for
from tasks.calls import read_attempt
from tasks.config import Config
from tasks.coverage import COVERAGE, KEYS, levels, uncovered
from tasks.models import Outcome
from tasks.rubrics import RUBRICS
from tasks.trajectories import JUDGES, TRAJECTORIES, parts_of

NODE = ["part", "stage"]
_USAGE = ["input_tokens", "cached_tokens", "output_tokens", "cost_usd", "most_usd", "latency_s", "vendor_batch"]
STAGES = (ANSWERS, RUBRICS, TRAJECTORIES, COVERAGE, JUDGES)
_ATTEMPT = ["call_id", "stage", "model", "outcome", *_USAGE]
_VERDICT = ["call_id", "outcome"]
_ITEM = ["item_id", "answer_id", "call_id", "dimension"]
_SCORE = ["item_id", "answer_id", "call_id", "score"]


@dataclass(frozen=True)
class Held:
    """What a workspace holds, with or without tables made of it.

    ``attempts`` are the ledger's, without texts; ``verdicts`` the outcomes of the calls table; ``items`` and ``scores``
    the rubric items and the teacher's scores.
    """

    attempts: pl.DataFrame
    verdicts: pl.DataFrame
    items: pl.DataFrame
    scores: pl.DataFrame


@dataclass(frozen=True)
class Standing:
    """``calls``: all that are known to be wanted, with ``part``, ``stage``, ``model``, ``question_id``, ``ok`` and
    ``settled`` (not asked again). ``known``: a row for each question, part and stage, with ``known`` (the question's
    whole wanted set is in ``calls``) and ``begun`` (some of it is in the ledger).
    """

    calls: pl.DataFrame
    known: pl.DataFrame

    @property
    def unfinished(self) -> list[str]:
        """The questions of which calls are still to come."""
        lacking = [self.calls.filter(~pl.col("settled")), self.known.filter(~pl.col("known"))]
        return pl.concat([frame.select("question_id") for frame in lacking])["question_id"].unique().to_list()


def chain_of(part: str) -> list[Stage[Config]]:
    """The stages of one part, each following from the one before."""
    return [ANSWERS if part == "pool" else COVERAGE, RUBRICS, TRAJECTORIES, JUDGES]


def asks(config: Config) -> str:
    """A hash of all that decides which calls a question needs."""
    keys = [[stage.call_key(config, model) for model in stage.models(config)] for stage in STAGES]
    return content_id(keys, [stage.selects(config) for stage in STAGES], parts_of(config), config.rubrics.min_items)


def nothing_held() -> Held:
    """What a workspace that is not there holds."""
    return Held(
        frame_of([]).select(_ATTEMPT),
        frame_for("calls", []).select(_VERDICT),
        frame_for("rubrics", []).select(_ITEM),
        frame_for("trajectories", []).select(_SCORE),
    )


def read_held(workspace: Workspace, config: Config) -> Held:
    """Read the ledger and the tables; what the ledger holds and no table does is parsed, as after a kill."""
    attempts = read_attempts(workspace.root, _ATTEMPT)
    verdicts = workspace.read_table("calls", columns=_VERDICT)
    items = workspace.read_table("rubrics", columns=_ITEM)
    scores = workspace.read_table("trajectories", columns=[*_SCORE, "role"])
    failed = verdicts.filter(~pl.col("outcome").is_in([Outcome.OK.value, "todo"]))
    fine = attempts.filter(outcome=Outcome.OK.value).join(failed, on="call_id", how="anti")
    more = [
        _parsed(workspace, config, stage, fine.filter(stage=stage.name).join(table, on="call_id", how="anti"))
        for stage, table in ((RUBRICS, items), (TRAJECTORIES, scores))
    ]
    items = pl.concat([items, more[0].select(items.columns)])
    scores = pl.concat([scores, more[1].select(scores.columns)]).filter(role="teacher").select(_SCORE)
    return Held(attempts, verdicts, items, scores)


def _parsed(workspace: Workspace, config: Config, stage: Stage[Config], calls: pl.DataFrame) -> pl.DataFrame:
    """The stage's table of these calls, from the ledger."""
    if calls.is_empty():
        return frame_for(stage.writes, [])
    ids = ["question_id", "answer_id", "item_id", "shard", "model"]
    texts = ["call_id", "run", "outcome", "error", "text", "sanitized", "finish_reason"]
    records = read_attempts(workspace.root, [*texts, *ids], stage.name).join(calls, on="call_id", how="semi")
    answered: dict[str, Answered] = {}
    for record in records.iter_rows(named=True):
        attempt = read_attempt(record, stage.output(config))
        if attempt.value is not None:
            answered.setdefault(record["call_id"], Answered(record, attempt.value, attempt.finish_reason))
    return stage.table(list(answered.values()))


def standing(config: Config, questions: pl.DataFrame, held: Held) -> Standing:
    """How far each of the questions (``question_id``) has come under these settings."""
    return _Walk(config, held).all_parts(questions.select("question_id"))


class _Walk:
    """From the questions down to the judges, part by part."""

    def __init__(self, config: Config, held: Held) -> None:
        self._config = config
        self._held = held
        self._states = _states(held)
        self._calls: list[pl.DataFrame] = []
        self._known: list[pl.DataFrame] = []

    def all_parts(self, questions: pl.DataFrame) -> Standing:
        pool, *rounds = parts_of(self._config)
        samples = pl.DataFrame({"sample": range(self._config.answers.samples_per_model)})
        about_no_more = {"answer_id": None, "item_id": None, "dimension": pl.lit(None, pl.String)}
        asked = self._ask(ANSWERS, pool, questions.join(samples, how="cross").with_columns(**about_no_more), questions)
        settled, scored = self._below(pool, asked, questions)
        pool_levels = have = self._levels(scored)
        for part in rounds:
            units = questions.with_columns(dimension=pl.lit(None, pl.String))
            if self._config.coverage.unit == "item":
                units = pool_levels.select(KEYS).unique(maintain_order=True)
            grid = self._grid(part, units, have, settled)
            asked = self._ask(COVERAGE, part, grid, settled)
            settled, scored = self._below(part, asked, settled)
            have = pl.concat([have, self._levels(scored)])
        nodes = [(part, stage.name) for part in (pool, *rounds) for stage in chain_of(part)]
        everyone = questions.join(pl.DataFrame(nodes, NODE, orient="row"), how="cross")
        calls = pl.concat(self._calls)
        begun = calls.filter("settled").select("question_id", *NODE).unique().with_columns(begun=True)
        known = everyone.join(
            pl.concat(self._known).with_columns(known=True), on=["question_id", *NODE], how="left"
        ).join(begun, on=["question_id", *NODE], how="left")
        return Standing(calls, known.with_columns(pl.col("known", "begun").fill_null(False)))

    def _below(self, part: str, answers: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rubrics, trajectories and judges of a part; the questions of which all but the judges is settled, and the
        scores."""
        fine = answers.filter("ok").select("question_id", "dimension", answer_id="call_id")
        known = _all_settled(known, answers)
        least = self._config.rubrics.min_items
        rubrics = self._ask(RUBRICS, part, fine.with_columns(item_id=None, sample=0, min_items=least), known)
        items = rubrics.filter("ok").select("question_id", "call_id").join(self._held.items, on="call_id")
        items = items.select("question_id", "answer_id", "item_id", sample=0)
        known = _all_settled(known, rubrics)
        scored = self._ask(TRAJECTORIES, part, items, known)
        known = _all_settled(known, scored)
        kept = scored.filter("ok").select("call_id", "question_id", "answer_id", "item_id", sample=0)
        self._ask(JUDGES, part, kept.drop("call_id"), known)
        return known, kept.join(self._held.scores.select("call_id", "score"), on="call_id")

    def _grid(self, part: str, units: pl.DataFrame, have: pl.DataFrame, settled: pl.DataFrame) -> pl.DataFrame:
        """The levels to synthesize: those missing where the scores are settled, elsewhere those asked for already."""
        number = int(part.removeprefix("coverage-"))
        grid = uncovered(units, have).with_columns(answer_id=None, item_id=None, sample=0, round=number)
        missing = grid.filter(~pl.col("covered"))
        settled_units = missing.join(settled, on="question_id", how="semi")
        others = grid.join(settled, on="question_id", how="anti")
        (teacher,) = COVERAGE.models(self._config)
        asked = others.with_columns(
            call_id=pl.Series(call_ids(COVERAGE, self._config, teacher, others), dtype=pl.String)
        )
        begun = asked.join(self._states, on="call_id", how="semi").drop("call_id")
        return pl.concat([settled_units, begun])

    def _levels(self, scored: pl.DataFrame) -> pl.DataFrame:
        found = levels(self._config.coverage.unit, scored, self._held.items)
        answers = scored.select("answer_id", "question_id").unique(maintain_order=True)
        return found.join(answers, on="answer_id").select(*KEYS, "level")

    def _ask(self, stage: Stage[Config], part: str, inputs: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """The stage's calls for these inputs, with what became of them; ``known`` are the questions that lack none."""
        made = []
        for model in stage.models(self._config):
            ids = pl.Series("call_id", call_ids(stage, self._config, model, inputs), pl.String)
            made.append(inputs.with_columns(ids, model=pl.lit(model.name)))
        calls = pl.concat(made).join(self._states, on="call_id", how="left", maintain_order="left")
        calls = calls.with_columns(
            pl.col("ok", "settled").fill_null(False), part=pl.lit(part), stage=pl.lit(stage.name)
        )
        self._calls.append(calls.select("question_id", *NODE, "model", "call_id", "ok", "settled"))
        self._known.append(known.select("question_id", part=pl.lit(part), stage=pl.lit(stage.name)))
        return calls


def _states(held: Held) -> pl.DataFrame:
    """``call_id``, ``ok`` and ``settled`` of each call that was ever asked: the calls table knows what was parsed, the
    ledger what has come since."""
    said = held.attempts.group_by("call_id").agg(answered=(pl.col("outcome") == Outcome.OK.value).any())
    both = said.join(held.verdicts.unique("call_id"), on="call_id", how="full", coalesce=True)
    unsaid = pl.col("outcome").is_null() | (pl.col("outcome") == "todo")
    ok = (pl.col("outcome") == Outcome.OK.value).fill_null(False) | (unsaid & pl.col("answered").fill_null(False))
    return both.select("call_id", ok=ok, settled=ok | ~unsaid)


def _all_settled(known: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Of these questions those without a call still to be made."""
    return known.join(calls.filter(~pl.col("settled")), on="question_id", how="anti").select("question_id")

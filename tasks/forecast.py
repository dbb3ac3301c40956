"""What is still to come: calls and tokens by stage and model, in a thousand replicates.

What is known to be wanted is counted (tasks/standing.py). What follows from calls that are not made yet is estimated
from the questions that are measured: calls of a stage for each call of the stage before it, tokens for each call. The
calls of a question go together, so whole questions are resampled: first the measured ones (what their means may be
off by), then as many as are to come (what their sum scatters by). Each source by its own questions, where it has any.
Where nothing is measured, prompt lengths stand in (tasks/prompt_lengths.py), taken to be right within a factor of two
19 times out of 20.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks import prompt_lengths
from tasks.answers import ANSWERS
from tasks.batches import Stage
from tasks.config import Config
from tasks.coverage import COVERAGE
from tasks.standing import NODE, STAGES, Standing, chain_of
from tasks.trajectories import parts_of

REPLICATES = 1_000
MOST_MEASURED = 2_000  # questions that are resampled; of more, as many are drawn
USAGE = ("calls", "requests", "input_tokens", "cached_tokens", "output_tokens", "latency_s", "timed")
SOURCES = ("measured calls", "other models", "prompt lengths")  # of figures, the best first

Array = NDArray[np.float64]
Node = tuple[str, str]  # part, stage


@dataclass(frozen=True)
class Measured:
    """What the measured questions took. ``wanted[node]`` and ``parents[node]``: calls to one model, and calls of the
    node before it, of each question (0 where not all are known). ``usage[part, stage, model]``: questions x ``USAGE``.
    """

    source: NDArray[np.str_]
    wanted: Mapping[Node, Array]
    parents: Mapping[Node, Array]
    usage: Mapping[tuple[str, str, str], Array]


@dataclass
class Forecast:
    """One stage and model: replicates x ``USAGE`` still to come, calls done, and what the figures rest on."""

    stage: str
    model: str
    usage: Array = field(default_factory=lambda: np.zeros((REPLICATES, len(USAGE))))
    done: int = 0
    basis: int = 0  # index into SOURCES

    def of(self, name: str) -> Array:
        return self.usage[:, USAGE.index(name)]


def measure(config: Config, questions: pl.DataFrame, found: Standing, attempts: pl.DataFrame) -> Measured:
    """What the calls of these questions (``question_id``, ``source``) took, under the settings they were made with.

    ``attempts`` are the ledger's.
    """
    begun = found.calls.filter("settled").select("question_id").unique()
    measured = questions.join(begun, on="question_id", how="semi", maintain_order="left")
    if len(measured) > MOST_MEASURED:
        measured = measured.sample(MOST_MEASURED, seed=0)
    took = attempts.group_by("call_id").agg(
        pl.lit(1).alias("calls"),
        pl.len().alias("requests"),
        pl.col("input_tokens", "cached_tokens", "output_tokens").sum(),
        pl.col("latency_s").filter(pl.col("vendor_batch").is_null()).sum(),
        pl.col("vendor_batch").is_null().sum().alias("timed"),
    )
    counts = found.calls.group_by("question_id", *NODE).len()
    known = found.known.filter("known").join(counts, on=["question_id", *NODE], how="left")
    wanted: dict[Node, Array] = {}
    parents: dict[Node, Array] = {}

    def by_question(frame: pl.DataFrame, *names: str) -> Array:
        joined = measured.select("question_id").join(frame, on="question_id", how="left", maintain_order="left")
        return joined.select(pl.col(names).cast(pl.Float64).fill_null(0.0)).to_numpy()

    for part in parts_of(config):
        before: Array | None = None
        for stage in chain_of(part):
            node = known.filter(part=part, stage=stage.name).with_columns(pl.col("len").fill_null(0), one=1)
            calls, is_known = by_question(node, "len", "one").T
            wanted[part, stage.name] = calls / len(stage.models(config))
            parents[part, stage.name] = is_known if before is None else is_known * before
            before = calls
    usage = {
        (str(part), str(stage), str(model)): by_question(calls.group_by("question_id").agg(pl.col(USAGE).sum()), *USAGE)
        for (part, stage, model), calls in found.calls.filter("settled")
        .join(took, on="call_id")
        .group_by(*NODE, "model")
    }
    return Measured(measured["source"].to_numpy().astype(str), wanted, parents, usage)


def forecast(config: Config, questions: pl.DataFrame, found: Standing, measured: Measured) -> list[Forecast]:
    """What is still to come of the questions (``question_id``, ``source``, ``bytes`` of text), by stage and model."""
    rng = np.random.default_rng(0)
    guesses = _guesses(rng)
    lines: dict[tuple[str, str], Forecast] = {}
    unfinished = found.unfinished
    for stage in STAGES:
        for model in stage.models(config):
            done = found.calls.filter(pl.col("settled"), stage=stage.name, model=model.name).height
            lines[stage.name, model.name] = Forecast(stage.name, model.name, done=done)
    by_source = found.calls.join(questions, on="question_id"), found.known.join(questions, on="question_id")
    for (source,), those in questions.group_by("source", maintain_order=True):
        calls, known = (frame.filter(source=source) for frame in by_source)
        to_come = int(those["question_id"].is_in(unfinished).sum())
        if to_come:
            mean_bytes = float(those["bytes"].sum()) / len(those)
            means = _Resampled(config, measured, str(source), to_come, rng, guesses, mean_bytes)
            _add(config, lines, calls.filter(~pl.col("settled")), known, means)
    return list(lines.values())


def _add(
    config: Config,
    lines: Mapping[tuple[str, str], Forecast],
    open_calls: pl.DataFrame,
    known: pl.DataFrame,
    means: "_Resampled",
) -> None:
    """What is to come of one source."""
    counts = {tuple(row[:3]): row[3] for row in open_calls.group_by(*NODE, "model").len().iter_rows()}
    for part in parts_of(config):
        before, basis = np.zeros(REPLICATES), 0
        for stage in chain_of(part):
            rate, rate_basis = means.calls_per_parent(stage, part)
            if stage is COVERAGE:
                # Levels are missing of a question whose scores are not there; more answers only leave fewer of them.
                before += known.filter(~pl.col("known") & ~pl.col("begun"), part=part, stage=stage.name).height
            follow = np.zeros(REPLICATES) if stage is ANSWERS else rate * before
            basis = max(basis, rate_basis) if follow.any() else basis
            before = np.zeros(REPLICATES)
            for model in stage.models(config):
                calls = follow + counts.get((part, stage.name, model.name), 0)
                before += calls
                if not calls.any():
                    continue
                usage, usage_basis = means.usage_per_call(stage, part, model.name)
                line = lines[stage.name, model.name]
                line.usage += calls[:, None] * usage
                line.basis = max(line.basis, basis, usage_basis)


class _Resampled:
    """The means of one source's measured questions (of all, where it has none), in every replicate."""

    def __init__(
        self,
        config: Config,
        measured: Measured,
        source: str,
        to_come: int,
        rng: np.random.Generator,
        guesses: Mapping[tuple[str, str], Array],
        question_bytes: float,
    ) -> None:
        self._config, self._measured, self._guesses, self._bytes = config, measured, guesses, question_bytes
        everyone = np.arange(len(measured.source))
        self._rows = [rows for rows in (everyone[measured.source == source], everyone) if len(rows)]
        self._weights = [_weights(len(rows), to_come, rng) for rows in self._rows]

    def calls_per_parent(self, stage: Stage[Config], part: str) -> tuple[Array, int]:
        """Calls to one model for each call of the stage before (of coverage: for each question), and their basis."""
        node = (part, stage.name)
        if node in self._measured.wanted and self._measured.parents[node].any():
            return self._ratio(self._measured.wanted[node][:, None], self._measured.parents[node])[:, 0], 0
        rate = prompt_lengths.calls_per_parent(self._config, stage.name, part)
        return rate * (self._guesses[stage.name, "calls"] if rate != 1 else np.ones(REPLICATES)), 2

    def usage_per_call(self, stage: Stage[Config], part: str, model: str) -> tuple[Array, int]:
        """Replicates x ``USAGE`` of one call, and their basis: the model's own calls, else the stage's of others."""
        usage = self._measured.usage
        others = [key for key in usage if key[1] == stage.name]
        own = [key for key in others if key[2] == model]
        for keys, basis in (([key for key in own if key[0] == part], 0), (own, 0), (others, 1)):
            if keys:
                total = np.sum([usage[key] for key in keys], axis=0)
                return self._guessed(self._ratio(total, total[:, 0]), stage, basis), basis
        sent, received = prompt_lengths.tokens(stage, self._config, self._bytes)
        return self._guessed(np.tile([1.0, 1.0, sent, 0.0, received, 0.0, 0.0], (REPLICATES, 1)), stage, 2), 2

    def _guessed(self, usage: Array, stage: Stage[Config], basis: int) -> Array:
        """Of another model's figures, or none's: its tokens are rough, and its latency is not known."""
        if basis:
            usage[:, 2:5] *= self._guesses[stage.name, "tokens"][:, None]
            usage[:, 5:] = 0.0
        return usage

    def _ratio(self, above: Array, below: Array) -> Array:
        """Sums of ``above`` over sums of ``below`` in every replicate; those of all where a replicate has none."""
        rows, weights = next(
            (rows, weights) for rows, weights in zip(self._rows, self._weights, strict=True) if below[rows].any()
        )
        above, below = above[rows], below[rows]
        sums, counts = weights @ above, (weights @ below)[:, None]
        whole = above.sum(axis=0) / below.sum()
        return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), whole)


def _guesses(rng: np.random.Generator) -> dict[tuple[str, str], Array]:
    """Factors for each stage's calls and tokens where they are guessed: median 1, one in twenty above 2."""
    places = (np.arange(REPLICATES) + 0.5) / REPLICATES
    normal = np.array([NormalDist().inv_cdf(place) for place in places])
    factors = 2 ** (normal / NormalDist().inv_cdf(0.95))
    return {(stage.name, what): rng.permutation(factors) for stage in STAGES for what in ("calls", "tokens")}


def _weights(number: int, to_come: int, rng: np.random.Generator) -> Array:
    """Replicates x measured questions: how often each stands for one to come."""
    means = rng.multinomial(number, np.full(number, 1 / number), size=REPLICATES) / number
    return rng.multinomial(to_come, means).astype(float)

"""Train and test (CriticGen, section 2): RubricData 5:1 and RefineData 50:1 by rows, whole question clusters only.

**Which clusters.** Clusters are ranked by the hash of seed and cluster name, so a rank does not move when rows are
added. The lowest ranks become test, chosen so that the test rows come as near as whole clusters can to
n / (ratio + 1): exactly so for some thirty clusters, and of larger sets the last thirty taken are chosen anew among
all ranks that follow. RefineData chooses among the clusters whose RefineData questions are all test questions of
RubricData. Where there are two clusters or more, neither side is left empty if that can be avoided.

**Earlier splits.** A cluster with a question that was ever in a data set's test stays in its test, also when that
makes the test too large; RubricData keeps RefineData's earlier test questions out of its train too. Clusters that
are new are taken first, and a train cluster moves to test only where the new ones leave the test rows further than
a mean cluster from what is wanted.

``certificate`` looks at the result alone: what it states is counted in the rows it is given.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import takewhile
from math import ceil
from typing import Any, NamedTuple

import polars as pl

from storage.ids import content_id
from storage.schemas import SPLITS
from tasks.near_duplicates import exact, pairs_over
from tasks.text import Mode

RUBRIC, REFINE = DATA_SETS = ("rubric_data", "refine_data")
NAMES = {RUBRIC: "RubricData", REFINE: "RefineData"}
FREE = 30  # of the lowest ranks, the last ones that may be exchanged to come nearer

Sizes = Mapping[str, int]


def split(
    instances: pl.DataFrame,
    *,
    rubric_ratio: float = 5,
    refine_ratio: float = 50,
    seed: int = 0,
    previous: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The table ``splits`` of ``instances`` (data_set, instance_id, question_id, cluster), sorted by instance.

    ``previous`` is an earlier splits table of the same data set. A ratio that whole clusters cannot reach is not an
    error: ``certificate`` says so. One cluster alone is train. Raises ``ValueError`` for another data set, an
    instance that stands twice, a question in two clusters, or a ratio that is not positive.
    """
    rows = instances.select(pl.col("data_set", "instance_id", "question_id", "cluster").cast(pl.String))
    _check(rows)
    before = rows.clear().with_columns(split=pl.lit(None, pl.String)) if previous is None else previous
    rubric, refine = rows.filter(data_set=RUBRIC), rows.filter(data_set=REFINE)
    ranked = sorted(rows["cluster"].unique(), key=lambda cluster: content_id(seed, cluster))
    rubric_sizes, refine_sizes = _sizes(rubric, ranked), _sizes(refine, ranked)

    # RefineData can take its test from the clusters whose questions all have rubrics.
    whole = set(ranked) - {*refine.join(rubric, on="question_id", how="anti")["cluster"]}
    serving = [cluster for cluster in refine_sizes if cluster in rubric_sizes and cluster in whole]
    held = _held(rows, before.filter(split="test"))
    seen = _held(rows, before.filter(data_set=RUBRIC))
    wanted = _wanted(rubric_sizes, rubric_ratio)
    rubric_test = _choose(rubric_sizes, wanted, held=held, later=seen)
    if serving and len(refine_sizes) > 1 and not rubric_test.intersection(serving):
        first = min(serving, key=lambda cluster: (cluster in seen, max(rubric_sizes[cluster] - wanted, 0)))
        serves_too = _choose(rubric_sizes, wanted, held={*held, first}, later=seen)
        rubric_test = serves_too if len(serves_too) < len(rubric_sizes) else rubric_test
    refine_test = _choose(
        refine_sizes,
        _wanted(refine_sizes, refine_ratio),
        held=_held(rows, before.filter(data_set=REFINE, split="test")),
        later=_held(rows, before.filter(data_set=REFINE)),
        among=rubric_test.intersection(serving),
    )
    tests = {RUBRIC: rubric_test, REFINE: refine_test}
    test = pl.any_horizontal(
        (pl.col("data_set") == name) & pl.col("cluster").is_in(list(chosen)) for name, chosen in tests.items()
    )
    table = rows.with_columns(split=pl.when(test).then(pl.lit("test")).otherwise(pl.lit("train")))
    return table.select(*SPLITS.columns).sort(pl.col("data_set") == REFINE, "instance_id")


def certificate(
    instances: pl.DataFrame,
    splits: pl.DataFrame,
    *,
    rubric_ratio: float = 5,
    refine_ratio: float = 50,
    threshold: float = 0.75,
    n: int = 4,
    mode: Mode = "word",
) -> dict[str, Any]:
    """What is true of ``splits``, counted anew over ``instances`` (data_set, instance_id, question_id, cluster, text).

    ``instances`` are all retained ones; the questions, clusters and texts are read there, and from ``splits`` only
    who is on which side. ``holds``: every instance is on one side, no question and no cluster is on both, no pair
    of texts across the sides of a data set has a Jaccard greater than ``threshold``, and RefineData's test questions
    are all test questions of RubricData. ``problems`` names what does not hold, ``notes`` the ratios that are not
    reached (that is no problem), ``lines`` says everything in plain sentences, ``data_sets`` has the numbers.
    """
    limit = exact(threshold)
    sides = splits.select("data_set", "instance_id", "split")
    rows = instances.join(sides, on=["data_set", "instance_id"], how="left", maintain_order="left")
    stray = sides.join(instances, on=["data_set", "instance_id"], how="anti")
    figures: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    notes: list[str] = []
    lines: list[str] = []
    for name, ratio in ((RUBRIC, rubric_ratio), (REFINE, refine_ratio)):
        own = rows.filter(data_set=name)
        if not len(own):
            continue
        figures[name] = figure = _figure(own, ratio, threshold=threshold, n=n, mode=mode)
        counts = {
            "instances are not on exactly one side": figure["unplaced"] + len(stray.filter(data_set=name)),
            "questions are in train and in test": figure["crossing_questions"],
            "question clusters are in train and in test": figure["crossing_clusters"],
            f"pairs across train and test have a Jaccard greater than {threshold}": figure["crossing_pairs"],
        }
        problems += [f"{NAMES[name]}: {count:,} {what}." for what, count in counts.items() if count]
        lines.append(_ratio_line(name, figure))
        if note := _ratio_note(name, figure):
            notes.append(note)
        if not any(counts.values()):
            lines.append(
                f"{NAMES[name]}: no question cluster is in train and in test, and no pair across them has a "
                f"{n}-gram Jaccard greater than {float(limit):g}."
            )
    outside = (
        rows.filter(data_set=REFINE, split="test")
        .join(rows.filter(data_set=RUBRIC, split="test"), on="question_id", how="anti")["question_id"]
        .n_unique()
    )
    if outside:
        problems.append(f"RefineData: {outside:,} test questions are not test questions of RubricData.")
    elif REFINE in figures:
        lines.append("Every test question of RefineData is a test question of RubricData.")
    return {
        "holds": not problems,
        "data_sets": figures,
        "refine_test_questions_outside": outside,
        "problems": problems,
        "notes": notes,
        "lines": [*lines, *problems, *notes],
    }


def _figure(rows: pl.DataFrame, ratio: float, *, threshold: float, n: int, mode: Mode) -> dict[str, Any]:
    train, test = rows.filter(split="train"), rows.filter(split="test")
    wanted = _wanted({"all": len(rows)}, ratio)
    pairs = pairs_over(test["text"], train["text"], threshold=threshold, n=n, mode=mode)
    examples = pairs.head(5).select(
        test=test["instance_id"].gather(pairs["left"].head(5)),
        train=train["instance_id"].gather(pairs["right"].head(5)),
    )
    clusters = rows.group_by("cluster").agg(rows=pl.len(), sides=pl.col("split").drop_nulls().n_unique())
    questions = rows.group_by("question_id").agg(sides=pl.col("split").drop_nulls().n_unique())
    placed = pl.col("split").is_in(["train", "test"]).fill_null(False)
    return {
        "train_rows": len(train),
        "test_rows": len(test),
        "test_rows_wanted": float(wanted),
        "rows_off": float(abs(len(test) - wanted)),
        "ratio_wanted": ratio,
        "ratio_reached": len(train) / len(test) if len(test) else None,
        "clusters": len(clusters),
        "test_clusters": test["cluster"].n_unique(),
        "largest_cluster_rows": clusters["rows"].max(),
        "unplaced": rows.filter(~placed | pl.col("instance_id").is_duplicated())["instance_id"].n_unique(),
        "crossing_questions": questions.filter(pl.col("sides") > 1).height,
        "crossing_clusters": clusters.filter(pl.col("sides") > 1).height,
        "crossing_pairs": len(pairs),
        "crossing_pair_examples": examples.to_dicts(),
    }


def _ratio_line(name: str, figure: Mapping[str, Any]) -> str:
    reached = f"{figure['ratio_reached']:.4g}:1" if figure["ratio_reached"] is not None else "no test"
    return (
        f"{NAMES[name]}: {figure['train_rows']:,} train and {figure['test_rows']:,} test rows ({reached}, wanted "
        f"{figure['ratio_wanted']:g}:1, {figure['rows_off']:,.1f} rows off), {figure['test_clusters']:,} of "
        f"{figure['clusters']:,} question clusters in test."
    )


def _ratio_note(name: str, figure: Mapping[str, Any]) -> str | None:
    """Why the ratio is not reached, None where it is: to the row, or to a hundredth of the test."""
    if figure["rows_off"] < 1 or figure["rows_off"] <= figure["test_rows_wanted"] / 100:
        return None
    direction = "more" if figure["test_rows"] > figure["test_rows_wanted"] else "fewer"
    return (
        f"{NAMES[name]}: {figure['ratio_wanted']:g}:1 is not reached: {figure['rows_off']:,.1f} test rows {direction} "
        f"than the {figure['test_rows_wanted']:,.1f} wanted. Clusters are not divided (there are "
        f"{figure['clusters']:,}, the largest of {figure['largest_cluster_rows']:,} rows)"
        + (", and what an earlier split had in test stays there." if direction == "more" else ".")
    )


class _Choice(NamedTuple):
    distance: Fraction
    clusters: frozenset[str]


def _choose(
    sizes: Sizes,
    wanted: Fraction,
    *,
    held: Collection[str],
    later: Collection[str],
    among: Collection[str] | None = None,
) -> frozenset[str]:
    """The test clusters out of ``sizes`` (in rank order), ``held`` ones first of all, the others out of ``among``."""
    held = frozenset(cluster for cluster in sizes if cluster in held)
    free = [cluster for cluster in sizes if cluster not in held and (among is None or cluster in among)]
    new = [cluster for cluster in free if cluster not in later]
    choice = _nearest(sizes, wanted, held, new)
    too_far = choice.distance * len(sizes) > sum(sizes.values())
    if len(new) < len(free) and (too_far or not choice.clusters):
        choice = _nearest(sizes, wanted, held, new + [cluster for cluster in free if cluster in later])
    return choice.clusters


def _nearest(sizes: Sizes, wanted: Fraction, held: frozenset[str], order: list[str]) -> _Choice:
    """``held`` and those of ``order`` that together come nearest to ``wanted`` rows, the earlier ones preferred.

    Neither all clusters nor none, where that can be. Of two equally near, the smaller.
    """
    total, taken = sum(sizes.values()), sum(sizes[cluster] for cluster in held)
    sums = [taken]
    for cluster in order:
        sums.append(sums[-1] + sizes[cluster])
    fitting = len(list(takewhile(lambda rows: rows <= wanted, sums[1:])))
    fixed = order[: max(fitting - FREE, 0)]
    base = sums[len(fixed)]
    rest = order[len(fixed) :]

    def distance(rows: int) -> Fraction:
        return abs(base + rows - wanted)

    # Every sum of rows that the rest can make, with the first cluster that makes it; a bit of `made` for each sum.
    # A sum further above what is wanted than zero is below it is needed only where zero would leave the test empty.
    least = min((sizes[cluster] for cluster in rest), default=0)
    farthest = max(int(2 * (wanted - base)), 0 if base else least)
    made, first = 1, {0: -1}
    ideal = max(ceil(wanted - base - Fraction(1, 2)), 0 if base else 1)
    for place, cluster in enumerate(rest):
        if ideal in first:
            break
        fresh = (made << sizes[cluster]) & ~made & ((2 << farthest) - 1)
        made |= fresh
        while fresh:
            low = fresh & -fresh
            first[low.bit_length() - 1] = place
            fresh ^= low
    possible = [rows for rows in first if 0 < base + rows < total] or [0]
    best = min(possible, key=lambda rows: (distance(rows), rows))
    chosen, left = [*held, *fixed], best
    while left:
        chosen.append(rest[first[left]])
        left -= sizes[chosen[-1]]
    return _Choice(distance(best), frozenset(chosen))


def _wanted(sizes: Sizes, ratio: float) -> Fraction:
    """Test rows at one test row to ``ratio`` train rows."""
    if ratio <= 0:
        raise ValueError(f"split ratio {ratio}: give the train rows for each test row, more than 0")
    return sum(sizes.values()) / (Fraction(str(ratio)) + 1)


def _sizes(rows: pl.DataFrame, ranked: list[str]) -> Sizes:
    counts = dict(rows.group_by("cluster").len().iter_rows())
    return {cluster: counts[cluster] for cluster in ranked if cluster in counts}


def _held(rows: pl.DataFrame, before: pl.DataFrame) -> set[str]:
    """The clusters, as they are now, of the questions of earlier rows."""
    return {*rows.join(before, on="question_id", how="semi")["cluster"]}


def _check(rows: pl.DataFrame) -> None:
    if others := sorted({*rows["data_set"]} - {*DATA_SETS}, key=str):
        raise ValueError(f"split: no data set {others[0]!r} (there are {', '.join(DATA_SETS)})")
    if len(twice := rows.filter(pl.struct("data_set", "instance_id").is_duplicated())):
        raise ValueError(f"split: instance {twice['instance_id'][0]} stands twice in {twice['data_set'][0]}")
    questions = rows.select("question_id", "cluster").unique()
    if len(twice := questions.filter(pl.col("question_id").is_duplicated())):
        raise ValueError(f"split: question {twice['question_id'][0]} is in two clusters")

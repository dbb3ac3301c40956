import json
import os
from pathlib import Path

import numpy as np
import pytest

from tasks.weighing.baselines import averaged, direct, from_levels, uniform, whitened_uniform
from tasks.weighing.icw import Judged, settled
from tasks.weighing.preference import preference_accuracy, relative_improvement, response_scores, weighted_accuracy

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", "none"))


def test_each_weighting_by_hand() -> None:
    assert uniform(4).tolist() == [0.25] * 4
    assert direct([2, 1, 1]).tolist() == [0.5, 0.25, 0.25]
    assert averaged([[1, 1], [3, 1]]).tolist() == [0.625, 0.375]
    assert from_levels(["Essential", "important", " Optional"]) == pytest.approx([0.5, 0.35, 0.15])


@pytest.mark.parametrize("weights", [[0, 0], [-1, 2], [float("nan"), 1], []])
def test_numbers_that_are_no_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="are no weights"):
        direct(weights)


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="importance 'vital' is none of essential"):
        from_levels(["essential", "vital"])


def test_criteria_that_agree_share_their_weight() -> None:
    # The first two always agree, the third is unrelated. C's parts: [[1, .9], [.9, 1]] has 1.9 along (1, 1), so the
    # first two get 1.9^(-1/2) each, the third 1.
    verdicts = [[1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1]]
    share = 1.9**-0.5
    assert whitened_uniform(verdicts) == pytest.approx(np.array([share, share, 1]) / (2 * share + 1))
    assert whitened_uniform([[1, 0], [1, 0]]).tolist() == [0.5, 0.5]
    assert whitened_uniform([[1, 0, 1]]) == pytest.approx([1 / 3] * 3)


def test_scores_accuracy_and_improvement_by_hand() -> None:
    assert response_scores([0.5, 0.3, 0.2], [[1, 0, 1], [0, 1, 0]]).tolist() == [0.7, 0.3]
    accuracy = preference_accuracy([0.7, 0.1 + 0.2, 0.1], [0.3, 0.3, 0.4])
    assert accuracy.value == 0.5
    assert relative_improvement(accuracy, preference_accuracy([1, 0, 0, 0], [0, 1, 1, 0])).value == pytest.approx(1 / 3)
    assert preference_accuracy([], []) == (None, "no sample")
    assert relative_improvement(accuracy, preference_accuracy([0], [1])).note == "uniform weighting is never right"


def planted_world(noise: float, seed: int) -> dict[str, float]:
    """Simulated samples, 8 criteria with planted weights: comparisons err at ``noise``, direct weights by a factor."""
    random = np.random.default_rng(seed)
    weightings: dict[str, list[np.ndarray]] = {"icw": [], "direct": [], "uniform": []}
    verdicts, preferred, error = [], [], {"icw": 0.0, "direct": 0.0, "uniform": 0.0}
    for _ in range(300):
        planted = direct(3.0 ** random.choice([0, 1, 2], 8))
        judged: Judged = np.sign(np.round(planted[:, None] - planted[None, :], 9)).astype(np.int8)
        judged = np.where(random.random((8, 8)) < noise, random.integers(-1, 2, (8, 8)), judged).astype(np.int8)
        found = {
            "icw": settled([judged]).weights,
            "direct": direct(planted * np.exp(random.normal(0, 1, 8))),
            "uniform": uniform(8),
        }
        table = random.integers(0, 2, (2, 8))
        scores = response_scores(planted, table)
        if abs(scores[0] - scores[1]) < 1e-9:
            continue
        verdicts.append(table)
        preferred.append(int(np.argmax(scores)))
        for name, weights in found.items():
            weightings[name].append(weights)
            error[name] += float(np.abs(weights - planted).sum())
    accuracy = {name: weighted_accuracy(weights, verdicts, preferred).value for name, weights in weightings.items()}
    return {
        **{name: value or 0 for name, value in accuracy.items()},
        **{f"{name} error": e for name, e in error.items()},
    }


@pytest.mark.parametrize("noise", [0, 0.1, 0.2])
def test_icw_recovers_planted_weights_better_than_direct_and_uniform_ones(noise: float) -> None:
    found = planted_world(noise, seed=1)
    assert found["icw error"] < found["direct error"] < found["uniform error"]
    assert found["icw"] > found["direct"]
    assert found["icw"] > found["uniform"]


@pytest.mark.skipif(not DATA.is_dir(), reason="CRITICGEN_TEST_DATA names no folder")
def test_published_weights_sum_to_one_and_bring_the_published_parts_to_the_published_totals() -> None:
    """DeepResearch Bench. Its total is T / (T + T') of weighted sums over a report and a reference, and so is each
    part: the weighted mean of the parts is the total up to their different denominators (0.0053 at most here)."""
    read = lambda name: [json.loads(line) for line in (DATA / "rubrics" / name).read_text().split("\n") if line]  # noqa: E731
    results = {row["id"]: row for row in read("drb_race_results.jsonl")}
    gaps = []
    for row in read("drb_criteria.jsonl"):
        parts = list(row["dimension_weight"])
        weights = [row["dimension_weight"][part] for part in parts]
        assert sum(weights) == pytest.approx(1)
        for criteria in row["criterions"].values():
            assert sum(criterion["weight"] for criterion in criteria) == pytest.approx(1, abs=0.011)
        scores = [results[row["id"]][part] for part in parts]
        (total,) = response_scores(direct(weights), [scores])
        assert min(scores) <= results[row["id"]]["overall_score"] <= max(scores)
        gaps.append(abs(total - results[row["id"]]["overall_score"]))
    assert len(gaps) == 100
    assert max(gaps) < 0.006

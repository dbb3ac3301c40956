import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from tasks.weighing.active import Plan
from tasks.weighing.icw import Judged, settled


def noisy(criteria: int, noise: float, seed: int) -> tuple[NDArray[np.int64], Judged]:
    """A planted order, and what a comparator says that errs in each display order on its own."""
    random = np.random.default_rng(seed)
    planted = random.permutation(criteria)
    right = np.sign(planted[:, None] - planted[None, :])
    return planted, np.where(random.random(right.shape) < noise, -right, right).astype(np.int8)


def driven(judged: Judged, **options: float) -> Plan:
    plan = Plan.start(len(judged), **options)  # type: ignore[arg-type]
    while wanted := plan.wanted():
        plan = plan.told({pair: int(judged[pair]) for pair in wanted})
    return plan


def test_a_third_of_the_comparisons_ranks_as_all_of_them_do_under_ten_percent_noise() -> None:
    """Simulated comparators, K = 20."""
    to_full, to_truth, full_to_truth = [], [], []
    for seed in range(60):
        planted, judged = noisy(20, 0.1, seed)
        plan = driven(judged, share=0.35)
        assert plan.asked <= 0.35 * 380
        part, whole = settled([plan.judged()]).weights, settled([judged]).weights
        to_full.append(spearmanr(part, whole).statistic)
        to_truth.append(spearmanr(part, planted).statistic)
        full_to_truth.append(spearmanr(whole, planted).statistic)
    assert np.mean(to_full) >= 0.98
    assert np.mean(to_truth) >= np.mean(full_to_truth)


def test_without_noise_it_finds_the_order_and_stops_early() -> None:
    for seed in range(5):
        planted, judged = noisy(20, 0, seed)
        plan = driven(judged)
        assert list(np.argsort(plan.positions())) == list(np.argsort(planted))
        assert plan.settled() or plan.asked == plan.most


def test_few_criteria_are_compared_in_full() -> None:
    for criteria in (1, 2, 3, 4):
        judged = noisy(criteria, 0.3, 1)[1]
        plan = driven(judged)
        assert plan.asked == criteria * (criteria - 1)
        assert np.array_equal(plan.judged(), judged)


def test_no_comparison_is_asked_twice_and_no_criterion_twice_in_a_batch() -> None:
    judged = noisy(12, 0.2, 3)[1]
    plan, asked = Plan.start(12, share=1), set()
    while wanted := plan.wanted():
        assert len({criterion for pair in wanted for criterion in pair}) == 2 * len(wanted)
        assert not asked & set(wanted)
        asked |= set(wanted)
        plan = plan.told({pair: int(judged[pair]) for pair in wanted})


def test_results_that_are_none_of_the_plan_are_refused() -> None:
    plan = Plan.start(5).told({(0, 1): 1})
    for results in ({(0, 1): 1}, {(2, 2): 0}, {(0, 9): 1}, {(1, 2): 5}):
        with pytest.raises(ValueError, match=r"plan|before"):
            plan.told(results)

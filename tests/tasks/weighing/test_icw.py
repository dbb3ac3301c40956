import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from tasks.weighing.icw import (
    Judged,
    comparison_matrix,
    consistency,
    preferred,
    principal_weights,
    random_index,
    settled,
    status,
)


def from_levels(levels: list[int]) -> Judged:
    order = np.array(levels)
    return np.sign(order[:, None] - order[None, :]).astype(np.int8)


CYCLE: Judged = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], np.int8)


def test_a_consistent_matrix_gives_its_weights_and_no_inconsistency() -> None:
    weights = np.array([0.6, 0.3, 0.1])
    matrix = weights[:, None] / weights[None, :]
    found, eigenvalue = principal_weights(matrix)
    assert found == pytest.approx(weights)
    assert eigenvalue == pytest.approx(3)
    assert consistency(matrix).ratio == 0


def test_two_levels_are_consistent() -> None:
    found = settled([from_levels([2, 1, 1])])
    assert found.weights == pytest.approx([0.6, 0.2, 0.2])
    assert (found.consistency.ratio, found.again) == (0, False)


def test_a_cycle_gives_equal_weights_and_a_ratio_over_tau() -> None:
    # Rows 1 3 1/3, each summing to 13/3: lambda = 13/3, CI = (13/3 - 3) / 2 = 2/3, CR = (2/3) / 0.58.
    found = settled([CYCLE])
    assert found.weights == pytest.approx([1 / 3] * 3)
    assert found.consistency == pytest.approx((13 / 3, 2 / 3, 2 / 3 / 0.58))
    assert found.again


def test_three_levels_keep_their_order_though_alpha_squared_is_not_alpha() -> None:
    # 1 3 3, 1/3 1 3, 1/3 1/3 1: lambda = 1 + 3^(1/3) + 3^(-1/3).
    found = settled([from_levels([3, 2, 1])])
    assert found.consistency.eigenvalue == pytest.approx(1 + 3 ** (1 / 3) + 3 ** (-1 / 3))
    assert list(np.argsort(-found.weights)) == [0, 1, 2]
    powers = np.array([9 ** (1 / 3), 1, 9 ** (-1 / 3)])  # the row's geometric means are the eigenvector for K = 3
    assert found.weights == pytest.approx(powers / powers.sum())


def test_only_what_both_orders_say_counts() -> None:
    judged = np.array([[0, 1, 1, 1], [-1, 0, 0, 1], [1, 0, 0, 1], [0, 1, -1, 0]], np.int8)
    # 0 and 1 agree on 0; 0 and 2 both name the first shown; 0 and 3, one neutral; 1 and 2 neutral; 1 and 3 both name
    # the first shown; 2 and 3 agree on 2.
    assert preferred(judged)[np.triu_indices(4, 1)].tolist() == [1, 0, 0, 0, 0, 1]
    matrix = comparison_matrix(judged, 5)
    assert (matrix[0, 1], matrix[1, 0], matrix[0, 2]) == (5, 0.2, 1)
    assert np.allclose(matrix * matrix.T, 1)


def test_one_and_two_criteria_are_consistent() -> None:
    one, two = settled([from_levels([1])]), settled([from_levels([2, 1])])
    assert one.weights.tolist() == [1]
    assert two.weights == pytest.approx([0.75, 0.25])
    assert [found.consistency.ratio for found in (one, two)] == [0, 0]
    assert not one.again
    assert not two.again


def test_saatys_table_in_full_and_that_of_fifteen_above() -> None:
    table = [0, 0, 0.58, 0.90, 1.12, 1.24, 1.32, 1.41, 1.45, 1.49, 1.51, 1.48, 1.56, 1.57, 1.59, 1.59, 1.59]
    assert [random_index(criteria) for criteria in range(1, 18)] == table
    sixteen = settled([from_levels(list(range(16)))])
    assert sixteen.consistency.ratio == pytest.approx(sixteen.consistency.ci / 1.59)
    assert list(np.argsort(sixteen.weights)) == list(range(16))


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.floats(1.1, 9))
def test_transitive_judgments_keep_their_order(levels: list[int], alpha: float) -> None:
    weights = settled([from_levels(levels)], alpha=alpha).weights
    assert weights.sum() == pytest.approx(1)
    for i, first in enumerate(levels):
        for j, second in enumerate(levels):
            if first == second:
                assert weights[i] == pytest.approx(weights[j])
            else:
                assert (weights[i] > weights[j]) == (first > second)


def random_judgments(random: np.random.Generator, criteria: int) -> NDArray[np.int8]:
    return random.integers(-1, 2, (criteria, criteria)).astype(np.int8)


@settings(deadline=None)
@given(st.integers(3, 7), st.integers(0, 10_000))
def test_a_revision_never_raises_the_inconsistency(criteria: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rounds = [random_judgments(random, criteria) for _ in range(3)]
    ratios = [settled(rounds[:count], most=2).consistency.ratio for count in (1, 2, 3)]
    assert ratios == sorted(ratios, reverse=True)


def test_a_revision_is_taken_only_if_strictly_better_and_asked_at_most_so_often() -> None:
    better = from_levels([3, 2, 1])
    same = settled([CYCLE, CYCLE])
    assert (same.round, same.again) == (0, False)
    taken = settled([CYCLE, better])
    assert (taken.round, taken.again) == (1, False)
    assert settled([CYCLE, better], most=0).round == 0
    assert settled([CYCLE, CYCLE], most=2).again
    assert settled([better, CYCLE], tau=0.2).round == 0


@pytest.mark.parametrize(
    ("forward", "backward", "said"),
    [(1, -1, "agreed"), (0, 0, "both_neutral"), (1, 0, "one_neutral"), (0, -1, "one_neutral"), (1, 1, "opposite")],
)
def test_the_status_of_a_pair(forward: int, backward: int, said: str) -> None:
    assert status(forward, backward) == said


def test_what_is_no_round_is_refused() -> None:
    for judged in (np.zeros((2, 3), np.int8), np.full((2, 2), 2, np.int8), np.zeros((0, 0), np.int8)):
        with pytest.raises(ValueError, match="comparisons"):
            comparison_matrix(judged)
    with pytest.raises(ValueError, match="no round"):
        settled([])

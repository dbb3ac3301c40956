import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from tasks.evaluation.scores import FIGURES, TooManyLevels, score_figures, score_report, score_table

NONE = float("nan")
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=40)


def values(reference: list[float], predicted: list[float]) -> dict[str, float | None]:
    return {name: figure.value for name, figure in score_figures(reference, predicted, resamples=50).items()}


def test_the_figures_by_hand() -> None:
    # Reference 1 2 3 4, critic 1 3 2 4: one of six pairs is discordant, so tau = (5 - 1) / 6. Deviations
    # -1.5 -0.5 0.5 1.5 against -1.5 0.5 -0.5 1.5: 4 over 5. Squared distances 0 1 1 0; by chance 40 / 4.
    assert values([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(
        {
            "pearson": 0.8,
            "spearman": 0.8,
            "kendall": 4 / 6,
            "mean_absolute_error": 0.5,
            "exact_agreement": 0.5,
            "quadratic_kappa": 1 - 2 / 10,
        }
    )


@settings(deadline=None, max_examples=60)
@given(PAIRS)
def test_correlations_equal_scipys(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, float).T
    found = values(list(first), list(second))
    if len({*first}) == 1 or len({*second}) == 1:
        assert found["pearson"] is found["spearman"] is found["kendall"] is None
        return
    assert found["pearson"] == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-9)
    assert found["spearman"] == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
    assert found["kendall"] == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-9)


def test_a_constant_critic_has_no_correlation_and_the_note_says_which_score_it_gave() -> None:
    found = score_figures([1, 2, 3], [4, 4, 4], resamples=50)
    for name in ("pearson", "spearman", "kendall"):
        assert found[name] == (None, None, None, "every predicted score is 4: no correlation is defined")
    assert found["mean_absolute_error"].value == 2
    assert found["quadratic_kappa"].value == 0
    note = "every reference score is 2: no correlation is defined"
    assert score_figures([2, 2], [1, 3], resamples=50)["pearson"].note == note
    assert score_figures([2], [3], resamples=50)["pearson"].note == "one pair only"


def test_pairs_without_a_score_are_left_out_and_none_left_is_said() -> None:
    assert values([1, NONE, 2, 3], [1, 5, NONE, 3])["exact_agreement"] == 1
    assert score_figures([NONE, 1], [1, NONE])["pearson"].note == "no pair has both scores"
    assert {figure.value for figure in score_figures([], []).values()} == {None}


def test_scores_between_the_levels_have_correlations_and_no_kappa() -> None:
    found = score_figures([1, 2, 3, 4], [1.5, 2, 2.5, 4], resamples=50)
    assert found["pearson"].value == pytest.approx(stats.pearsonr([1, 2, 3, 4], [1.5, 2, 2.5, 4]).statistic)
    assert found["quadratic_kappa"].note == "the scores are not whole numbers"
    with pytest.raises(TooManyLevels, match="300 different scores"):
        score_figures(np.arange(300) / 7, np.arange(300) / 7)


def test_a_level_that_nobody_gave_keeps_its_distance() -> None:
    # 0 against 5 and 5 against 0 is complete disagreement; the four levels between count in the distance.
    assert values([0, 5, 0, 5], [5, 0, 5, 0])["quadratic_kappa"] == -1
    levels, table = score_table([0, 5], [5, 5])
    assert levels == [0, 1, 2, 3, 4, 5]
    assert table[0][5] == table[5][5] == 1


def test_the_interval_is_that_of_a_bootstrap_over_the_pairs() -> None:
    random = np.random.default_rng(1)
    first = random.integers(0, 6, 400).astype(float)
    second = np.clip(first + random.integers(-1, 2, 400), 0, 5)
    pearson = score_figures(first, second)["pearson"]
    brute = stats.bootstrap(
        (first, second), lambda a, b: stats.pearsonr(a, b).statistic, paired=True, vectorized=False,
        n_resamples=600, method="percentile", rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    assert pearson.low == pytest.approx(brute.low, abs=0.006)
    assert pearson.high == pytest.approx(brute.high, abs=0.006)
    assert pearson == score_figures(first, second)["pearson"]


def test_the_report_has_a_row_for_each_group_and_each_reference_level() -> None:
    pairs = pl.DataFrame(
        {
            "reference": [5, 5, 0, 0, None],
            "predicted": [5, 4, 1, None, 3],
            "source": ["gsm8k", "limo", "gsm8k", "limo", "limo"],
            "family": ["objective", "objective", "objective", "subjective", None],
        }
    )
    report = score_report(pairs, resamples=50)
    assert [(row["grouping"], row["group"], row["n"]) for row in report] == [
        ("overall", None, 3),
        ("source", "gsm8k", 2),
        ("source", "limo", 1),
        ("family", "objective", 3),
        ("family", "subjective", 0),
        ("family", None, 0),
        ("level", "0", 1),
        ("level", "5", 2),
    ]
    assert (report[0]["without_prediction"], report[0]["without_reference"]) == (1, 1)
    assert report[-1]["figures"]["pearson"]["note"] == "every reference score is 5: no correlation is defined"
    assert report[-1]["figures"]["exact_agreement"]["value"] == 0.5
    assert set(report[0]["figures"]) == set(FIGURES)

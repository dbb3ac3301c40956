import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from tasks.agreement import REPORT, agreement_report, krippendorff_alpha, score_columns, score_matrix, weighted_kappa
from tasks.consensus import consensus

NONE = float("nan")


def table(teacher: list[int | None], *votes: list[int | None]) -> pl.DataFrame:
    ids = [f"i{number}" for number in range(len(teacher))]
    items = pl.DataFrame({"item_id": ids}).with_columns(
        answer_id=pl.lit("a"), question_id=pl.lit("q"), shard=pl.lit("s")
    )
    judges = [f"judge/{place}" for place in range(len(votes))]
    judged = pl.concat(
        pl.DataFrame({"item_id": ids, "model": judge, "score": pl.Series(scores, dtype=pl.Int8)})
        for judge, scores in zip(judges, votes, strict=True)
    )
    own = pl.DataFrame({"item_id": ids, "score": pl.Series(teacher, dtype=pl.Int8)})
    return consensus(own, judged, items, judge_models=judges)


def test_the_matrix_counts_items_that_both_scored() -> None:
    matrix = score_matrix(np.array([0, 5, 5, NONE, 2]), np.array([0, 4, 4, 1, NONE]))
    expected = np.zeros((6, 6))
    expected[0, 0], expected[5, 4] = 1, 2
    assert np.array_equal(matrix, expected)


def test_quadratic_weighted_kappa_by_hand() -> None:
    # Scores 1 1 2 3 and 1 2 2 5. Observed (i-j)^2: 0 + 1 + 0 + 4 = 5. Expected: all 16 pairs, squared, over 4:
    # 1 against 1 2 2 5: 0+1+1+16 = 18, twice; 2: 1+0+0+9 = 10; 3: 4+1+1+4 = 10; together 56 / 4 = 14.
    kappa = weighted_kappa(score_matrix(np.array([1.0, 1, 2, 3]), np.array([1.0, 2, 2, 5])))
    assert kappa.value == pytest.approx(1 - 5 / 14)
    assert kappa.note is None


def test_kappa_of_equal_opposite_and_constant_raters() -> None:
    scores = np.array([0.0, 1, 4, 5])
    assert weighted_kappa(score_matrix(scores, scores)).value == 1
    assert weighted_kappa(score_matrix(scores, 5 - scores)).value == -1
    assert weighted_kappa(score_matrix(scores, np.full(4, 3.0))).value == 0


def test_kappa_is_null_with_its_reason_where_it_is_undefined() -> None:
    nothing = weighted_kappa(score_matrix(np.array([1.0, NONE]), np.array([NONE, 2.0])))
    constant = weighted_kappa(score_matrix(np.full(3, 4.0), np.full(3, 4.0)))
    assert nothing == (None, "no item was scored by both")
    assert constant == (None, "both gave 4 to every item: no disagreement is possible")


def test_alpha_of_krippendorffs_example() -> None:
    """Computing Krippendorff's Alpha-Reliability (2011), example C: four observers, twelve units; ordinal 0.815."""
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
    assert krippendorff_alpha(np.array(ratings).T).value == pytest.approx(0.815, abs=0.0005)


def test_alpha_is_null_with_its_reason_where_it_is_undefined() -> None:
    assert krippendorff_alpha(np.array([[1, NONE], [NONE, 2]])) == (None, "no item has two scores")
    assert krippendorff_alpha(np.full((3, 2), 2.0)) == (None, "every score is 2: no disagreement is possible")
    assert krippendorff_alpha(np.empty((0, 3))).value is None


def test_the_report_has_each_pair_overall_and_in_each_group() -> None:
    by = pl.DataFrame(
        {
            "item_id": ["i0", "i1", "i2", "i3"],
            "family": ["objective", "objective", "subjective", "subjective"],
            "source": "gsm8k",
            "generator": ["openai/a", "openai/b", "openai/a", None],
        }
    )
    report = agreement_report(table([4, 3, 2, 0], [4, 3, 2, 5], [4, 1, None, 0]), by)
    assert report.columns == list(REPORT)
    assert report.select("grouping", "group").unique(maintain_order=True).rows() == [
        ("overall", None),
        ("family", "objective"),
        ("family", "subjective"),
        ("source", "gsm8k"),
        ("generator", "openai/a"),
        ("generator", "openai/b"),
        ("generator", None),
    ]
    overall = report.filter(grouping="overall").select("first", "second", "items", "kept", "scored", "equal")
    assert overall.rows() == [
        ("teacher", "judge/0", 4, 1, 4, 0.75),
        ("teacher", "judge/1", 4, 1, 3, 2 / 3),
        ("judge/0", "judge/1", 4, 1, 3, 1 / 3),
    ]
    subjective = report.filter(group="subjective").row(1, named=True)
    assert (subjective["share_kept"], subjective["scored"], subjective["kappa"]) == (0, 1, None)
    assert subjective["kappa_note"] == "both gave 0 to every item: no disagreement is possible"


def test_the_report_takes_the_groups_it_is_given() -> None:
    by = pl.DataFrame({"item_id": ["i0"], "family": ["objective"]})
    report = agreement_report(table([4, 3], [4, 3]), by)
    assert report.select("grouping", "group").rows() == [("overall", None), ("family", "objective"), ("family", None)]
    with pytest.raises(ValueError, match="item i0 has more than one row in the groups"):
        agreement_report(table([4], [4]), pl.concat([by, by]))


def test_rows_of_different_judges_are_refused() -> None:
    mixed = pl.concat([table([4], [4]), table([4], [4], [4])])
    with pytest.raises(ValueError, match="rows of different judges"):
        agreement_report(mixed, pl.DataFrame({"item_id": ["i0"]}))


def test_no_items_make_no_rows() -> None:
    empty = table([4], [4]).clear()
    assert score_columns(empty).shape == (0, 1)
    assert agreement_report(empty, pl.DataFrame({"item_id": ["i0"]})).is_empty()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_kappa_is_symmetric_and_at_most_one(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=float).T
    there, back = weighted_kappa(score_matrix(first, second)).value, weighted_kappa(score_matrix(second, first)).value
    assert there == (None if back is None else pytest.approx(back))
    assert there is None or there <= 1
    assert there is not None or len({*first, *second}) == 1

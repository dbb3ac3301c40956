from typing import Literal

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from storage.schemas import CONSENSUS
from tasks.consensus import consensus

JUDGES = ["anthropic/a", "google/b", "openai/c"]
SCORES = st.none() | st.integers(0, 5)


def table(
    rows: list[tuple[int | None, list[int | None]]],
    *,
    tolerance: int = 0,
    quorum: int | Literal["all"] = "all",
) -> pl.DataFrame:
    """The consensus of items i0, i1, ..., each a teacher's score and the first judges' scores."""
    judges = JUDGES[: len(rows[0][1])]
    items = pl.DataFrame({"item_id": [f"i{number}" for number in range(len(rows))]}).with_columns(
        answer_id=pl.lit("a"), question_id=pl.lit("q"), shard=pl.lit("s")
    )
    teacher = [(f"i{number}", score) for number, (score, _) in enumerate(rows) if score is not None]
    judged = [
        (f"i{number}", judge, score)
        for number, (_, scores) in enumerate(rows)
        for judge, score in zip(judges, scores, strict=True)
        if score is not None
    ]
    return consensus(
        pl.DataFrame(teacher, schema={"item_id": pl.String, "score": pl.Int8}, orient="row"),
        pl.DataFrame(judged, schema={"item_id": pl.String, "model": pl.String, "score": pl.Int8}, orient="row"),
        items,
        judge_models=judges,
        tolerance=tolerance,
        quorum=quorum,
    )


def reasons(rows: list[tuple[int | None, list[int | None]]], **settings: int) -> list[str]:
    found = table(rows, **settings)
    assert found["kept"].to_list() == [reason == "agreement" for reason in found["reason"]]
    return found["reason"].to_list()


def test_every_judge_must_score_as_the_teacher_does() -> None:
    rows: list[tuple[int | None, list[int | None]]] = [
        (4, [4, 4]),
        (4, [4, 3]),
        (4, [4, None]),
        (4, [3, None]),
        (4, [None, None]),
        (0, [0, 0]),
        (0, [0, None]),
        (None, [0, 0]),
    ]
    assert reasons(rows) == [
        "agreement",
        "disagreement",
        "unjudged",
        "disagreement",
        "unjudged",
        "agreement",
        "unjudged",
        "no_trajectory",
    ]


def test_a_quorum_is_kept_as_soon_as_it_agrees_and_lost_when_it_cannot() -> None:
    rows: list[tuple[int | None, list[int | None]]] = [
        (4, [4, 4, None]),
        (4, [4, 4, 1]),
        (4, [4, None, 1]),
        (4, [4, 2, 1]),
        (4, [None, 2, 1]),
        (4, [None, None, 1]),
    ]
    assert reasons(rows, quorum=2) == [
        "agreement",
        "agreement",
        "unjudged",
        "disagreement",
        "disagreement",
        "unjudged",
    ]


def test_the_tolerance_counts_in_both_directions() -> None:
    rows: list[tuple[int | None, list[int | None]]] = [(3, [2, 4]), (3, [1, 3]), (0, [1, 0]), (5, [4, 3])]
    assert reasons(rows, tolerance=1) == ["agreement", "disagreement", "agreement", "disagreement"]


def test_every_vote_stays_in_the_order_of_the_judges() -> None:
    found = table([(4, [None, 0])])
    assert found.row(0) == (
        "i0",
        "a",
        "q",
        "s",
        4,
        [{"model": "anthropic/a", "score": None}, {"model": "google/b", "score": 0}],
        False,
        "disagreement",
    )
    empty = pl.DataFrame(pl.from_arrow(CONSENSUS.schema.empty_table()))
    assert found.schema == empty.schema
    assert found.clear().equals(empty)


def test_other_models_and_other_items_are_left_out() -> None:
    items = pl.DataFrame({"item_id": ["i0"], "answer_id": ["a"], "question_id": ["q"], "shard": ["s"]})
    teacher = pl.DataFrame({"item_id": ["i0", "gone"], "score": [3, 3]})
    judges = pl.DataFrame({"item_id": ["i0", "i0", "gone"], "model": ["a/new", "a/old", "a/new"], "score": [3, 1, 3]})
    found = consensus(teacher, judges, items, judge_models=["a/new"])
    assert found.select("item_id", "reason").rows() == [("i0", "agreement")]
    assert found["votes"].to_list() == [[{"model": "a/new", "score": 3}]]


def test_two_scores_of_one_judge_are_an_error() -> None:
    items = pl.DataFrame({"item_id": ["i0"], "answer_id": ["a"], "question_id": ["q"], "shard": ["s"]})
    teacher = pl.DataFrame({"item_id": ["i0"], "score": [3]})
    judges = pl.DataFrame({"item_id": ["i0", "i0"], "model": ["a/b", "a/b"], "score": [3, 4]})
    with pytest.raises(ValueError, match="the judges' trajectories have i0 of a/b more than once"):
        consensus(teacher, judges, items, judge_models=["a/b"])


@pytest.mark.parametrize(("judges", "quorum"), [([], "all"), (["a/b"], 2), (["a/b", "a/b"], 1), (["a/b"], 0)])
def test_a_quorum_that_the_judges_cannot_make_is_refused(judges: list[str], quorum: int | Literal["all"]) -> None:
    nothing = pl.DataFrame(schema={"item_id": pl.String, "model": pl.String, "score": pl.Int8})
    with pytest.raises(ValueError, match="consensus: quorum"):
        consensus(nothing, nothing, nothing, judge_models=judges, quorum=quorum)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SCORES, st.lists(SCORES, min_size=3, max_size=3)), min_size=1, max_size=10),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_what_is_unjudged_could_go_either_way_and_nothing_else_could(
    rows: list[tuple[int | None, list[int | None]]], tolerance: int, quorum: int
) -> None:
    for (score, votes), reason in zip(rows, reasons(rows, tolerance=tolerance, quorum=quorum), strict=True):
        if score is None:
            assert reason == "no_trajectory"
            continue
        agreeing = sum(vote is not None and abs(vote - score) <= tolerance for vote in votes)
        worst, best = agreeing >= quorum, agreeing + votes.count(None) >= quorum
        assert (
            reason
            == {(True, True): "agreement", (False, False): "disagreement", (False, True): "unjudged"}[worst, best]
        )

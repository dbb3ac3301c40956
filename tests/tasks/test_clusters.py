import random

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tasks.clusters import cluster_questions

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join), max_size=14)


def questions(texts: list[str]) -> pl.DataFrame:
    ids = [f"q{number:05d}" for number in range(len(texts))]
    return pl.DataFrame({"question_id": ids, "text": texts}, schema={"question_id": pl.String, "text": pl.String})


def clusters(texts: list[str], threshold: float = 0.5) -> list[str]:
    return cluster_questions(questions(texts), threshold=threshold)["cluster"].to_list()


def connected(texts: list[str], n: int) -> list[str]:
    def grams(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[at : at + n]) for at in range(len(words) - n + 1)}

    def alike(a: str, b: str) -> bool:
        return a.split() == b.split() or 2 * len(grams(a) & grams(b)) > len(grams(a) | grams(b)) > 0

    label = list(range(len(texts)))
    for i, first in enumerate(texts):
        for j, second in enumerate(texts):
            if alike(first, second):
                low, high = sorted((label[i], label[j]))
                label = [low if each == high else each for each in label]
    return [f"q{each:05d}" for each in label]


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(1, 3))
def test_clusters_are_the_connected_components(texts: list[str], n: int) -> None:
    table = cluster_questions(questions(texts), threshold=0.5, n=n, mode="ws")
    assert table["cluster"].to_list() == connected(texts, n)


def test_a_chain_is_one_cluster_under_its_least_id() -> None:
    words = list("abcdefghijklmnop")
    chain = [" ".join(words[:10]), " ".join(words[2:12]), "quite another question here", " ".join(words[4:14])]
    assert clusters(chain) == ["q00000", "q00000", "q00002", "q00000"]


def test_equal_texts_cluster_at_any_threshold_also_short_ones() -> None:
    assert clusters(["2 + 2", "2+2?", "2+3", "Why?", "why"], threshold=1) == [
        "q00000",
        "q00000",
        "q00002",
        "q00003",
        "q00003",
    ]


def test_questions_of_brackets_alone_are_not_taken_for_equal() -> None:
    assert clusters(["[ ( {", "< (", "[ ( {"])[0::2] == ["q00000", "q00000"]
    assert clusters(["[ [", "( ("]) == ["q00000", "q00001"]


def test_the_order_of_the_rows_does_not_matter() -> None:
    texts = [f"how many {word} does {name} have left" for word in ("cows", "pigs") for name in ("ann", "bob", "eve")]
    rows = questions(texts)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=1)
    there = dict(cluster_questions(shuffled).iter_rows())
    assert there == dict(cluster_questions(rows).iter_rows())


def test_a_question_that_stands_twice_has_one_row() -> None:
    rows = pl.DataFrame({"question_id": ["b", "a", "b"], "text": ["x", "x", "x"]})
    assert cluster_questions(rows).rows() == [("b", "a"), ("a", "a")]
    twice = pl.DataFrame({"question_id": ["b", "b"], "text": ["x", "y"]})
    with pytest.raises(ValueError, match="question b stands twice, with different texts"):
        cluster_questions(twice)


def test_thousands_of_questions_of_one_template_are_one_cluster() -> None:
    order = list(range(3000))
    random.Random(0).shuffle(order)
    template = "a farmer has {} cows and buys some more at the market so how many cows are on the farm in the end"
    assert set(clusters([template.format(number) for number in order])) == {"q00000"}

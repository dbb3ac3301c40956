import random
from fractions import Fraction
from itertools import combinations

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from storage.schemas import SPLITS
from tasks.split import certificate, split

# For each question its cluster, and its rows in rubric_data and refine_data.
Questions = dict[str, tuple[str, int, int]]


def instances(questions: Questions) -> pl.DataFrame:
    rows = [
        (data_set, f"{data_set[:2]}-{question}-{number}", question, cluster)
        for question, (cluster, rubric, refine) in questions.items()
        for data_set, count in (("rubric_data", rubric), ("refine_data", refine))
        for number in range(count)
    ]
    columns = ["data_set", "instance_id", "question_id", "cluster"]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def with_texts(questions: Questions) -> pl.DataFrame:
    """Each instance with a text of its own words."""
    words = pl.concat_str(*[pl.col("instance_id") + f"{word}" for word in "abcde"], separator=" ")
    return instances(questions).with_columns(text=words.str.replace_all("-", "x"))


def alone(*rows: tuple[int, int]) -> Questions:
    """Questions that are clusters of their own."""
    return {f"q{number:03d}": (f"q{number:03d}", *counts) for number, counts in enumerate(rows)}


def demo(questions: int) -> Questions:
    random_ = random.Random(questions)
    return alone(*[(random_.randint(3, 5), random_.randint(8, 30)) for _ in range(questions)])


def sides(table: pl.DataFrame, data_set: str) -> tuple[int, int]:
    own = table.filter(data_set=data_set)["split"]
    return int((own == "train").sum()), int((own == "test").sum())


def held_out(table: pl.DataFrame, data_set: str) -> set[str]:
    return {*table.filter(data_set=data_set, split="test")["question_id"]}


CLUSTERED = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 25)), min_size=1, max_size=12).map(
    lambda rows: {f"q{number}": (f"c{cluster}", *counts) for number, (cluster, *counts) in enumerate(rows)}
)


def test_clusters_stay_whole_and_the_table_has_its_schema() -> None:
    questions = {f"q{number:03d}": (f"c{number // 3:03d}", 4, 30) for number in range(60)}
    table = split(instances(questions))
    assert table.schema == pl.DataFrame(pl.from_arrow(SPLITS.schema.empty_table())).schema
    assert len(table) == 60 * 34
    assert table.group_by("data_set", "cluster").agg(pl.col("split").n_unique())["split"].to_list() == [1] * 40
    assert sides(table, "rubric_data") == (204, 36)  # 40 wanted, clusters of 12
    assert sides(table, "refine_data") == (1710, 90)  # 35.3 wanted, clusters of 90


def test_rows_come_as_near_to_the_ratio_as_clusters_allow() -> None:
    many = demo(400)
    table = split(instances(many))
    rubric, refine = sides(table, "rubric_data"), sides(table, "refine_data")
    assert rubric[1] == round(sum(rubric) / 6)
    assert refine[1] == round(sum(refine) / 51)
    assert held_out(table, "refine_data") < held_out(table, "rubric_data")


def test_a_small_demo_is_split_sensibly() -> None:
    table = split(instances(demo(36)))
    assert sides(table, "rubric_data") == (121, 24)
    assert sides(table, "refine_data") == (667, 14)
    assert certificate(with_texts(demo(36)), table)["holds"]


def test_three_questions_make_two_sides_each() -> None:
    for seed in range(20):
        table = split(instances(demo(3)), seed=seed)
        assert all(min(sides(table, name)) > 0 for name in ("rubric_data", "refine_data"))
        assert held_out(table, "refine_data") == held_out(table, "rubric_data")


def test_one_cluster_is_train() -> None:
    table = split(instances({"q1": ("c", 3, 9), "q2": ("c", 3, 9)}))
    assert sides(table, "rubric_data") == (6, 0)
    assert sides(table, "refine_data") == (18, 0)
    assert split(instances({})).is_empty()


def test_a_huge_cluster_is_not_taken_where_small_ones_come_nearer() -> None:
    for seed in range(10):
        table = split(instances(alone((500, 0), *[(10, 0)] * 12)), seed=seed)
        assert sides(table, "rubric_data") == (520, 100)  # 103.3 wanted
        table = split(instances(alone((500, 0), (10, 0), (10, 0))), seed=seed)
        assert sides(table, "rubric_data") == (500, 20)


def test_refine_data_has_a_test_where_only_one_cluster_can_serve() -> None:
    for seed in range(10):
        table = split(instances(alone((4, 0), (4, 0), (4, 0), (0, 20), (4, 20))), seed=seed)
        assert held_out(table, "refine_data") == {"q004"}
        assert "q004" in held_out(table, "rubric_data")


def test_a_refine_question_without_rubric_rows_is_never_test() -> None:
    questions = {"q1": ("c", 5, 9), "q2": ("c", 0, 9), "q3": ("d", 5, 9), "q4": ("e", 5, 9)}
    for seed in range(10):
        assert held_out(split(instances(questions), seed=seed), "refine_data") <= {"q3", "q4"}


def test_the_split_depends_on_the_seed_and_not_on_the_rows_order() -> None:
    rows = instances(demo(60))
    table = split(rows, seed=1)
    assert split(rows.sample(fraction=1, shuffle=True, seed=5), seed=1).equals(table)
    assert held_out(split(rows, seed=2), "rubric_data") != held_out(table, "rubric_data")


def test_most_of_the_test_stays_when_rows_are_added_without_the_earlier_split() -> None:
    small, large = demo(400), demo(400) | {f"new{number}": (f"new{number}", 4, 20) for number in range(40)}
    before, after = (held_out(split(instances(rows)), "rubric_data") for rows in (small, large))
    assert len(before & after) > 0.8 * len(before)


def test_a_test_question_stays_in_test_also_when_its_cluster_grows() -> None:
    before = split(instances(demo(30)))
    held = min(held_out(before, "refine_data"))
    merged = demo(30) | {"q000": (held, 4, 25), "q001": (held, 4, 25), held: (held, 4, 25)}
    after = split(instances(merged), seed=7, previous=before)
    assert held_out(after, "rubric_data") >= held_out(before, "rubric_data") | {"q000", "q001"}
    assert held_out(after, "refine_data") >= held_out(before, "refine_data") | {"q000", "q001"}


def test_new_clusters_come_into_test_before_earlier_train_ones() -> None:
    before = split(instances(demo(60)))
    grown = demo(60) | {f"new{number}": (f"new{number}", 4, 20) for number in range(60)}
    after = split(instances(grown), previous=before)
    added = held_out(after, "rubric_data") - held_out(before, "rubric_data")
    assert added
    assert all(question.startswith("new") for question in added)
    assert split(instances(demo(60)), seed=9, previous=before).equals(before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_set": "traces"}, "no data set 'traces'"),
        ({"instance_id": "same"}, "instance same stands twice in rubric_data"),
        ({"question_id": "q"}, "question q is in two clusters"),
    ],
)
def test_rows_that_cannot_be_split_are_named(change: dict[str, str], message: str) -> None:
    rows = instances(alone((2, 0), (2, 0))).with_columns(**{name: pl.lit(value) for name, value in change.items()})
    with pytest.raises(ValueError, match=message):
        split(rows)


def test_a_ratio_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="split ratio 0"):
        split(instances(demo(3)), rubric_ratio=0)


@settings(max_examples=150, deadline=None)
@given(CLUSTERED, st.integers(0, 3), st.sampled_from([0.5, 2, 5]), st.sampled_from([3, 50]))
def test_any_split_holds_its_certificate(questions: Questions, seed: int, rubric: float, refine: float) -> None:
    table = split(instances(questions), seed=seed, rubric_ratio=rubric, refine_ratio=refine)
    found = certificate(with_texts(questions), table, rubric_ratio=rubric, refine_ratio=refine)
    assert found["problems"] == []
    rubric_clusters = {cluster for cluster, rows, _ in questions.values() if rows}
    refine_clusters = {cluster for cluster, _, rows in questions.values() if rows}
    no_rubric = {cluster for cluster, rows, refined in questions.values() if refined and not rows}
    if len(rubric_clusters) > 1:
        assert min(sides(table, "rubric_data")) > 0
        if len(refine_clusters) > 1 and (refine_clusters & rubric_clusters) - no_rubric:
            assert min(sides(table, "refine_data")) > 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=10), st.sampled_from(["0.5", "2", "5", "50"]))
def test_no_choice_of_clusters_comes_nearer(sizes: list[int], ratio: str) -> None:
    table = split(instances(alone(*[(size, 0) for size in sizes])), rubric_ratio=float(ratio))
    wanted = sum(sizes) / (Fraction(ratio) + 1)
    best = min(abs(sum(chosen) - wanted) for count in range(1, len(sizes)) for chosen in combinations(sizes, count))
    assert abs(sides(table, "rubric_data")[1] - wanted) == best


@settings(max_examples=60, deadline=None)
@given(CLUSTERED, CLUSTERED)
def test_no_test_question_ever_becomes_train(first: Questions, second: Questions) -> None:
    before = split(instances(first))
    after = split(instances(second), previous=before)
    for name in ("rubric_data", "refine_data"):
        train = {*after.filter(data_set=name, split="train")["question_id"]}
        assert not train & held_out(before, name)


def tampered(table: pl.DataFrame, instance: str, side: str) -> pl.DataFrame:
    return table.with_columns(split=pl.when(instance_id=instance).then(pl.lit(side)).otherwise("split"))


def test_a_certificate_states_what_was_reached() -> None:
    questions = alone(*[(4, 20)] * 30)
    found = certificate(with_texts(questions), split(instances(questions)))
    assert found["holds"]
    assert found["lines"] == [
        "RubricData: 100 train and 20 test rows (5:1, wanted 5:1, 0.0 rows off), 5 of 30 question clusters in test.",
        "RubricData: no question cluster is in train and in test, and no pair across them has a 4-gram Jaccard "
        "greater than 0.75.",
        "RefineData: 580 train and 20 test rows (29:1, wanted 50:1, 8.2 rows off), 1 of 30 question clusters in test.",
        "RefineData: no question cluster is in train and in test, and no pair across them has a 4-gram Jaccard "
        "greater than 0.75.",
        "Every test question of RefineData is a test question of RubricData.",
        "RefineData: 50:1 is not reached: 8.2 test rows more than the 11.8 wanted. Clusters are not divided (there "
        "are 30, the largest of 20 rows), and what an earlier split had in test stays there.",
    ]


def test_a_row_moved_to_the_other_side_breaks_the_certificate() -> None:
    questions = alone(*[(4, 20)] * 30)
    table = split(instances(questions))
    moved = table.filter(data_set="rubric_data", split="test")["instance_id"][0]
    found = certificate(with_texts(questions), tampered(table, moved, "train"))
    assert not found["holds"]
    assert found["problems"] == [
        "RubricData: 1 questions are in train and in test.",
        "RubricData: 1 question clusters are in train and in test.",
    ]


def test_a_near_duplicate_across_the_sides_breaks_the_certificate() -> None:
    questions = alone(*[(4, 20)] * 30)
    table = split(instances(questions))
    train, test = (table.filter(data_set="refine_data", split=side)["instance_id"][0] for side in ("train", "test"))
    same = pl.when(pl.col("instance_id").is_in([train, test])).then(pl.lit("a b c d e f")).otherwise("text")
    found = certificate(with_texts(questions).with_columns(text=same), table)
    assert found["problems"] == ["RefineData: 1 pairs across train and test have a Jaccard greater than 0.75."]
    assert found["data_sets"]["refine_data"]["crossing_pair_examples"] == [{"test": test, "train": train}]


def test_a_refine_question_outside_the_rubric_test_breaks_the_certificate() -> None:
    questions = alone(*[(4, 20)] * 30)
    table = split(instances(questions))
    outside = min({*questions} - held_out(table, "rubric_data"))
    whole = pl.col("data_set").eq("refine_data") & pl.col("question_id").eq(outside)
    found = certificate(
        with_texts(questions), table.with_columns(split=pl.when(whole).then(pl.lit("test")).otherwise("split"))
    )
    assert found["problems"] == ["RefineData: 1 test questions are not test questions of RubricData."]
    assert found["refine_test_questions_outside"] == 1


def test_rows_without_a_side_or_with_two_break_the_certificate() -> None:
    questions = alone(*[(4, 0)] * 12)
    table = split(instances(questions))
    missing = certificate(with_texts(questions), table[1:])
    assert missing["problems"] == ["RubricData: 1 instances are not on exactly one side."]
    twice = certificate(with_texts(questions), pl.concat([table, table[:1]]))
    assert twice["problems"] == ["RubricData: 1 instances are not on exactly one side."]
    stray = certificate(with_texts(alone(*[(4, 0)] * 11)), table)
    assert "RubricData: 4 instances are not on exactly one side." in stray["problems"]

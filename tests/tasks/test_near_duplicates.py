"""The filter against its own definition, walked one instance after the other."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from storage.schemas import NEAR_DUPLICATES
from tasks.near_duplicates import decisions, near_duplicates, pairs_over
from tasks.text import tokens_of

DATA = Path(os.environ.get("CRITICGEN_TEST_DATA", ""))
needs_data = pytest.mark.skipif(
    not os.environ.get("CRITICGEN_TEST_DATA"), reason="CRITICGEN_TEST_DATA is not set: no real data here"
)

# Few words and few lengths, so that pairs at and around every threshold abound.
WORDS = st.lists(st.sampled_from("abc"), max_size=12).map(" ".join)
BASES = st.lists(st.sampled_from([f"w{i}" for i in range(40)]), min_size=20, max_size=20)


@st.composite
def edited(draw: st.DrawFn) -> list[str]:
    """Texts that share a stretch of words and differ in their ends and in a word or two."""
    base = draw(BASES)
    texts = []
    for _ in range(draw(st.integers(1, 8))):
        words = base[draw(st.integers(0, 4)) : 20 - draw(st.integers(0, 4))]
        if draw(st.booleans()):
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(["x", "y"]))
        texts.append(" ".join(words))
    return texts


def frame(texts: list[str]) -> pl.DataFrame:
    ids = [f"{number:04d}" for number in range(len(texts))]
    return pl.DataFrame({"instance_id": ids, "text": texts}, schema={"instance_id": pl.String, "text": pl.String})


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + n]) for at in range(len(words) - n + 1)}


def overlap(first: str, second: str, n: int) -> tuple[Fraction, int | None, int | None]:
    a, b = grams(first, n), grams(second, n)
    if not a and not b:
        return Fraction(int(first.split() == second.split())), None, None
    return Fraction(len(a & b), len(a | b)), len(a & b), len(a | b)


def by_definition(texts: list[str], limit: Fraction, n: int) -> list[tuple[int | None, int | None, int | None]]:
    retained: list[int] = []
    result: list[tuple[int | None, int | None, int | None]] = []
    for row, text in enumerate(texts):
        found = [(*overlap(text, texts[other], n), other) for other in retained]
        above = [each for each in found if each[0] > limit]
        if above:
            _, shared, union, twin = max(above, key=lambda each: (each[0], -each[3]))
            result.append((twin, shared, union))
        else:
            retained.append(row)
            result.append((None, None, None))
    return result


@settings(max_examples=300, deadline=None)
@given(
    st.lists(WORDS, max_size=14) | edited(), st.sampled_from(["0.75", "0.5", "0.7", "0", "1", "0.9"]), st.integers(1, 4)
)
def test_the_result_is_the_sequential_walk(texts: list[str], threshold: str, n: int) -> None:
    table = near_duplicates(frame(texts), data_set="refine_data", threshold=float(threshold), n=n, mode="ws")
    found = [
        (None if twin is None else int(twin), shared, union)
        for twin, shared, union in table.select("twin_id", "shared", "union").iter_rows()
    ]
    assert found == by_definition(texts, Fraction(threshold), n)
    assert table["kept"].to_list() == [twin is None for twin, _, _ in found]


@settings(max_examples=200, deadline=None)
@given(edited(), edited(), st.sampled_from(["0.75", "0.5", "0.3"]))
def test_pairs_are_all_that_are_above_the_threshold(left: list[str], right: list[str], threshold: str) -> None:
    across = pairs_over(pl.Series(left), pl.Series(right), threshold=float(threshold), n=3, mode="ws")
    limit = Fraction(threshold)
    assert across.select("left", "right").rows() == [
        (i, j) for i, a in enumerate(left) for j, b in enumerate(right) if overlap(a, b, 3)[0] > limit
    ]
    within = pairs_over(pl.Series(left), threshold=float(threshold), n=3, mode="ws")
    assert within.rows() == [
        (i, j, *overlap(left[i], left[j], 3)[1:])
        for i in range(len(left))
        for j in range(i + 1, len(left))
        if overlap(left[i], left[j], 3)[0] > limit
    ]


def test_exactly_three_quarters_is_kept() -> None:
    at = "a b c d e f g h i j", "a b c d e f g h i x"  # 6 of 8 four-grams
    above = "a b c d e f g h i j k", "a b c d e f g h i j x"  # 7 of 9
    assert near_duplicates(frame([*at]), data_set="refine_data")["kept"].to_list() == [True, True]
    table = near_duplicates(frame([*above]), data_set="refine_data")
    assert table.row(1) == ("refine_data", "0001", False, "0000", 7, 9, 7 / 9)


def test_a_dropped_instance_does_not_drop_another() -> None:
    words = list("abcdefghijklmnopqrstuvw")
    chain = [" ".join(words), " ".join([*words[2:], "1"]), " ".join([*words[4:], "1", "2"])]
    table = near_duplicates(frame(chain), data_set="refine_data")
    assert table["kept"].to_list() == [True, False, True]
    assert pairs_over(pl.Series(chain), threshold=0.75).select("left", "right").rows() == [(0, 1), (1, 2)]


def test_the_order_is_that_of_the_ids_and_not_of_the_rows() -> None:
    rows = pl.DataFrame({"instance_id": ["b", "a"], "text": ["one two three four five", "One two three four, five"]})
    table = near_duplicates(rows, data_set="rubric_data")
    assert table.select("instance_id", "kept", "twin_id").rows() == [("a", True, None), ("b", False, "a")]


def test_instances_of_few_tokens_are_compared_by_their_normalized_text() -> None:
    table = near_duplicates(frame(["Yes.", "yes", "no", "", " ", "((", "))"]), data_set="refine_data")
    assert table["twin_id"].to_list() == [None, "0000", None, None, "0003", None, None]
    assert table.row(1)[4:] == (None, None, 1.0)


def test_the_table_has_its_schema_also_when_it_is_empty() -> None:
    empty = pl.DataFrame(pl.from_arrow(NEAR_DUPLICATES.schema.empty_table()))
    for texts in ([], ["a"], ["a b c d e"] * 2):
        assert near_duplicates(frame(texts), data_set="refine_data").schema == empty.schema
    assert pairs_over(pl.Series([], dtype=pl.String), threshold=0.5).rows() == []


def test_an_id_that_stands_twice_is_named() -> None:
    rows = pl.DataFrame({"instance_id": ["a", "a"], "text": ["x", "y"]})
    with pytest.raises(ValueError, match="rubric_data: instance a stands twice"):
        near_duplicates(rows, data_set="rubric_data")


@pytest.mark.parametrize("threshold", [-0.1, 1.5, 0.1234567891])
def test_a_threshold_that_is_no_jaccard_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="a Jaccard lies within 0 and 1"):
        near_duplicates(frame(["a"]), data_set="rubric_data", threshold=threshold)


def test_a_template_that_all_rows_share_makes_no_candidates() -> None:
    template = " ".join(f"t{i}" for i in range(80))
    texts = [f"{template} " + " ".join(f"r{row}w{i}" for i in range(20)) for row in range(400)]
    assert near_duplicates(frame(texts), data_set="refine_data")["kept"].all()
    # A fifth of each row is its own, so all are at 77/123 of one another.
    assert len(pairs_over(pl.Series(texts[:20]), threshold=0.62)) == 190


def drops(texts: list[str], **settings: Any) -> dict[int, int]:
    """The dropped rows and their twins, in the order of the list."""
    found = decisions(frame(texts), order="input", **settings).with_row_index()
    return {row: int(twin) for row, twin in found.filter(~pl.col("kept")).select("index", "twin_id").iter_rows()}


def test_the_order_of_the_input_is_walked_when_asked_for() -> None:
    rows = pl.DataFrame({"instance_id": ["b", "a", "c"], "text": ["one two three four", "else", "One two three four"]})
    found = decisions([rows[:2], rows[2:]], order="input")
    assert found.select("instance_id", "kept", "twin_id").rows() == [
        ("b", True, None),
        ("a", True, None),
        ("c", False, "b"),
    ]
    assert decisions(rows.reverse()).select("instance_id", "twin_id").rows() == [("c", "b"), ("a", None), ("b", None)]


def test_ten_thousand_identical_rows_repeat_the_first() -> None:
    assert drops(["all of these rows are one and the same"] * 10_000) == dict.fromkeys(range(1, 10_000), 0)


def test_very_long_rows_are_compared_whole() -> None:
    words = [f"w{place}" for place in range(100_000)]
    edited = ["x" if place % 40 == 0 else word for place, word in enumerate(words)]  # 8 in 40 n-grams differ: 36/44
    other = ["x" if place % 25 == 0 else word for place, word in enumerate(words)]  # 21/29
    assert drops([" ".join(each) for each in (words, edited, other)]) == {1: 0}


def test_rows_without_words_repeat_only_what_is_written_alike() -> None:
    assert drops(["( ( ) )", "( )", "((  ) )", "( (\n) )", "", "  ", "one two three", "One, two three."]) == {
        3: 0,
        5: 4,
        7: 6,
    }


def test_ideographs_are_tokens_and_in_mode_ws_they_are_not() -> None:
    texts = ["我今天去学校上数学课和英语课。", "我今天去学校上数学课和英语课！", "他昨天没有来。"]
    assert drops(texts) == {1: 0}
    assert drops(texts, mode="ws") == {}


@needs_data
def test_rows_of_brackets_alone() -> None:
    rows = [row["input"] for row in read("traces/bbmistake_dyck_languages.jsonl")]
    first: dict[str, int] = {}
    brackets = [row for row in rows if "<" not in row and ">" not in row]
    repeats = {at: first[row] for at, row in enumerate(brackets) if first.setdefault(row, at) != at}
    assert drops(brackets) == repeats


def by_counting(texts: list[str]) -> dict[int, int]:
    """The sequential walk, by a list of the retained rows of every 4-gram: slower than any filter, and sees all."""
    retained: dict[tuple[str, ...], list[int]] = {}
    sizes, found = [], {}
    for row, text in enumerate(texts):
        own = grams(text.lower(), 4)
        sizes.append(len(own))
        shared = Counter(chain.from_iterable(retained.get(gram, ()) for gram in own))
        above = [(Fraction(n, len(own) + sizes[other] - n), -other) for other, n in shared.items()]
        if best := max((each for each in above if each[0] > Fraction(3, 4)), default=None):
            found[row] = -best[1]
        else:
            for gram in own:
                retained.setdefault(gram, []).append(row)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[list[str], pl.DataFrame]]:
    """Rows of a made corpus with planted pairs, as (texts, planted)."""
    script = DATA.parent / "bench" / "corpus.py"
    if not script.is_file():
        pytest.skip("the made corpus's script is not beside CRITICGEN_TEST_DATA")

    def make(rows: int) -> tuple[list[str], pl.DataFrame]:
        folder = tmp_path_factory.mktemp("corpus")
        subprocess.run([sys.executable, str(script), str(folder), str(rows)], check=True, capture_output=True)
        fields = ["rubric", "reason", "suggestion", "refined"]
        table = pl.read_parquet(folder / "part-*.parquet").select(pl.concat_str(fields, separator=" "))
        return table.to_series().to_list(), pl.read_parquet(folder / "planted.parquet")

    return make


@pytest.mark.slow
def test_a_made_corpus_is_walked_as_by_counting(made: Callable[[int], tuple[list[str], pl.DataFrame]]) -> None:
    texts, _ = made(2_000)
    assert drops(texts, mode="ws") == by_counting(texts)
    assert drops(texts[::-1], mode="ws") == by_counting(texts[::-1])


@pytest.mark.slow
def test_planted_pairs_have_their_jaccard(made: Callable[[int], tuple[list[str], pl.DataFrame]]) -> None:
    texts, planted = made(20_000)
    assert len(drops(texts, mode="ws")) == 1242  # as found by comparing all pairs
    pairs = pairs_over(pl.Series(texts), threshold=0.74, mode="ws")
    exact = planted.filter(pl.col("num") > 0, pl.col("num") / pl.col("den") > 0.745)
    found = exact.join(pairs, left_on=["base", "row"], right_on=["left", "right"])
    assert len(found) == len(exact) > 1000
    assert (found["shared"] * found["den"] == found["union"] * found["num"]).all()
    at_three_quarters = found.filter(pl.col("shared") * 4 == pl.col("union") * 3)
    assert len(at_three_quarters) > 100
    above = pairs_over(pl.Series(texts), threshold=0.75, mode="ws")
    assert len(above) == 4922
    assert at_three_quarters.join(above, left_on=["base", "row"], right_on=["left", "right"]).is_empty()


@needs_data
def test_hashes_decide_as_strings_do_near_the_threshold() -> None:
    """Pairs at most three n-grams from the threshold, counted again in sets of strings."""
    texts = [row["input"] for row in read("dedup/gsm_hard.jsonl")] + [
        row["input"] for row in read("dedup/pal_gsm.jsonl")
    ]
    pairs = pairs_over(pl.Series(texts), threshold=0.6)
    near = pairs.filter((4 * pl.col("shared") - 3 * pl.col("union")).abs() <= 12)
    assert len(near) > 50
    sets = {row: grams(" ".join(tokens_of(texts[row], "word")), 4) for pair in near.rows() for row in pair[:2]}
    assert [(len(sets[i] & sets[j]), len(sets[i] | sets[j])) for i, j, _, _ in near.rows()] == near.select(
        "shared", "union"
    ).rows()


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").split("\n") if line]


@needs_data
def test_gsm_hard_repeats_gsm8k() -> None:
    hard = pl.Series([row["input"] for row in read("dedup/gsm_hard.jsonl")])
    original = pl.Series([row["question"] for row in read("questions/gsm8k_test.jsonl")])
    pairs = pairs_over(hard, original, threshold=0.5)
    best = pairs.group_by("left").agg((pl.col("shared") / pl.col("union")).max().alias("jaccard"))
    assert (best["jaccard"] > 0.75).sum() == 1050
    assert (best["jaccard"] <= 0.75).sum() == 256


@needs_data
def test_answers_of_several_models_repeat_one_another() -> None:
    by_prompt: dict[str, list[str]] = {}
    for model in ("davinci_base", "text_davinci_001", "text_davinci_002", "text_davinci_003"):
        for row in read(f"dedup/selfinstruct_{model}.jsonl"):
            by_prompt.setdefault(row["prompt"], []).append(row["response"])
    alike = [pairs_over(pl.Series(answers), threshold=0.75) for answers in by_prompt.values()]
    by_ngrams = [pairs for pairs in alike if pairs["shared"].is_not_null().any()]
    by_text = [pairs for pairs in alike if pairs["shared"].is_null().any()]
    assert (len(by_prompt), len(by_ngrams), len(by_text)) == (252, 20, 21)

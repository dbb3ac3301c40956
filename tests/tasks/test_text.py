"""Tokens as literals, and what holds of every text."""

import unicodedata

import numpy as np
import polars as pl
import pytest
import regex
from hypothesis import given, settings, strategies as st

from tasks.text import Mode, lowered, ngram_hashes, normalized, token_hashes, tokens_of

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=30)
NEAR_TEXTS = st.lists(st.sampled_from(["a", "b", "c", " "]), max_size=12).map("".join)


IN_BOTH_MODES = [
    ("The cat's 3.5 kg, isn't it?", "the|cat's|3.5|kg|isn't|it", "the|cat's|3.5|kg,|isn't|it?"),
    (r"$\frac{a}{2}+\sqrt x$", r"\frac|a|2|+|\sqrt|x", r"$\frac{a}{2}+\sqrt|x$"),
    ("if x_1 != y[0]: return -1", "if|x|1|=|y|0|return|-|1", "if|x_1|!=|y[0]:|return|-1"),
    ("小明有3个苹果，吃了1个。", "小|明|有|3|个|苹|果|吃|了|1|个", "小明有3个苹果，吃了1个。"),
    ("カレーを2杯 食べた。", "カ|レ|ー|を|2|杯|食|べ|た", "カレーを2杯|食べた。"),
    ("사과 세 개를 먹었다.", "사과|세|개를|먹었다", "사과|세|개를|먹었다."),
    ("أكلتُ ٣٫٥ تفاحات، شكرا", "أكلتُ|٣|٥|تفاحات|شكرا", "أكلتُ|٣٫٥|تفاحات،|شكرا"),
    ("well done \U0001f44d\U0001f3fd!", "well|done", "well|done|\U0001f44d\U0001f3fd!"),
    ("Cafe\u0301 nai\u0308ve", "caf\u00e9|na\u00efve", "caf\u00e9|na\u00efve"),
    ("\uff13\uff0e\uff15\u3000\uff2b\uff27", "\uff13|\uff15|\uff4b\uff47", "\uff13\uff0e\uff15|\uff4b\uff47"),
]


@pytest.mark.parametrize(("text", "word", "ws"), IN_BOTH_MODES)
def test_tokens_in_both_modes(text: str, word: str, ws: str) -> None:
    assert tokens_of(text, "word") == word.split("|")
    assert tokens_of(text, "ws") == ws.split("|")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't pay 1,234.50, or 3.14.", ["don't", "pay", "1,234.50", "or", "3.14"]),
        ("well-known (rock'n'roll), 'quoted' $5%", ["well", "-", "known", "rock'n'roll", "quoted", "5"]),
        (r"\frac{1}{2}\Alpha_i x^2", [r"\frac", "1", "2", r"\alpha", "i", "x", "^", "2"]),
        ("a<=b, x*y/z ≤ ∑ \u2212 |t|", list("a<=bx*y/z≤∑\u2212|t|")),
        ("def f(x_1): return a[0] != 1e-5", ["def", "f", "x", "1", "return", "a", "0", "=", "1e", "-", "5"]),
        (
            "16-3-4=<<16-3-4=9>>9",
            ["16", "-", "3", "-", "4", "=", "<", "<", "16", "-", "3", "-", "4", "=", "9", ">", ">", "9"],
        ),
        ("x² + ½, v1.2.3; 1, 2 and 1,2", ["x²", "+", "½", "v1.2.3", "1", "2", "and", "1,2"]),
    ],
)
def test_english_latex_and_code_tokens(text: str, tokens: list[str]) -> None:
    assert tokens_of(text, "word") == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我喜欢数学,3个苹果。", ["我", "喜", "欢", "数", "学", "3", "个", "苹", "果"]),
        ("ラーメンを3杯。", ["ラ", "ー", "メ", "ン", "を", "3", "杯"]),
        ("人々\u3007", ["人", "々", "\u3007"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),
        ("안녕하세요 세계", ["안녕하세요", "세계"]),
        ("مرحبا، بالعالم ٣", ["مرحبا", "بالعالم", "٣"]),
        ("\uff11\uff12\uff13 \uff21\uff22", ["\uff11\uff12\uff13", "\uff41\uff42"]),
        ("ok \U0001f600\U0001f469\u200d\U0001f4bb ok", ["ok", "ok"]),
        ("\u2764\ufe0f a", ["\ufe0f", "a"]),
        ("Janet\u2019s \u201cduck\u201d", ["janet", "s", "duck"]),
    ],
)
def test_tokens_of_other_scripts(text: str, tokens: list[str]) -> None:
    assert tokens_of(text, "word") == tokens


def test_a_combining_mark_makes_the_same_token_as_its_letter() -> None:
    assert tokens_of("e\u0301te\u0301 \u304b\u3099", "word") == ["\u00e9t\u00e9", "\u304c"]


def test_lower_case_is_per_code_point() -> None:
    assert tokens_of("\u03a3\u039f\u03a3 ISTANBUL \u0130x", "word") == [
        "\u03c3\u03bf\u03c3",
        "istanbul",
        "i\u0307x",
    ]


def test_lower_case_of_a_text_is_that_of_its_code_points() -> None:
    every = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    kept = [char for char in every if unicodedata.normalize("NFC", char) == char]
    assert [lowered(char) for char in kept] == [char.lower() for char in kept]
    assert lowered("A\u03a3 ") == "a\u03c3 "


@pytest.mark.parametrize("mode", ["word", "ws"])
@pytest.mark.parametrize("space", ["\u0085", "\u00a0", "\u2028", "\u3000", "\t\r\n ", "\x1c"])
def test_unicode_whitespace_separates(space: str, mode: Mode) -> None:
    assert tokens_of(f"a{space}b", mode) == ["a", "b"]


def test_mode_ws_separates_by_whitespace_alone() -> None:
    assert tokens_of("The  cat, (3.5)\n\u6211\u4eec \u200b", "ws") == ["the", "cat,", "(3.5)", "\u6211\u4eec", "\u200b"]


def test_a_null_text_has_no_tokens() -> None:
    texts = pl.Series("t", ["a b", None, ""], dtype=pl.String)
    assert normalized(texts, "word").to_list() == ["a b", "", ""]
    assert ngram_hashes(texts, 1, "word").counts.tolist() == [2, 0, 0]


def test_normalized_text_is_its_tokens_or_else_itself() -> None:
    texts = pl.Series(["  Yes,  it IS! ", "[ (\u00a0] ", "[ ( ["])
    assert normalized(texts, "word").to_list() == ["yes it is", "[ ( ]", "[ ( ["]


def test_ngrams_never_cross_texts() -> None:
    hashes, offsets = ngram_hashes(pl.Series(["a b c", "d", "", "b c d"]), 2, "word")
    assert offsets.tolist() == [0, 2, 2, 2, 4]
    assert hashes[1] == hashes[2]
    assert len(set(hashes.tolist())) == 3


def test_ngrams_of_no_text_and_of_no_tokens() -> None:
    with pytest.raises(ValueError, match="n is at least 1"):
        ngram_hashes(pl.Series(["a"]), 0, "word")
    assert ngram_hashes(pl.Series([], dtype=pl.String), 4, "word").offsets.tolist() == [0]
    assert ngram_hashes(pl.Series(["a b c"]), 4, "word").counts.tolist() == [0]


@settings(deadline=None)
@given(st.lists(NEAR_TEXTS, max_size=6), st.integers(1, 5))
def test_equal_ngrams_have_equal_hashes_and_others_differ(texts: list[str], n: int) -> None:
    lists = [text.split() for text in texts]
    grams = [tuple(tokens[at : at + n]) for tokens in lists for at in range(len(tokens) - n + 1)]
    hashes, offsets = ngram_hashes(pl.Series(texts, dtype=pl.String), n, "ws")
    assert np.diff(offsets).tolist() == [max(len(tokens) - n + 1, 0) for tokens in lists]
    by_gram = dict(zip(grams, hashes.tolist(), strict=True))
    assert [by_gram[gram] for gram in grams] == hashes.tolist()
    assert len(set(by_gram.values())) == len(by_gram)


@given(TEXTS)
def test_word_tokens_hold_no_space_and_do_not_depend_on_the_unicode_form(text: str) -> None:
    tokens = tokens_of(text, "word")
    assert all(token and token.split() == [token] for token in tokens)
    assert tokens_of(unicodedata.normalize("NFD", text), "word") == tokens


RUN, ALONE, MATH = "aé\u03c3\u0301\u0663\ud55c1", "\u6211\u304b", "-+^\u2264"


def by_hand(text: str) -> list[str]:
    """The definition of mode word, one code point after the other, over the alphabet below."""
    tokens, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at] in RUN:
            while end < len(text) and (text[end] in RUN or stays(text, end)):
                end += 1
        elif text[at] in ALONE:
            while end < len(text) and text[end] == "\u0301":
                end += 1
        elif text[at] == "\\":
            while end < len(text) and text[end] in "a":
                end += 1
        if text[at] in RUN + ALONE + MATH or (text[at] == "\\" and end > at + 1):
            tokens.append(text[at:end])
        at = end
    return tokens


def stays(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at + 1 : at + 2]
    in_number = text[at] in ".," and before in "1\u0663" and after in ("1", "\u0663")
    return in_number or (text[at] == "'" and after != "" and after in RUN)


@settings(max_examples=300)
@given(st.text(alphabet=RUN + ALONE + MATH + ".,'\\ !\U0001f600", max_size=14))
def test_word_tokens_are_those_of_the_definition(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    if "\u00e1" not in text:  # a with its mark is one more letter than the alphabet has
        assert tokens_of(text, "word") == by_hand(text)


# Where the forms of Unicode and the rules of mode word meet: marks, jamo, letters that join, the points of numbers.
TRICKY = st.text(
    alphabet="aA1 .,'\\-\u0130\u03a3\u212a\u0301\u0327\u0345\u1100\u1161\u11a8\uac00\u09c7"
    "\u09be\u0f71\u0f72\u4e00\u304b\u3099\uff76\uff9e\u0663\U0001d7d8\U0001f600\ufe0f\u200d\u2212\u0085\x1c\U00011099\U000110ba",
    max_size=12,
)


def assert_hashed_as_defined(texts: list[str], mode: Mode) -> None:
    """As many hashes for each text as it has tokens; equal ones for equal tokens, others for others."""
    lists = [tokens_of(text, mode) for text in texts]
    hashes, offsets = token_hashes(pl.Series(texts, dtype=pl.String), mode)
    assert np.diff(offsets).tolist() == [len(tokens) for tokens in lists]
    flat = [token for tokens in lists for token in tokens]
    pairs = set(zip(flat, hashes.tolist(), strict=True))
    assert len(pairs) == len({token for token, _ in pairs}) == len({hash_ for _, hash_ in pairs})


@settings(max_examples=400, deadline=None)
@given(st.lists(TEXTS | TRICKY, max_size=6), st.sampled_from(["word", "ws"]))
def test_the_hashed_tokens_are_those_of_the_definition(texts: list[str], mode: Mode) -> None:
    assert_hashed_as_defined(texts, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["word", "ws"])
def test_every_assigned_code_point_is_hashed_as_defined_wherever_it_stands(mode: Mode) -> None:
    every = [*map(chr, range(0xD800)), *map(chr, range(0xE000, 0x110000))]
    every = [char for char in every if not regex.match(r"[\p{Cn}\p{Co}]", char)] + every[::1000]
    assert_hashed_as_defined([f"1{char}.{char}2 a{char}'{char} \\{char} \u4e00{char}" for char in every], mode)


def test_a_text_of_many_slices_and_one_that_is_longer_than_any() -> None:
    texts = ["word " * (row % 3) for row in range(9000)] + ["e\u0301 b " * 100_000]
    counts = token_hashes(pl.Series(texts), "word").counts.tolist()
    assert counts == [row % 3 for row in range(9000)] + [200_000]


@given(TEXTS)
def test_tokens_joined_by_a_space_are_the_normalized_text(text: str) -> None:
    for mode in ("word", "ws"):
        if tokens := tokens_of(text, mode):
            assert normalized(pl.Series([text]), mode).to_list() == [" ".join(tokens)]

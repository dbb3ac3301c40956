import contextlib
import json
import os
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import BaseModel, Field, model_validator

from tasks.structured import MalformedOutput, OutOfContract, parse_structured, sanitize


class Verdict(BaseModel):
    score: Annotated[int, Field(ge=0, le=5)]
    reason: str


class Levels(BaseModel):
    level_0: str
    level_1: str

    @model_validator(mode="after")
    def _differ(self) -> "Levels":
        if self.level_0 == self.level_1:
            raise ValueError("two levels say the same")
        return self


class Choice(BaseModel):
    verdict: Literal[0, 1]


class Nested(BaseModel):
    items: list[Verdict]


GOOD = '{"score": 3, "reason": "ok"}'


def parsed(text, type_=Verdict):
    found = parse_structured(text, type_)
    return found.value.model_dump(), found.repaired, found.sanitized


def reason(text):
    found = parse_structured(text, Verdict)
    return found.value.reason, found.repaired


def test_strict_json_is_taken_as_it_is():
    assert parsed(f"\n {GOOD} \n") == ({"score": 3, "reason": "ok"}, False, False)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here is my verdict:\n\n{GOOD}\n\nI hope that helps.",
        f"Let f be {{x, y}} and \\frac{{1}}{{2}}. So: {GOOD}",
        f"\ufeff{GOOD}",
        GOOD + GOOD,
        f"{GOOD}\nThat is:\n```json\n{{\"reason\": \"ok\", \"score\": 3}}\n```",
        f'<think>Perhaps {{"score": 1, "reason": "no"}}?</think>{GOOD}',
        '{"score": 3, "reason": "ok",}',
        "{'score': 3, 'reason': 'ok'}",
        '{score: 3, "reason": "ok"}',
        '{"score": 3 "reason": "ok"}',
        '{"score": 3, "reason": "ok", "reason": "ok"}',
    ],
)  # fmt: skip
def test_one_object_that_only_its_dress_hides_is_repaired(text):
    assert parsed(text) == ({"score": 3, "reason": "ok"}, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "I cannot score this.",
        f"[{GOOD}]",
        GOOD + GOOD.replace("3", "4"),
        f"First {GOOD}, no: {GOOD.replace('ok', 'better')}",
        '{"score": 3, "score": 4, "reason": "ok"}',
        '{"score": 3, "reason": "cut o',
        '{"score": 3, "reason": "cut off"',
        '{"score": 3, "reason": "cut}',
        '{"score": 3, "reason": "ok" /* nearly */}',
        '{"score": NaN, "reason": "ok"}',
        '{"score": 3, "reason": Infinity}',
        '{"score": 3, "reason": "ok", "mood": "good"}',
        '{"score": 3, "reason": null}',
        '{"score": 3}',
        "{" * 50_000,
        "[" * 200_000,
        '{"a":' * 50_000,
    ],
)
def test_what_is_not_one_whole_object_is_malformed(text):
    with pytest.raises(MalformedOutput):
        parse_structured(text, Verdict)


@pytest.mark.parametrize(
    "score", ["4.5", "4.0", '"4"', '"4-5"', "6", "-1", "true", "null", "[4]", "1e400", "9" * 4_000]
)
def test_a_score_is_a_whole_number_of_the_scale_or_out_of_contract(score):
    with pytest.raises(OutOfContract, match=r"^score: "):
        parse_structured(f'{{"score": {score}, "reason": "ok"}}', Verdict)


def test_the_message_says_what_is_wrong_and_where():
    with pytest.raises(OutOfContract) as problem:
        parse_structured('{"items": [{"score": 7, "reason": "ok"}]}', Nested)
    assert str(problem.value) == "items.0.score: Input should be less than or equal to 5 (not 7)"
    with pytest.raises(MalformedOutput) as problem:
        parse_structured('{"items": [{"score": 1, "why": "x"}]}', Nested)
    assert str(problem.value) == "items.0.reason: this key is missing; items.0.why: this key is not wanted"


@pytest.mark.parametrize("verdict", ["2", "1.0", "true", '"1"'])
def test_a_choice_of_numbers_takes_no_other_kind(verdict):
    with pytest.raises(OutOfContract):
        parse_structured(f'{{"verdict": {verdict}}}', Choice)


def test_a_level_that_lacks_or_repeats_is_out_of_contract():
    with pytest.raises(OutOfContract, match=r"^level_1: this key is missing$"):
        parse_structured('{"level_0": "none"}', Levels)
    with pytest.raises(OutOfContract, match=r"^two levels say the same$"):
        parse_structured('{"level_0": "none", "level_1": "none"}', Levels)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'{"score": 3, "reason": "\frac{a}{b} \times \beta"}', r"\frac{a}{b} \times \beta"),
        (r'{"score": 3, "reason": "\alpha \(x\) \sum"}', r"\alpha \(x\) \sum"),
        (r'{"score": 3, "reason": "$$\alpha \ne \nabla$$"}', r"$$\alpha \ne \nabla$$"),
        (r'{"score": 3, "reason": "he said "five" here"}', 'he said "five" here'),
        ('{"score": 3, "reason": "two\nlines"}', "two\nlines"),
    ],
)
def test_strings_are_put_right(written, read):
    assert reason(written) == (read, True)


def test_prose_with_latex_says_nothing_about_the_json():
    assert reason('As \\alpha shows: {"score": 3, "reason": "$$\\\\alpha \\ne$$"}') == ("$$\\alpha \ne$$", True)


def test_lone_surrogates_and_nul_are_replaced_and_marked():
    assert parsed('{"score": 3, "reason": "a\\ud800b\\u0000c\\ud83d\\ude00"}') == (
        {"score": 3, "reason": "a\ufffdb\ufffdc😀"}, False, True,
    )  # fmt: skip
    assert sanitize("plain 😀") == ("plain 😀", False)
    assert sanitize("\udc00\x00") == ("\ufffd\ufffd", True)


PIECES = st.sampled_from(
    [
        *(r"\frac{1}{2}", r"\nabla", r"\(x\)", r"\\", "$", "$$", "5"),
        *("\n", "\n\n", "\t", "\r\n", " ", "not", "to", "the", "number"),
        *("中文", "かな", "\u2028", "\u2029", "½", "é", "😀"),
        *('"', "'", "{", "}", "```", "```json", '{"score": 1}', "<think>"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.booleans())
@example("a\nnot b\nto c", True)
def test_text_makes_the_round_trip_byte_for_byte(text, ascii_only):
    written = json.dumps({"score": 3, "reason": text}, ensure_ascii=ascii_only)
    assert reason(written) == (text, False)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_makes_the_round_trip(text):
    assert reason(json.dumps({"score": 3, "reason": text}, ensure_ascii=False)) == (text, False)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("{}[]\"':,\\ \nab1`"), max_size=60))
def test_no_text_does_worse_than_fail(text):
    for whole in (text, '{"score": 3, "reason": "' + text + '"}'):
        try:
            found = parse_structured(whole, Verdict)
        except (MalformedOutput, OutOfContract):
            continue
        shown = json.dumps(found.value.model_dump())
        assert set(filter(str.isalnum, shown)) <= set(filter(str.isalnum, whole))


@pytest.mark.parametrize(
    "text",
    [
        '{"' * 30_000 + "}",
        "{'" * 40_000 + "}",
        "{" * 50_000 + "}" * 50_000,
        '{"score": 3, "reason": "' + "}}{]}" * 10_000 + '"}',
        '{"score": 3, "reason": "' + "\\\\[" * 10_000 + '\\nu"}',
        '{"score": 3, "reason": "' + "$a " * 30_000 + '\\nu"}',
    ],
)
def test_hostile_text_takes_no_long_time(text):
    began = time.process_time()
    with contextlib.suppress(MalformedOutput):
        parse_structured(text, Verdict)
    assert time.process_time() - began < 10


DATA = os.environ.get("CRITICGEN_TEST_DATA")


class Anything(BaseModel):
    value: object


@pytest.mark.skipif(not DATA, reason="CRITICGEN_TEST_DATA is not set")
def test_a_parsers_test_suite():
    files = sorted(Path(DATA or "", "messy", "JSONTestSuite").rglob("*.json"))
    assert len(files) > 300
    for file in files:
        text = file.read_bytes().decode("utf-8", "surrogateescape")
        try:
            found = parse_structured(f'{{"value": {text}}}', Anything)
        except (MalformedOutput, OutOfContract):
            found = None
        if file.name.startswith("y_"):
            # Two different values for one key are JSON, but no answer.
            assert (found is None) == (file.name == "y_object_duplicated_key.json"), file.name
            assert found is None or "duplicated" in file.name or not found.repaired, file.name
        elif file.name.startswith("n_"):
            assert found is None or found.repaired, file.name
        if "NaN" in text or "Inf" in text:
            assert found is None, file.name

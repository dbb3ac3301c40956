import json
from typing import Any

import pytest

from deployments.simulator.dice import Dice
from deployments.simulator.json_instances import instance
from deployments.simulator.spoiling import SCORES, another, spoil, strange
from tasks.rubrics import Rubric
from tasks.trajectories import Trajectory

VALUE = {"score": 3, "reason": "step 2 is off by one", "suggestion": "write 14 there", "refined_answer": "It is 14."}
RUBRIC = {"items": [{"family": "objective", "dimension": "The sum"}, {"family": "objective", "dimension": "The rest"}]}
SCHEMA = Trajectory.model_json_schema()
VERDICT = {
    "type": "object",
    "properties": {"winner": {"enum": ["first", "second"]}, "reason": {"type": "string"}},
    "required": ["winner", "reason"],
}


def spoilt(name: str, seed: int = 0, value: Any = VALUE) -> str:
    return spoil(name, value, SCHEMA, Dice(seed))


def objects(text: str) -> list[Any]:
    """The JSON objects that stand one after the other in the text."""
    found = []
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_bad_json_does_not_parse(seed: int) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(spoilt("fault_bad_json", seed))


def test_prose_stands_around_whole_json() -> None:
    text = spoilt("fault_prose")
    assert not text.startswith("{")
    assert json.loads(text[text.index("{") : text.rindex("}") + 1]) == VALUE


def test_bad_schema_lacks_one_field() -> None:
    assert len(json.loads(spoilt("fault_bad_schema"))) == 3
    items = json.loads(spoilt("fault_bad_schema", value=RUBRIC))["items"]
    assert [len(item) for item in items] == [2, 1]


def test_extra_has_one_more_field() -> None:
    assert json.loads(spoilt("fault_extra")) == VALUE | {"confidence": 0.87}
    items = json.loads(spoilt("fault_extra", value=RUBRIC))["items"]
    assert [len(item) for item in items] == [2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_the_same_object_twice(seed: int) -> None:
    assert objects(spoilt("fault_twice", seed)) == [VALUE, VALUE]


@pytest.mark.parametrize("seed", range(8))
def test_two_objects_differ_and_both_are_valid(seed: int) -> None:
    both = objects(spoilt("fault_two", seed))
    assert VALUE in both
    assert both[0]["score"] != both[1]["score"]
    assert [Trajectory.model_validate(one).reason for one in both] == [VALUE["reason"]] * 2


def test_another_value_of_the_same_schema() -> None:
    schema = Rubric.model_json_schema()
    rubric = {
        "items": [instance(schema["$defs"]["RubricItem"], schema, Dice(n)) | {"dimension": f"d{n}"} for n in (1, 2)]
    }
    assert another(rubric, schema, Dice(0))["items"] == rubric["items"][::-1]
    verdict = {"winner": "first", "reason": "it is shorter"}
    assert another(verdict, VERDICT, Dice(0)) == verdict | {"winner": "second"}
    assert another({"always": 1}, {"properties": {"always": {"const": 1}}}, Dice(0)) == {"always": 1}
    assert another({"a": 1}, {"anyOf": [{"const": {"a": 1}}, {"const": {"b": 2}}]}, Dice(0)) == {"b": 2}


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("fault_score_fraction", '"4/5"'),
        ("fault_score_half", "4.5"),
        ("fault_score_text", '"4"'),
        ("fault_score_six", "6"),
        ("fault_score_nan", "NaN"),
    ],
)
def test_each_bad_score_has_its_own_fault(name: str, score: str) -> None:
    text = spoilt(name)
    assert f'"score":{score},' in text
    assert json.loads(text)["reason"] == VALUE["reason"]


def test_bad_score_is_any_of_them() -> None:
    seen = {spoilt("fault_bad_score", seed).partition(',"reason"')[0] for seed in range(60)}
    assert seen == {f'{{"score":{score}' for score in SCORES.values()}
    assert '{"score":"4-5"' in seen


@pytest.mark.parametrize("seed", range(8))
def test_latex_has_single_backslashes_in_its_json(seed: int) -> None:
    text = spoilt("fault_latex", seed)
    assert "\\" in text
    assert "\\\\" not in text
    try:
        reason = json.loads(text)["reason"]
    except json.JSONDecodeError:
        assert "\\sqrt" in text
    else:
        assert {"\t", "\f", "\b", "\r"} & set(reason)


@pytest.mark.parametrize(
    ("name", "end", "escape"), [("fault_surrogate", "\ud83d", r"\ud83d"), ("fault_nul", "\0", r"\u0000")]
)
def test_strange_characters_are_escaped_in_json_and_themselves_in_text(name: str, end: str, escape: str) -> None:
    text = strange(name, VALUE, "")
    assert escape in text
    assert json.loads(text) == VALUE | {"reason": VALUE["reason"] + end}
    assert strange(name, None, "It is 14.") == "It is 14." + end


def test_a_huge_text_is_valid_json() -> None:
    assert 5_000_000 <= len(json.loads(strange("fault_huge", VALUE, ""))["reason"]) < 5_001_000

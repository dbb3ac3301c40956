import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from deployments.simulator.dice import Dice
from deployments.simulator.json_instances import in_order, instance

TREE = {
    "$defs": {"node": {"type": "object", "properties": {"name": {"type": "string"}, "parts": {"$ref": "#/$defs/list"}},
                       "required": ["name", "parts"]},
              "list": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "$ref": "#/$defs/node",
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        ({"enum": ["first", "second", "neutral"]}, ("first", "second", "neutral")),
        ({"const": 7}, (7,)),
        ({"type": "integer", "minimum": 3, "maximum": 4}, (3, 4)),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, (4,)),
        ({"type": "integer", "multipleOf": 10, "minimum": 11, "maximum": 20}, (20,)),
        ({"type": "number", "minimum": 0.5, "maximum": 0.5}, (0.5,)),
        ({"type": "boolean"}, (True, False)),
        ({"type": ["null", "boolean"]}, (True, False)),
        ({"type": "null"}, (None,)),
        ({"type": "array", "items": {"const": 1}, "minItems": 3}, ([1, 1, 1],)),
        ({"type": "array", "maxItems": 0}, ([],)),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, (1, 2)),
        ({"allOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"required": ["a"]}]}, ({"a": 1},)),
        ({"type": "string", "format": "date"}, ("2026-03-14",)),
    ],
)
@given(seed=st.integers())
@settings(max_examples=10, deadline=None)
def test_instances_satisfy_their_schema(schema: Any, allowed: tuple[Any, ...], seed: int) -> None:
    assert instance(schema, schema, Dice(seed)) in allowed


@given(least=st.integers(0, 60), seed=st.integers())
@settings(max_examples=20, deadline=None)
def test_strings_keep_their_lengths(least: int, seed: int) -> None:
    schema = {"type": "string", "minLength": least, "maxLength": least + 5}
    assert least <= len(instance(schema, schema, Dice(seed))) <= least + 5


def test_recursion_ends() -> None:
    assert len(json.dumps(instance(TREE, TREE, Dice(0)))) < 500
    assert set(instance(TREE, TREE, Dice(0))) == {"name", "parts"}


def test_values_take_the_order_and_the_keys_of_the_schema() -> None:
    properties = {"b": {"type": "integer"}, "a": {"type": "integer"}, "c": {"const": "new"}}
    schema = {"type": "object", "properties": properties}
    assert json.dumps(in_order({"a": 1, "b": 2, "z": 3}, schema, schema, Dice(0))) == '{"b": 2, "a": 1, "c": "new"}'

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from tasks.models.output_schema import schema_for

APIS = ["openai", "openai-chat", "anthropic", "google"]


class Item(BaseModel):
    """One item."""

    kind: Literal["a", "b"]
    title: Annotated[str, Field(min_length=1, pattern=r"\S")]


class Output(BaseModel):
    score: Annotated[int, Field(ge=0, le=5, description="The score")]
    note: Annotated[str, Field(max_length=80, pattern="^[a-z]*$")] = ""
    items: Annotated[list[Item], Field(min_length=3)]


SCHEMA = Output.model_json_schema()
ITEM = {
    "description": "One item.",
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"], "type": "string"}, "title": {"type": "string"}},
    "required": ["kind", "title"],
    "additionalProperties": False,
}


def properties(api):
    return schema_for(api, SCHEMA)["properties"]


@pytest.mark.parametrize("api", APIS)
def test_objects_are_closed_and_every_property_is_required_in_its_order(api):
    schema = schema_for(api, SCHEMA)
    assert schema["required"] == list(schema["properties"]) == ["score", "note", "items"]
    assert schema["additionalProperties"] is False
    assert "$defs" not in schema
    assert schema.get("propertyOrdering") == (["score", "note", "items"] if api == "google" else None)


def test_a_referred_schema_is_put_in_place():
    assert properties("openai")["items"] == {"type": "array", "items": ITEM, "minItems": 3}


def test_what_anthropic_does_not_know_is_told_in_words():
    assert properties("anthropic") == {
        "score": {"type": "integer", "description": "The score (maximum 5, minimum 0)"},
        "note": {"type": "string", "description": "(maxLength 80)"},
        "items": {"type": "array", "items": ITEM, "description": "(minItems 3)"},
    }


def test_openai_keeps_numbers_and_patterns_and_not_lengths():
    assert properties("openai")["score"] == {"type": "integer", "description": "The score", "maximum": 5, "minimum": 0}
    assert properties("openai")["note"] == {"type": "string", "pattern": "^[a-z]*$", "description": "(maxLength 80)"}


def test_a_server_of_ones_own_keeps_lengths():
    assert properties("openai-chat")["note"] == {"type": "string", "maxLength": 80, "pattern": "^[a-z]*$"}


@pytest.mark.parametrize("api", APIS)
def test_a_pattern_for_a_part_of_the_text_is_sent_to_nobody(api):
    title = properties(api)["items"]["items"]["properties"]["title"]
    assert "pattern" not in title


def test_a_schema_that_refers_to_itself_keeps_its_definition():
    tree = {
        "$defs": {
            "Tree": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}}
        },
        "$ref": "#/$defs/Tree",
    }
    schema = schema_for("openai", tree)
    assert schema["$defs"]["Tree"]["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["additionalProperties"] is False


def test_unions_and_constants_in_the_words_of_the_vendor():
    schema = {"type": "object", "properties": {"x": {"oneOf": [{"const": 1}, {"const": 2}], "default": 1}}}
    assert schema_for("google", schema)["properties"]["x"] == {"anyOf": [{"enum": [1]}, {"enum": [2]}]}
    assert schema_for("openai", schema)["properties"]["x"] == {"anyOf": [{"const": 1}, {"const": 2}]}


def test_the_given_schema_is_left_as_it_was():
    before = Output.model_json_schema()
    schema_for("openai", SCHEMA)
    assert before == SCHEMA

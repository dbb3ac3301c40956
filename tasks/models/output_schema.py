"""A JSON schema in the part of the language that each vendor's structured output accepts.

    keyword                          openai     openai-chat   anthropic   google
    additionalProperties: false      required   set           required    set
    every property required          required   set           set         set
    minimum, maximum                 kept       kept          described   kept
    minItems, maxItems               kept       kept          described   kept    (anthropic keeps minItems 0 and 1)
    minLength, maxLength, pattern    described  kept          described   described
    $ref                             put in place, for no vendor takes one that has a neighbour
    oneOf                            anyOf everywhere
    const                            enum at google
    title, default                   left out everywhere

A keyword that is "described" is told to the model in the description and enforced when its text is parsed. A
pattern without anchors is always left out: engines that generate by pattern take it for the whole string.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

_SHAPE = {"type", "enum", "const", "items", "prefixItems", "anyOf", "allOf", "description", "$ref", "format"}
_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_LENGTHS = {"minLength", "maxLength", "pattern"}
_ITEMS = {"minItems", "maxItems"}

_KEPT: dict[str, set[str]] = {
    "openai": _SHAPE | _NUMBERS | _ITEMS | {"pattern"},
    "openai-chat": _SHAPE | _NUMBERS | _ITEMS | _LENGTHS,
    "anthropic": _SHAPE,
    "google": _SHAPE - {"const"} | {"minimum", "maximum"} | _ITEMS,
}
_DESCRIBED = _NUMBERS | _ITEMS | _LENGTHS

Schema = dict[str, Any]


def schema_for(api: str, schema: Mapping[str, Any]) -> Schema:
    """The schema as the api takes it. The result is shared between calls: do not change it."""
    return _adapted(api, orjson.dumps(schema))


@lru_cache(maxsize=64)
def _adapted(api: str, encoded: bytes) -> Schema:
    schema: Schema = orjson.loads(encoded)
    definitions = schema.get("$defs", {})
    adapted = _adapt(api, schema, definitions, ())
    if "$ref" in orjson.dumps(adapted).decode():  # what refers to itself cannot be put in place
        adapted["$defs"] = {name: _adapt(api, part, definitions, (name,)) for name, part in definitions.items()}
    return adapted


def _adapt(api: str, schema: Schema, definitions: Mapping[str, Schema], inside: tuple[str, ...]) -> Schema:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in inside:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _adapt(api, {**definitions[name], **beside}, definitions, (*inside, name))
    if name in inside:
        return {"$ref": schema["$ref"]}
    if len(only := schema.get("allOf", ())) == 1:
        schema = {**only[0], **{key: value for key, value in schema.items() if key != "allOf"}}
        return _adapt(api, schema, definitions, inside)

    def within(part: Any) -> Any:
        return _adapt(api, part, definitions, inside) if isinstance(part, dict) else part

    if "oneOf" in schema:
        schema = {**schema, "anyOf": schema["oneOf"]}
    if api == "google" and "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    adapted: Schema = {}
    told = []
    for key, value in schema.items():
        if _keeps(api, key, value):
            nested = key in ("items", "prefixItems", "anyOf", "allOf")
            adapted[key] = [within(part) for part in value] if nested and isinstance(value, list) else within(value)
        elif key in _DESCRIBED and (key, value) != ("minLength", 1) and key != "pattern":
            told.append(f"{key} {value}")
    if told:
        adapted["description"] = f"{adapted.get('description', '')} ({', '.join(told)})".strip()
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        adapted["properties"] = {key: within(part) for key, part in properties.items()}
        adapted["required"] = list(properties)
        adapted["additionalProperties"] = False
        if api == "google":
            adapted["propertyOrdering"] = list(properties)
    return adapted


def _keeps(api: str, key: str, value: Any) -> bool:
    if key == "minItems" and api == "anthropic":
        return value in (0, 1)
    if key == "pattern" and not (value.startswith("^") and value.endswith("$")):
        return False
    return key in _KEPT[api]

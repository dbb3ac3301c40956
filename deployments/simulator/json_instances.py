"""A small, deterministic instance of any JSON schema, and values put into the key order of a schema."""

from collections.abc import Mapping
from typing import Any

from deployments.simulator.dice import Dice

_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "iris", "jetty")
_DEEP = 8
_FORMATS = {
    "date": "2026-03-14",
    "date-time": "2026-03-14T09:26:53Z",
    "time": "09:26:53Z",
    "email": "reader@example.org",
    "uri": "https://example.org/",
    "uuid": "8c7f2f1e-4b5a-4d3c-9e2b-1a0f6d5c4b3a",
    "ipv4": "192.0.2.1",
}


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that ``$ref`` chains within ``root`` lead to; an empty one (anything goes) where they lead nowhere."""
    for _ in range(16):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root
        for part in reference.removeprefix("#").strip("/").split("/"):
            schema = schema.get(part, {}) if part and isinstance(schema, dict) else schema
    return {}


def instance(schema: Any, root: Mapping[str, Any], dice: Dice, depth: int = 0) -> Any:
    """A value that satisfies the schema, as small as its bounds allow; of ``enum`` and ``anyOf`` the dice pick one.

    ``pattern``, ``allOf`` with conflicts and ``not`` are not heeded. Deep recursion takes the way out that there is.
    """
    node = resolve(schema, root)
    if "const" in node:
        return node["const"]
    if node.get("enum"):
        return dice.pick(node["enum"])
    for key in ("anyOf", "oneOf"):
        if node.get(key):
            options = [option for option in node[key] if _ends(option, root)] if depth >= 3 else node[key]
            return instance(dice.pick(options or node[key]), root, dice, depth + 1)
    if node.get("allOf"):
        merged: dict[str, Any] = {key: value for key, value in node.items() if key != "allOf"}
        for part in node["allOf"]:
            for key, value in resolve(part, root).items():
                old = merged.get(key)
                if isinstance(old, Mapping) and isinstance(value, Mapping):
                    merged[key] = {**old, **value}
                elif isinstance(old, list) and isinstance(value, list):
                    merged[key] = [*old, *value]
                else:
                    merged[key] = value
        return instance(merged, root, dice, depth)
    kind = node.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if kind == "object" or (kind is None and "properties" in node):
        required = node.get("required", [])
        properties = node.get("properties", {})
        names = [name for name in properties if name in required or depth < 3]
        if depth > _DEEP:
            return {}
        return {name: instance(properties[name], root, dice, depth + 1) for name in names}
    if kind == "array":
        return _array(node, root, dice, depth)
    if kind in ("integer", "number"):
        return _number(node, kind, dice)
    if kind == "boolean":
        return dice.chance(0.5)
    if kind == "null":
        return None
    return _string(node, dice)


def _ends(schema: Any, root: Mapping[str, Any]) -> bool:
    return resolve(schema, root).get("type") not in ("object", "array") and "$ref" not in schema


def _array(node: Mapping[str, Any], root: Mapping[str, Any], dice: Dice, depth: int) -> list[Any]:
    least = int(node.get("minItems", 0))
    wanted = least if depth >= 3 or node.get("maxItems") == 0 else max(least, 1)
    values: list[Any] = []
    for _ in range(wanted * 8):
        if len(values) == wanted:
            break
        value = instance(node.get("items", {"type": "string"}), root, dice, depth + 1)
        if not node.get("uniqueItems") or value not in values:
            values.append(value)
    return values


def _number(node: Mapping[str, Any], kind: str, dice: Dice) -> Any:
    unit = node.get("multipleOf", 1)
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum", node.get("exclusiveMaximum"))
    if low is None:
        low = high - 5 * unit if high is not None else 0
    first = -(-low // unit)
    if first * unit == node.get("exclusiveMinimum"):
        first += 1
    last = high // unit if high is not None else first + 5
    if last * unit == node.get("exclusiveMaximum"):
        last -= 1
    if last < first:
        return low if high is None else (low + high) / 2
    value = (first + dice.below(int(last - first) + 1)) * unit
    return int(value) if kind == "integer" else value


def _string(node: Mapping[str, Any], dice: Dice) -> str:
    if node.get("format") in _FORMATS:
        return _FORMATS[node["format"]]
    text = f"{dice.pick(_WORDS)} {dice.pick(_WORDS)}"
    while len(text) < node.get("minLength", 1):
        text += f" {dice.pick(_WORDS)}"
    return text[: node["maxLength"]] if "maxLength" in node else text


def in_order(values: Any, schema: Any, root: Mapping[str, Any], dice: Dice) -> Any:
    """The values in the schema's shape: its keys in its order, where a value is missing an instance, no others."""
    node = resolve(schema, root)
    if isinstance(values, dict) and "properties" in node:
        return {
            name: in_order(values[name], part, root, dice) if name in values else instance(part, root, dice, 1)
            for name, part in node["properties"].items()
        }
    if isinstance(values, list) and "items" in node:
        return [in_order(value, node["items"], root, dice) for value in values]
    return values

"""What a simulated model answers: which of the pipeline's prompts is before it, and the value or text it gives.

    kind        recognized by
    rubric      a JSON schema with the property ``items`` (a list of objects with a ``dimension``)
    trajectory  a JSON schema with the property ``score`` or ``refined_answer``
    verify      a JSON schema with the properties ``first_score`` and ``second_score``
    other       any other JSON schema: a small instance of it
    coverage    no schema, and "answer of quality N out of 5" outside the fenced data
    answer      anything else: a generator at its question

Questions, answers and rubric items are read from between their fence lines; without a fenced question the last
user turn is the question.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployments.simulator.dice import Dice, share
from deployments.simulator.exchange import Ask
from deployments.simulator.json_instances import in_order, instance, resolve
from deployments.simulator.knobs import Knobs
from deployments.simulator.solver import coverage_answer, generator_answer
from deployments.simulator.teacher import rubric, trajectory
from deployments.simulator.verifier import verification

_FENCED = re.compile(r'^<(\w+) fence="([0-9a-f]+)">\n(.*?)\n</\1 fence="\2">$', re.DOTALL | re.MULTILINE)
_TARGET = re.compile(r"answer of quality (\d) out of 5")
_LEAST = re.compile(r"at least (\d{1,2}) items")
_LEVEL = re.compile(r"^level (\d): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Saying:
    """What the model means to say: a JSON ``value`` where a schema asks for one, else ``text``."""

    kind: str
    value: Any = None
    text: str = ""


def say(ask: Ask, call: str, knobs: Knobs) -> Saying:
    """The model's answer: a function of the request's texts and schema, its model, the call's id and the knobs."""
    said = "\n\n".join([text for role, text in ask.turns if role == "user"])
    fenced: dict[str, str] = {}
    for kind, _, text in _FENCED.findall(said):
        fenced.setdefault(kind, text)
    question = fenced.get("question")
    if question is None:
        question = next((text for role, text in reversed(ask.turns) if role == "user"), "")
    if ask.schema is None:
        target = _TARGET.search(_FENCED.sub("", said))
        if target is None:
            return Saying("answer", text=generator_answer(question, ask.model, knobs.seed, call))
        level = _level_reached(min(int(target[1]), 5), ask.model, call, knobs)
        return Saying("coverage", text=coverage_answer(question, level, knobs.seed, ask.model, call))
    dice = Dice("json", knobs.seed, ask.model, call)
    answer = fenced.get("answer", "")
    properties = resolve(ask.schema, ask.schema).get("properties", {})
    if _is_rubric(properties, ask.schema):
        least = _LEAST.search(ask.system) or _LEAST.search(said)
        seed = (knobs.seed, ask.model) if answer else (knobs.seed, ask.model, call)  # of a question alone each differs
        items = rubric(question, answer, min(int(least[1]), 20) if least else 3, *seed)
        named = fenced.get("dimension")  # the name that one of the items must have
        if named and named.lower() not in {item["dimension"].lower() for item in items}:
            items[0] = {**items[0], "dimension": named}
        return Saying("rubric", in_order({"items": items}, ask.schema, ask.schema, dice))
    if {"first_score", "second_score"} <= properties.keys():
        family, dimension, _ = _read_item(fenced.get("rubric_item", ""))
        answers = fenced.get("first_answer", ""), fenced.get("second_answer", "")
        values = verification(question, answers, family, dimension, model=ask.model, knobs=knobs, call=call)
        return Saying("verify", in_order(values, ask.schema, ask.schema, dice))
    if {"score", "refined_answer"} & properties.keys():
        family, dimension, levels = _read_item(fenced.get("rubric_item", ""))
        values = trajectory(question, answer, family, dimension, levels, model=ask.model, knobs=knobs, call=call)
        return Saying("trajectory", in_order(values, ask.schema, ask.schema, dice))
    return Saying("other", instance(ask.schema, ask.schema, dice))


def _is_rubric(properties: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    items = resolve(properties.get("items"), root)
    return "dimension" in resolve(items.get("items"), root).get("properties", {})


def _level_reached(target: int, model: str, call: str, knobs: Knobs) -> int:
    """The level asked for, or by ``coverage_miss`` one beside it."""
    if share("coverage_miss", knobs.seed, model, call) >= knobs.coverage_miss:
        return target
    up = target == 0 or (target < 5 and share("miss_direction", knobs.seed, model, call) < 0.5)
    return target + 1 if up else target - 1


def _read_item(text: str) -> tuple[str, str, list[str]]:
    """Family, dimension and levels of a fenced rubric item; empty where they are not given."""
    family = re.search(r"^family: (.*)$", text, re.MULTILINE)
    dimension = re.search(r"^dimension: (.*)$", text, re.MULTILINE)
    levels = [level for _, level in sorted(_LEVEL.findall(text))]
    return family[1] if family else "", dimension[1] if dimension else "", levels

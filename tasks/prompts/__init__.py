"""Prompt templates, one text file for each kind of call; a template's hash is part of the call's id.

A file holds the system text, a line ``=== user ===``, and the user text. ``{{name}}`` marks are filled in one
pass, so that text which is put in is never searched for marks; what stands between ``{{#name}}`` and ``{{/name}}``
is left out where the name has no value. Questions, answers and rubric items are data:
they stand between fence lines whose mark is a hash of the data, which text written beforehand cannot contain.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from storage.ids import content_id
from tasks.models import Message

_MARK = re.compile(r"\{\{(\w+)\}\}")
_SECTION = re.compile(r"\{\{#(\w+)\}\}(.*?)\{\{/\1\}\}", re.DOTALL)


@dataclass(frozen=True)
class Prompt:
    name: str
    system: str
    user: str
    id: str

    def render(self, **values: str | None) -> tuple[Message, ...]:
        """System and user message. A mark without a value raises ``KeyError``."""

        def fill(template: str) -> str:
            shown = _SECTION.sub(lambda section: "" if values.get(section[1]) is None else section[2], template)
            return _MARK.sub(lambda mark: values[mark[1]] or "", shown)

        return Message("system", fill(self.system)), Message("user", fill(self.user))


@cache
def load_prompt(name: str) -> Prompt:
    """The template ``tasks/prompts/<name>.md``."""
    template = (files(__name__) / f"{name}.md").read_text(encoding="utf-8")
    system, user = template.split("\n=== user ===\n")
    return Prompt(name, system.strip(), user.strip(), content_id(template))


def fenced(kind: str, text: str) -> str:
    """``text`` between fence lines: ``<question fence="3f9ac21b">`` ... ``</question fence="3f9ac21b">``."""
    mark = content_id(kind, text)[:8]
    return f'<{kind} fence="{mark}">\n{text}\n</{kind} fence="{mark}">'


def fenced_item(family: str | None, dimension: str, levels: Sequence[str | None]) -> str:
    """One rubric item as fenced text: family, dimension, and a line for each level that it has, counted from 0."""
    lines = [f"family: {family}"] if family is not None else []
    lines += [f"dimension: {dimension}"]
    lines += [f"level {level}: {text}" for level, text in enumerate(levels) if text is not None]
    return fenced("rubric_item", "\n".join(lines))

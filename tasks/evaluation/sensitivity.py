"""How far rubrics follow the answer (CriticGen, appendix C): the lexical shift of their dimension names.

    D = 1 - |W_a and W_a'| / |W_a or W_a'|     W_a: the word types in the dimension names of R(q, a)

Only names are compared: the levels' long texts would differ in wording alone. Its control is two question-only
rubrics, written independently for one question ("Q-only x2"): their D is the noise of writing a rubric twice.
"""

import re
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import polars as pl

_WORD = re.compile(r"[^\W_]+")


def word_types(names: Iterable[str]) -> frozenset[str]:
    """The different alphanumeric words of some dimension names, in lower case."""
    return frozenset(word for name in names for word in _WORD.findall(name.lower()))


def shift(first: frozenset[str], second: frozenset[str]) -> float:
    """D of two sets of word types; 0 when both are empty."""
    return 1 - len(first & second) / len(first | second) if first | second else 0.0


def answer_sensitivity(items: pl.DataFrame, rubric: str = "answer_id") -> dict[str, Any]:
    """D over all pairs of rubrics of one question, averaged within each question and then over the questions.

    ``items`` has question_id, dimension and the column ``rubric``, which tells a question's rubrics apart: answer_id,
    or for the control whatever numbers its two question-only rubrics. ``mean`` is null, with a note, where no
    question has two rubrics; ``questions`` counts those that have, ``single`` those that do not.
    """
    rubrics = items.group_by("question_id", rubric, maintain_order=True).agg("dimension")
    means, single = [], 0
    for (_,), group in rubrics.group_by("question_id", maintain_order=True):
        types = [word_types(names) for names in group["dimension"]]
        shifts = [shift(*pair) for pair in combinations(types, 2)]
        if shifts:
            means.append(sum(shifts) / len(shifts))
        else:
            single += 1
    mean = sum(means) / len(means) if means else None
    return {
        "mean": mean,
        "note": None if means else "no question has two rubrics",
        "questions": len(means),
        "single": single,
    }

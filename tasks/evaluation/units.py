r"""Semantic units of a text, and how well one text's units match another's (CriticGen, equations 6 and 7).

A unit is a sentence; a list item or a line of its own is one too. sentencex finds the ends of sentences: rules for
abbreviations in some 300 languages, compiled, and kept up by the Wikimedia Foundation; of those tried the only one
that parts Chinese and list items and needs no more than 5 ms for 1,000 sentences. What it does not know is covered
before it looks: mathematics (``$x = 3.\ y = 2.$`` is never parted), the "Eq. (3)" of a reference, and the number of
a list item.

For the units g_k of the reference and x_j of the generated text, with Sim the cosine of sentence embeddings,

    R = mean_k max_j Sim(g_k, x_j)     P = mean_j max_k Sim(g_k, x_j)     F = 2PR / (P + R)

and each is averaged over the pairs of texts (macro). A text without a unit (empty, or only whitespace) matches
another such text, P = R = F = 1, and nothing else, P = R = F = 0. F is 0 where P or R is not above 0: cosines can be
negative.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.latex import MATHS

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]  # texts to rows of length 1

PAIRS_AT_ONCE = 2_000
_NO_END = re.compile(
    r"\A\s*\(?\w{1,3}[.)](?=\s)|\b(?:Eqs?|Figs?|Secs?|Thms?|Lem|Def|Prop|Cor|Ineq|No|pp?)\.(?=\s?[(\d])"
)
_WORDLESS = re.compile(r"[\W_]*\Z")


class Alignment(NamedTuple):
    """Of each pair of texts: precision, recall and F1."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]


def units_of(text: str) -> list[str]:
    """The units of a text, in order, without the whitespace around them; none of an empty one.

    What has no letter and no digit ("---", a lone bullet) belongs to the unit before it, or is none.
    """
    import sentencex

    units: list[str] = []
    for line in _lines(text):
        covered = _NO_END.sub(_cover, MATHS.sub(_cover, line))
        start = 0
        for sentence in sentencex.segment("en", covered):
            end = start + len(sentence)
            unit = line[start:end].strip()
            if _WORDLESS.match(unit) is None:
                units.append(unit)
            elif unit and units:
                units[-1] = f"{units[-1]} {unit}"
            start = end
    return units


def align(generated: Sequence[str], reference: Sequence[str], embed: Embed) -> Alignment:
    """Precision, recall and F1 of each pair. Each different unit of some thousand pairs is embedded once."""
    figures = np.empty((3, len(generated)))
    pairs = list(zip(generated, reference, strict=True))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        parted = [(units_of(text), units_of(truth)) for text, truth in pairs[start : start + PAIRS_AT_ONCE]]
        places = {
            unit: place
            for place, unit in enumerate({unit: None for pair in parted for units in pair for unit in units})
        }
        vectors = embed(list(places)) if places else np.empty((0, 1), np.float32)
        for row, (units, truths) in enumerate(parted, start):
            rows = vectors[[places[unit] for unit in units]]
            figures[:, row] = match(rows, vectors[[places[unit] for unit in truths]])
    return Alignment(*figures)


def match(generated: Vectors, reference: Vectors) -> tuple[float, float, float]:
    """Precision, recall and F1 of two texts from their units' vectors, each a row of length 1."""
    if not len(generated) or not len(reference):
        both = float(len(generated) == len(reference))
        return both, both, both
    similarity = reference @ generated.T
    precision, recall = float(similarity.max(axis=0).mean()), float(similarity.max(axis=1).mean())
    f1 = 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0
    return precision, recall, f1


def _lines(text: str) -> Iterator[str]:
    """Lines, but for a newline inside mathematics."""
    start = 0
    inside = [found.span() for found in MATHS.finditer(text)]
    for newline in re.finditer(r"\r\n?|\n|\u2028|\u2029", text):
        if not any(begin <= newline.start() < end for begin, end in inside):
            yield text[start : newline.start()]
            start = newline.end()
    yield text[start:]


def _cover(found: re.Match[str]) -> str:
    """As many letters, so that places stay."""
    return "x" * len(found[0])

r"""Answers against gold answers, before and after refinement: whether the refined text still ends rightly.

The final answer of a text is what stands after its last ``####``; else in its last ``\boxed{}``; else after its last
"A:", "Answer:" or "answer is"; else its last number (a guess, and counted as one).

Two final answers are equal when they are the same text but for case, spaces and dollar signs; else, both being plain
numbers (thousands commas, a currency sign, a percent sign and a unit put aside), when the numbers are; else when
math-verify finds them equal: fractions, LaTeX, sets, intervals, up to its six significant digits.
"""

import re
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tasks.evaluation.refinement import share
from tasks.final_answer import last_boxed, split_at_hashes

MARKS = ("hashes", "boxed", "phrase", "last_number")
LONGEST = 400  # characters; no final answer is longer
SECONDS = 5

_PHRASE = re.compile(
    r"(?:^|\n)[ \t*]*(?:A|(?:the )?(?:final )?answer)[ \t*]*:[ \t*]*|\b(?:final )?answer is:?[ \t*]*", re.IGNORECASE
)
_NUMBER = re.compile(r"[-\u2212]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s*/\s*\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# One number, with a currency before it and a percent sign or a unit of one or two words after it.
_PLAIN = re.compile(
    r"[-\u2212]?\s*[$\u00a3\u20ac]?\s*([-\u2212]?(?:\d+(?:\.\d*)?|\.\d+)(?:/[1-9]\d*)?)\s*%?(?:\s*[A-Za-z]{2,}){0,2}\s*"
)


class FinalAnswer(NamedTuple):
    """The answer, and which of ``MARKS`` gave it; both None where a text has none."""

    text: str | None
    mark: str | None


def final_answer(text: str) -> FinalAnswer:
    """The final answer of a worked text."""
    if (parted := split_at_hashes(text)) is not None:
        return FinalAnswer(parted[1].split("\n")[0].strip(), "hashes")
    if (boxed := last_boxed(text)) is not None:
        return FinalAnswer(boxed, "boxed")
    for phrase in reversed(list(_PHRASE.finditer(text))):
        answer = text[phrase.end() :].split("\n")[0].strip().rstrip(".*").strip()
        if answer:
            return FinalAnswer(answer, "phrase")
    if numbers := _NUMBER.findall(text):
        return FinalAnswer(numbers[-1], "last_number")
    return FinalAnswer(None, None)


def equivalent(answer: str, gold: str) -> bool:
    """Whether two final answers are equal; the gold one may still have its ``\\boxed{}`` or dollar signs.

    What math-verify cannot read, or not within 5 s, is not equal. (Its clock needs the main thread; elsewhere it has
    none, and answers longer than 400 characters are compared as text alone.)
    """
    answer, gold = _stripped(answer), _stripped(gold)
    if answer.casefold() == gold.casefold():
        return True
    numbers = _plain(answer), _plain(gold)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] == numbers[1]
    if max(len(answer), len(gold)) > LONGEST or not (answer and gold):
        return False
    return _verified(answer, gold)


def gold_figures(gold: Sequence[str | None], before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """Accuracy of the texts before and after, and what changed, over the rows that have a gold answer.

    wrong_to_right and right_to_wrong are shares of all those rows; a text without a final answer is wrong. ``marks``
    counts by which mark the answers were found. Raises ``ValueError`` for columns of different lengths.
    """
    rows = [row for row in zip(gold, before, after, strict=True) if row[0] is not None and row[0].strip()]
    found = [(final_answer(first), final_answer(second)) for _, first, second in rows]
    golds = [_gold(str(text)) for text, _, _ in rows]
    right = [
        tuple(one.text is not None and equivalent(one.text, truth) for one in pair)
        for pair, truth in zip(found, golds, strict=True)
    ]
    total = len(rows)

    def part(count: int) -> dict[str, Any]:
        return share(count, total)._asdict()

    return {
        "n": total,
        "without_gold": len(gold) - total,
        "accuracy_before": part(sum(first for first, _ in right)),
        "accuracy_after": part(sum(second for _, second in right)),
        "wrong_to_right": part(sum(second and not first for first, second in right)),
        "right_to_wrong": part(sum(first and not second for first, second in right)),
        "marks": {
            when: {mark or "none": sum(pair[place].mark == mark for pair in found) for mark in (*MARKS, None)}
            for place, when in enumerate(("before", "after"))
        },
    }


def _gold(text: str) -> str:
    """A reference answer may be a whole solution."""
    found = final_answer(text)
    return found.text if found.text is not None and found.mark in ("hashes", "boxed", "phrase") else text


def _stripped(answer: str) -> str:
    answer = (last_boxed(answer) or answer).strip().strip("$").strip().rstrip(".").strip()
    for wrapped in (r"\(", r"\)", r"\[", r"\]", r"\!", r"\,", r"\%", r"\$"):
        answer = answer.replace(wrapped, wrapped[1] if wrapped in (r"\%", r"\$") else "")
    return " ".join(_THOUSANDS.sub("", answer).split())


def _plain(answer: str) -> Fraction | None:
    found = _PLAIN.fullmatch(answer)
    if found is None:
        return None
    number = Fraction(found[1].replace("\u2212", "-"))
    return -number if answer[0] in "-\u2212" and number > 0 and found.start(1) > 0 else number


def _verified(answer: str, gold: str) -> bool:
    from math_verify import parse, verify

    seconds = SECONDS if threading.current_thread() is threading.main_thread() else None
    parsed = [
        parse(f"${text}$", parsing_timeout=seconds) or parse(text, parsing_timeout=seconds) for text in (gold, answer)
    ]
    return bool(all(parsed) and verify(parsed[0], parsed[1], timeout_seconds=seconds))

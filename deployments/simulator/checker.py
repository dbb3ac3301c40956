"""What is wrong with an answer, from its text and the question's alone, and the true scores that follow.

Each family starts at 5 and loses the cost of its flaws, down to 0:

    family        flaw                   cost  what it is
    objective     false_equation         1     the equation does not hold
                  wrong_operation        1     the right working has another operation in this step
                  wrong_number           1     the right working has another number in this step
                  missing_step           1     each step of the right working that has no equation, or one too many
                  wrong_claim            1     the words state a number that neither question nor working has
                  wrong_result           1     the last figure is not the right working's
                  nothing_to_check       5     no equation at all
    self_derived  broken_chain           1     the step does not use the result before it
                  wrong_reference        1     the words cite an earlier step with another result than it had
                  contradiction          2     the final answer is not the last step's result
                  no_conclusion          2     there is no final answer
                  no_reasoning           5     no equation at all
    subjective    no_explanation         1     a step that is a bare equation
                  unnumbered             1     steps without numbers (once for the answer)
                  filler                 1     a sentence that says nothing
                  garbled                1     a word said twice in a row
                  no_working             3     no equation at all
                  empty                  5     no text at all
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from deployments.simulator.wording import FILLERS
from deployments.simulator.working import Number, Working, exact, right_working, work_out

FAMILIES = ("subjective", "objective", "self_derived")

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
NUMBERING = re.compile(r"\s*(?:step\s*)?(\d{1,2})\s*[.):]\s", re.IGNORECASE)
_SIGN = r"[-+*/x\u00d7\u00f7\u2212]"
EQUATION = re.compile(rf"(-?\$?{_NUMBER}%?(?:\s*{_SIGN}\s*\$?{_NUMBER}%?)+)\s*=\s*(-?\$?{_NUMBER})")
_TERM = re.compile(rf"({_SIGN}?)\s*\$?({_NUMBER})")
REFERENCE = re.compile(rf"\bstep (\d+)(?:'s| gave| left| came to| ended at) (-?{_NUMBER})")
FINAL = re.compile(rf"^(?:\s*final answer\s*:|####)\s*(?:.*?(-?{_NUMBER})|.*)", re.IGNORECASE | re.MULTILINE)
GARBLED = re.compile(r"\b([^\W\d_]{2,}) \1\b", re.IGNORECASE)
FILLER = re.compile("|".join(map(re.escape, FILLERS)))
_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_ANY_NUMBER = re.compile(rf"(?<![\w.])-?{_NUMBER}")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_OPS = {"x": "*", "\u00d7": "*", "\u00f7": "/", "\u2212": "-"}


@dataclass(frozen=True)
class WrittenStep:
    """One equation of an answer and the words around it in its line."""

    line: int
    numbered: bool
    left: Number
    op: str
    right: Number
    holds: bool
    result: Number
    references: tuple[tuple[int, Number], ...]
    claims: tuple[Number, ...]
    words: int


@dataclass(frozen=True)
class Reading:
    """An answer as the checker reads it. ``final`` is None where no final line has a number."""

    lines: tuple[str, ...]
    steps: tuple[WrittenStep, ...]
    final: Number | None
    final_line: int | None


@dataclass(frozen=True)
class Flaw:
    """``step`` counts from 0 and ``line`` too; both None where the flaw is of the whole answer."""

    family: str
    kind: str
    cost: int
    step: int | None = None
    line: int | None = None


def true_scores(question: str, answer: str) -> dict[str, int]:
    """The true score 0 to 5 of each family, for any text whatever. See the table at the top of this file."""
    scores = dict.fromkeys(FAMILIES, 5)
    for flaw in flaws(question, answer):
        scores[flaw.family] = max(0, scores[flaw.family] - flaw.cost)
    return scores


def true_quality(question: str, answer: str) -> int:
    """The mean of the three family scores, rounded half up."""
    return (2 * sum(true_scores(question, answer).values()) + 3) // 6


def flaws(question: str, answer: str) -> tuple[Flaw, ...]:
    """All flaws, in the order of the families and then of the text."""
    return _flaws(question, answer)


@lru_cache(maxsize=8192)
def _flaws(question: str, answer: str) -> tuple[Flaw, ...]:
    reading = read_answer(answer)
    working = right_working(question)
    return (
        *_subjective(answer, reading),
        *_objective(reading, working),
        *_self_derived(reading),
    )


@lru_cache(maxsize=8192)
def read_answer(answer: str) -> Reading:
    """The steps and the conclusion; never raises."""
    lines = tuple(answer.split("\n"))
    steps: list[WrittenStep] = []
    final: Number | None = None
    final_line: int | None = None
    for place, line in enumerate(lines):
        if "<<" in line:
            line = _ANNOTATION.sub("", line)
        if "=" in line:
            steps += _steps_of(line, place)
        found = FINAL.match(line)
        if found:
            final, final_line = _number(found[1]) if found[1] else None, place
    return Reading(lines, tuple(steps), final, final_line)


def _steps_of(line: str, place: int) -> list[WrittenStep]:
    numbering = NUMBERING.match(line)
    body = line[numbering.end() :] if numbering else line
    equations = list(EQUATION.finditer(body))
    if not equations:
        return []
    words = EQUATION.sub(" ", body)
    references = tuple((int(step), _number(value)) for step, value in REFERENCE.findall(words) if len(step) < 4)
    words = REFERENCE.sub(" ", words)
    claims = tuple(_number(value) for value in _ANY_NUMBER.findall(words))
    count = len(_LETTERS.findall(words))
    found: list[WrittenStep] = []
    for equation in equations:
        value, left, op, right = _evaluate(equation[1])
        result = _number(equation[2])
        holds = abs(value - result) <= 0.0051
        found.append(WrittenStep(place, bool(numbering), left, op, right, holds, result, references, claims, count))
        references, claims = (), ()
    return found


def _number(text: str) -> Number:
    plain = text.replace(",", "").replace("$", "")
    return exact(float(plain[:18])) if "." in plain or len(plain) > 15 else int(plain)


def _evaluate(expression: str) -> tuple[Number, Number, str, Number]:
    """Value of a chain of operations (products first), its first number, its last operation and last number."""
    sign = -1 if expression.startswith("-") else 1
    terms = [(_OPS.get(op, op), _number(value)) for op, value in _TERM.findall(expression.removeprefix("-"))]
    left = sign * terms[0][1]
    if len(terms) == 2:
        op, right = terms[1]
        return work_out(left, op, right), left, op, right
    total: Number = 0
    product: Number = left
    for op, value in terms[1:]:
        if op in "*/":
            product = work_out(product, op, value)
        else:
            total += product
            product = value if op == "+" else -value
    return exact(total + product), left, terms[-1][0], terms[-1][1]


def _subjective(answer: str, reading: Reading) -> list[Flaw]:
    if not answer.strip():
        return [Flaw("subjective", "empty", 5)]
    found: list[Flaw] = []
    for number, step in enumerate(reading.steps):
        if step.words < 3:
            found.append(Flaw("subjective", "no_explanation", 1, number, step.line))
    if not reading.steps:
        found.append(Flaw("subjective", "no_working", 3))
    elif not all(step.numbered for step in reading.steps):
        found.append(Flaw("subjective", "unnumbered", 1))
    at_line = {step.line: number for number, step in enumerate(reading.steps)}
    for place, line in enumerate(reading.lines):
        found += [Flaw("subjective", "filler", 1, at_line.get(place), place)] * len(FILLER.findall(line))
        found += [Flaw("subjective", "garbled", 1, at_line.get(place), place)] * len(GARBLED.findall(line))
    return found


def _objective(reading: Reading, working: Working) -> list[Flaw]:
    if not reading.steps:
        return [Flaw("objective", "nothing_to_check", 5)]
    found: list[Flaw] = []
    known: set[Number] = {quantity.value for quantity in working.quantities}
    for step in reading.steps:
        known.update((step.left, step.right, step.result))
    for number, step in enumerate(reading.steps):
        right = working.steps[number] if number < len(working.steps) else None
        if not step.holds:
            found.append(Flaw("objective", "false_equation", 1, number, step.line))
        if right is None:
            found.append(Flaw("objective", "missing_step", 1, number, step.line))
        else:
            if step.op != right.op:
                found.append(Flaw("objective", "wrong_operation", 1, number, step.line))
            if step.right != right.right or (number == 0 and step.left != right.left):
                found.append(Flaw("objective", "wrong_number", 1, number, step.line))
        found += [Flaw("objective", "wrong_claim", 1, number, step.line) for claim in step.claims if claim not in known]
    found += [Flaw("objective", "missing_step", 1)] * (len(working.steps) - len(reading.steps))
    last = reading.steps[-1].result if reading.final is None else reading.final
    if last != working.result:
        found.append(Flaw("objective", "wrong_result", 1, None, reading.final_line))
    return found


def _self_derived(reading: Reading) -> list[Flaw]:
    if not reading.steps:
        return [Flaw("self_derived", "no_reasoning", 5)]
    found: list[Flaw] = []
    for number, step in enumerate(reading.steps):
        before = reading.steps[number - 1].result if number else None
        if before is not None and before not in (step.left, step.right):
            found.append(Flaw("self_derived", "broken_chain", 1, number, step.line))
        for cited, value in step.references:
            if not 0 < cited <= number or reading.steps[cited - 1].result != value:
                found.append(Flaw("self_derived", "wrong_reference", 1, number, step.line))
    if reading.final is None:
        found.append(Flaw("self_derived", "no_conclusion", 2))
    elif reading.final != reading.steps[-1].result:
        found.append(Flaw("self_derived", "contradiction", 2, None, reading.final_line))
    return found

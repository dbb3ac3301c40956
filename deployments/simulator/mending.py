"""An answer with one flaw put right, and what follows from it; the rest stays as it was."""

import re

from deployments.simulator.checker import (
    EQUATION,
    FILLER,
    FINAL,
    GARBLED,
    NUMBERING,
    REFERENCE,
    Flaw,
    Reading,
    read_answer,
    true_scores,
)
from deployments.simulator.dice import Dice
from deployments.simulator.solver import explain, fill, write_answer
from deployments.simulator.wording import CLOSINGS
from deployments.simulator.working import Number, figure, right_working, work_out

_ARITHMETIC = ("false_equation", "wrong_operation", "wrong_number", "broken_chain", "wrong_result")
_WORDS = ("wrong_claim", "no_explanation")


def mend(question: str, answer: str, flaw: Flaw, dice: Dice) -> str:
    """The answer without the flaw.

    Neither the flaw's family nor the sum of the families scores lower than before: where an edit would not do, as
    in a text that has no steps or several equations in a line, the answer is written anew from the right working.
    """
    before = true_scores(question, answer)
    edited = _edit(question, answer, flaw, dice)
    if edited is not None:
        after = true_scores(question, edited)
        if after[flaw.family] >= before[flaw.family] and sum(after.values()) >= sum(before.values()):
            return edited
    return write_answer(question, (), dice)


def polish(question: str, answer: str, dice: Dice) -> str:
    """The answer with a closing sentence before its last line: an edit that leaves every true score as it is."""
    sentence = fill(dice.pick([closing for closing in CLOSINGS if closing]), right_working(question), dice)
    lines = answer.split("\n")
    polished = "\n".join([*lines[:-1], sentence, lines[-1]])
    return polished if true_scores(question, polished) == true_scores(question, answer) else answer


def _edit(question: str, answer: str, flaw: Flaw, dice: Dice) -> str | None:
    reading = read_answer(answer)
    if not reading.steps or len({step.line for step in reading.steps}) < len(reading.steps):
        return None
    lines = list(reading.lines)
    if flaw.kind in _ARITHMETIC:
        return _recalculated(question, reading, flaw, dice)
    if flaw.kind in _WORDS and flaw.step is not None and flaw.line is not None:
        lines[flaw.line] = _explained(question, reading, flaw.step, dice)
    elif flaw.kind == "wrong_reference" and flaw.line is not None:
        lines[flaw.line] = _cite([step.result for step in reading.steps[: flaw.step]], lines[flaw.line])
    elif flaw.kind == "garbled" and flaw.line is not None:
        lines[flaw.line] = GARBLED.sub(r"\1", lines[flaw.line])
    elif flaw.kind == "filler" and flaw.line is not None:
        rest = FILLER.sub("", lines[flaw.line]).strip()
        lines[flaw.line : flaw.line + 1] = [rest] if rest else []
    elif flaw.kind == "unnumbered":
        for number, step in enumerate(reading.steps, start=1):
            lines[step.line] = f"{number}. {NUMBERING.sub('', lines[step.line], count=1)}"
    elif flaw.kind in ("contradiction", "no_conclusion"):
        return _concluded(lines, reading.final_line, reading.steps[-1].result)
    else:
        return None
    return "\n".join(lines)


def _recalculated(question: str, reading: Reading, flaw: Flaw, dice: Dice) -> str:
    """The flawed step put right, and every later figure worked out again. ``wrong_result`` mends all steps."""
    working = right_working(question)
    lines = list(reading.lines)
    fixed = range(len(reading.steps)) if flaw.step is None else range(flaw.step, flaw.step + 1)
    results: list[Number] = []
    for place, step in enumerate(reading.steps):
        if place < fixed.start:
            results.append(step.result)
            continue
        op, right = step.op, step.right
        left = results[-1] if results else step.left
        if place in fixed and place < len(working.steps) and flaw.kind != "broken_chain":
            op, right = working.steps[place].op, working.steps[place].right
            left = results[-1] if results else working.steps[0].left
        result = work_out(left, op, right)
        equation = f"{figure(left)} {op} {figure(right)} = {figure(result)}"
        line = EQUATION.sub(lambda _, equation=equation: equation, lines[step.line], count=1)  # type: ignore[misc]
        if (op, right) != (step.op, step.right) and step.words >= 3:
            line = _line(question, step.numbered, place, equation, results, dice)
        lines[step.line] = _cite(results, line)
        results.append(result)
    return _concluded(lines, reading.final_line, results[-1])


def _explained(question: str, reading: Reading, place: int, dice: Dice) -> str:
    step = reading.steps[place]
    found = EQUATION.search(reading.lines[step.line])
    results = [earlier.result for earlier in reading.steps[:place]]
    return _line(question, step.numbered, place, found[0] if found else "", results, dice)


def _line(question: str, numbered: bool, place: int, equation: str, results: list[Number], dice: Dice) -> str:
    working = right_working(question)
    noun = working.steps[min(place, len(working.steps) - 1)].noun
    op = equation.split(" ")[1] if equation.count(" ") == 4 else ""
    words = explain(place, noun, equation, results, working, dice) if op in ("+", "-", "*", "/") else ""
    return f"{f'{place + 1}. ' if numbered else ''}{words}{': ' if words else ''}{equation}"


def _cite(results: list[Number], line: str) -> str:
    """The line with what it cites of earlier steps put right."""

    def right(found: re.Match[str]) -> str:
        step = int(found[1])
        if not 0 < step <= len(results):
            return found[0]
        return f"{found[0][: found.start(2) - found.start(0)]}{figure(results[step - 1])}"

    return REFERENCE.sub(right, line)


def _concluded(lines: list[str], final_line: int | None, result: Number) -> str:
    conclusion = f"Final answer: {figure(result)}"
    if final_line is not None and FINAL.match(lines[final_line]):
        lines[final_line] = conclusion
        return "\n".join(lines)
    return "\n".join([*lines, conclusion])

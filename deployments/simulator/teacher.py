"""What the simulated teacher and judges write: rubrics for an answer, and trajectories for one rubric item.

A rubric has 3 to 8 items (five on average), every family among them, each about a step, quantity or claim of the very
answer. About one item in fifteen says the same as an earlier one under a name with "(second look)" and the like:
teachers repeat themselves, and the pipeline's near-duplicate filter has to find it.
"""

import re
from collections.abc import Sequence
from typing import Any

from deployments.simulator.checker import FAMILIES, Flaw, Reading, flaws, read_answer, true_scores
from deployments.simulator.critique_wording import EDIT_OF, EDITS, FINDINGS, OPENERS, TIES
from deployments.simulator.dice import Dice, digest, share
from deployments.simulator.knobs import Knobs
from deployments.simulator.mending import mend, polish
from deployments.simulator.rubric_wording import DIMENSIONS, LEVELS, TAILS
from deployments.simulator.working import Working, figure, right_working

_SIZES = (3,) * 15 + (4,) * 25 + (5,) * 25 + (6,) * 18 + (7,) * 10 + (8,) * 7
_AGAIN = (" (second look)", " (once more)", " (again)")
_OP_NAMES = {"+": "sum", "-": "difference", "*": "product", "/": "quotient"}
_STEP_IN_NAME = re.compile(r"\bstep (\d+)")


def rubric(question: str, answer: str, min_items: int, *seed: object) -> list[dict[str, str]]:
    """Items with ``family``, ``dimension`` and ``level_0`` to ``level_5``; at least ``min_items`` and three."""
    dice = Dice("rubric", question, answer, *seed)
    reading, working = read_answer(answer), right_working(question)
    size = max(dice.pick(_SIZES), min_items)
    families = dice.shuffled(FAMILIES) + [dice.pick(FAMILIES) for _ in range(size - 3)]
    items: list[dict[str, str]] = []
    names: set[str] = set()
    for position, family in enumerate(families):
        item = _item(question, family, reading, working, names, dice)
        if position >= 3 and dice.chance(0.16):
            twin = dice.pick(items)
            name = base_dimension(twin["dimension"]) + dice.pick(_AGAIN)
            item = item if name.lower() in names else {**twin, "dimension": name}
        names.add(item["dimension"].lower())
        items.append(item)
    return items


def _item(
    question: str, family: str, reading: Reading, working: Working, names: set[str], dice: Dice
) -> dict[str, str]:
    # The same names come up again for other answers to the question, as far as they have the same figures.
    forms = Dice("forms", question, family).shuffled(DIMENSIONS[family])[:6]
    for attempt in range(12):
        name, subject = forms[min(dice.below(len(forms)), dice.below(len(forms)))]
        marks = _marks(reading, working, dice)
        dimension = name.format(**marks)
        dimension = dimension[0].upper() + dimension[1:]
        if dimension.lower() not in names:
            break
        if attempt == 10:
            forms = [(f"{name}, part {len(names) + 1}", subject)]
    marks["s"] = subject.format(**marks)
    tails = dice.few(TAILS, 6)
    levels = {
        f"level_{level}": (dice.pick(LEVELS[family][level]) + tails[level]).format(**marks) + "." for level in range(6)
    }
    return {"family": family, "dimension": dimension, **levels}


def _marks(reading: Reading, working: Working, dice: Dice) -> dict[str, str]:
    """Steps and figures of the answer where it has them, else of the question's right working."""
    place = dice.below(len(reading.steps) or len(working.steps))
    planned = working.steps[min(place, len(working.steps) - 1)]
    step = reading.steps[place] if reading.steps else planned
    x, y = dice.few(working.quantities, 2)
    words = dice.few(working.words or ("figures", "amounts"), 2)
    final = reading.final if reading.final is not None else (step.result if reading.steps else None)
    return {
        "k": str(place + 1),
        "op": _OP_NAMES.get(step.op, "value"),
        "n": planned.noun,
        "r": figure(step.result),
        "e": f"{figure(step.left)} {step.op} {figure(step.right)}",
        "x": f"the {x.value} {x.noun}",
        "y": f"the {y.value} {y.noun}",
        "w": words[0],
        "v": words[-1],
        "f": figure(final) if final is not None else "as given",
    }


def base_dimension(dimension: str) -> str:
    """The name without the mark of a repeated item: what scores and reasons are decided by."""
    for again in _AGAIN:
        dimension = dimension.removesuffix(again)
    return dimension


def true_item_score(question: str, answer: str, family: str, dimension: str) -> int:
    """The answer's true score under one item: its family's, moved by the item's own strictness.

    A hash of the dimension's name moves it by -1 (one item in ten), +1 (one in ten) or not at all, within 0 to 5.
    A family that is none of the three counts as objective.
    """
    score = true_scores(question, answer).get(family)
    if score is None:
        score = true_scores(question, answer)["objective"]
    return min(5, max(0, score + (-1, *[0] * 8, 1)[digest("strictness", base_dimension(dimension)) % 10]))


def given_score(true: int, model: str, knobs: Knobs, call: str) -> int:
    """The score a model gives: the true one, shifted by a judge's bias, then one off by its noise."""
    judge = "judge" in model
    score = true
    if judge and share("bias", knobs.seed, model, call) < abs(knobs.judge_bias):
        score = min(5, max(0, score + (1 if knobs.judge_bias > 0 else -1)))
    noise = knobs.judge_noise if judge else knobs.teacher_noise
    if share("noise", knobs.seed, model, call) < noise:
        up = score == 0 or (score < 5 and share("direction", knobs.seed, model, call) < 0.5)
        score += 1 if up else -1
    return score


def trajectory(
    question: str,
    answer: str,
    family: str,
    dimension: str,
    levels: Sequence[str],
    *,
    model: str,
    knobs: Knobs,
    call: str,
) -> dict[str, Any]:
    """``score``, ``reason``, ``suggestion`` and ``refined_answer`` of one model under one item.

    The refined answer's true score is never lower: the flaw that the reason names is mended. With no flaw in the
    family the answer gets a closing sentence, and with a score of 5 it stays as it is.
    """
    name = base_dimension(dimension)
    dice = Dice("trajectory", model, question, answer, family, name)
    reading, working = read_answer(answer), right_working(question)
    score = given_score(true_item_score(question, answer, family, dimension), model, knobs, call)
    found = [flaw for flaw in flaws(question, answer) if flaw.family == family]
    flaw = _deciding_flaw(found, name, dice) if score < 5 else None
    if flaw is not None:
        refined, edit, kind = mend(question, answer, flaw, dice), EDIT_OF[flaw.kind], flaw.kind
    elif score < 5:
        refined, edit, kind = polish(question, answer, dice), "round_off", "slight"
    else:
        refined, edit, kind = answer, "keep", "none"
    line, place, fix = _place(reading, working, refined, name, flaw, dice)
    word = dice.pick(working.words or ("figures", "amounts"))
    level = levels[score] if score < len(levels) else ""
    marks = {
        "q": f'"{line}"',
        "p": place,
        "d": f'"{name}"',
        "w": word,
        "l": " ".join(level.split()[:8]).rstrip(",;."),
        "n": str(score),
        "fix": fix,
    }
    finding = dice.pick(FINDINGS[kind])
    tie = dice.pick(TIES) if level else "That makes {n}."
    reason = f"{dice.pick(OPENERS)}: {finding}. {tie}".format(**marks)
    suggestion = dice.pick(EDITS[edit]).format(**marks)
    return {"score": score, "reason": reason, "suggestion": suggestion, "refined_answer": refined}


def _deciding_flaw(found: list[Flaw], name: str, dice: Dice) -> Flaw | None:
    """A flaw of the step that the dimension names, if there is one; else any of the family."""
    if not found:
        return None
    named = _STEP_IN_NAME.search(name)
    at_step = [flaw for flaw in found if named and flaw.step is not None and flaw.step + 1 == int(named[1])]
    return dice.pick(at_step or found)


def _place(
    reading: Reading, working: Working, refined: str, name: str, flaw: Flaw | None, dice: Dice
) -> tuple[str, str, str]:
    """The deciding line, shortened; its name; and the equation or conclusion that stands there after the edit."""
    after = read_answer(refined)
    if flaw is None:
        named = _STEP_IN_NAME.search(name)
        step = dice.below(len(reading.steps)) if reading.steps else None
        if named and int(named[1]) <= len(reading.steps):
            step = int(named[1]) - 1
        number = reading.steps[step].line if step is not None else 0
    else:
        step = flaw.step
        number = flaw.line if flaw.line is not None else 0
    line = reading.lines[number] if number < len(reading.lines) else ""
    line = line if len(line) <= 140 else line[:137] + "..."
    if step is not None and step < len(after.steps):
        mended = after.steps[step]
        fix = f"{figure(mended.left)} {mended.op} {figure(mended.right)} = {figure(mended.result)}"
        return line, f"step {step + 1}", fix
    final = after.final if after.final is not None else working.result
    place = "the last line" if number == reading.final_line else f"line {number + 1}"
    return line, place, f"Final answer: {figure(final)}"

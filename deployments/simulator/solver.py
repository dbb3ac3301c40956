"""Answers: the right working of a question in many words, with slips of known severity planted in it.

    slip             family        what is written
    off_by_one       objective     a result that is one off, carried on from there
    wrong_operation  objective     another of + - * / in a step
    wrong_number     objective     a number of the question misread in a step
    wrong_claim      objective     the words of a step cite a number that the question has not
    broken_chain     self_derived  a step that starts from a figure older than the last result
    wrong_reference  self_derived  the words cite an earlier step's result wrongly
    contradiction    self_derived  the final answer is not the last step's result
    no_explanation   subjective    a bare equation
    filler           subjective    a sentence that says nothing
    garbled          subjective    a word twice in a row
    unnumbered       subjective    no step has its number

Every slip can be found by ``checker.flaws`` from the texts alone. Which slips an answer has is drawn by the model's
strength (``generator_answer``) or searched for, so that all families reach one level (``coverage_answer``).
"""

from collections.abc import Collection, Iterable

from deployments.simulator.checker import true_scores
from deployments.simulator.dice import Dice
from deployments.simulator.wording import (
    ACTIONS,
    CLAIMS,
    CLOSINGS,
    EVASIONS,
    FILLERS,
    INTROS,
    LEADS,
    NEXT_LEADS,
    REASONS,
    REFERENCES,
)
from deployments.simulator.working import Number, Step, Working, exact, figure, right_working, work_out

# A slip: its name and its step, from 0; a slip of the whole answer has step -1.
Slip = tuple[str, int]

EQUATION_SLIPS = ("off_by_one", "wrong_operation", "wrong_number")

# Mean number of slips of each kind in a step (or, for the last two, in an answer) of a model of strength 0.
_RATES = {
    "off_by_one": 0.16,
    "wrong_operation": 0.14,
    "wrong_number": 0.12,
    "wrong_claim": 0.12,
    "broken_chain": 0.12,
    "wrong_reference": 0.20,
    "no_explanation": 0.24,
    "filler": 0.22,
    "garbled": 0.14,
    "unnumbered": 0.40,
    "contradiction": 0.40,
}
_STRENGTHS = (("tiny", 0.25), ("small", 0.5), ("medium", 0.7), ("large", 0.9))
_MEDIUM = 0.7


def strength_of(model: str) -> float:
    """0 (a slip in nearly every step) to 1 (none), by the word in the name: tiny, small, medium, large."""
    return next((strength for word, strength in _STRENGTHS if word in model), _MEDIUM)


def generator_answer(question: str, model: str, *seed: object) -> str:
    """A generator's answer. One question in 25 is put by all models in the same words, as real ones sometimes do."""
    working = right_working(question)
    dice = Dice("slips", model, question, *seed)
    # A model has good and bad days: slips come together, so that answers of every level occur.
    weakness = (1 - strength_of(model)) * (0.3 + 1.4 * dice.below(1000) / 1000)
    slips: set[Slip] = set()
    for kind, rate in _RATES.items():
        places = [-1] if kind in ("unnumbered", "contradiction") else range(len(working.steps))
        slips.update((kind, place) for place in places if dice.chance(rate * weakness))
    stock = Dice("stock", question).chance(0.04)
    return write_answer(question, slips, Dice("words", question) if stock else dice)


def coverage_answer(question: str, level: int, *seed: object) -> str:
    """An answer whose three true family scores are all ``level``; the nearest found where 60 tries do not reach it."""
    dice = Dice("coverage", question, level, *seed)
    best, best_miss = "", 99
    for _ in range(60):
        if level == 0 and dice.chance(0.3):
            answer = _evasive_answer(question, dice)
        else:
            answer = write_answer(question, _slips_for(level, len(right_working(question).steps), dice), dice)
        miss = sum(abs(score - level) for score in true_scores(question, answer).values())
        if miss < best_miss:
            best, best_miss = answer, miss
        if best_miss == 0:
            break
    return best


def _slips_for(level: int, steps: int, dice: Dice) -> set[Slip]:
    """Slips that cost each family ``5 - level``, unless two happen to cancel out."""
    lost = 5 - level
    slips: set[Slip] = set()
    places = range(steps)
    later = range(1, steps)

    # self_derived: the contradiction costs two; it and a broken chain also make the result wrong.
    rest = lost
    if rest >= 2 and dice.chance(0.6):
        slips.add(("contradiction", -1))
        rest -= 2
    options = [("wrong_reference", place) for place in later]
    if lost > 1:
        options += [("broken_chain", place) for place in later]
    slips.update(dice.shuffled(options)[:rest])
    result_is_wrong = any(kind in ("contradiction", "broken_chain") for kind, _ in slips)

    # objective: a wrong equation makes the result wrong, which costs one more.
    rest = lost - result_is_wrong
    equations = dice.shuffled([(dice.pick(EQUATION_SLIPS), place) for place in places])
    claims = dice.shuffled([("wrong_claim", place) for place in places])
    if not result_is_wrong and (rest == 1 or (rest == 2 and dice.chance(0.2))):
        equations = []
    elif not result_is_wrong and rest:
        slips.add(equations.pop())
        rest -= 2
    while rest > 0 and (equations or claims):
        pool = equations if equations and (not claims or dice.chance(0.6)) else claims
        slips.add(pool.pop())
        rest -= 1

    # subjective: a bare equation has no room for words that cite something.
    wordy = {place for kind, place in slips if kind in ("wrong_claim", "wrong_reference")}
    forms = [("no_explanation", place) for place in places if place not in wordy]
    forms += [("filler", place) for place in places] + [("unnumbered", -1)]
    forms += [("garbled", place) for place in places]
    chosen: list[Slip] = []
    for kind, place in dice.shuffled(forms):
        clash = {"no_explanation": "garbled", "garbled": "no_explanation"}.get(kind)
        if len(chosen) < lost and (clash, place) not in chosen:
            chosen.append((kind, place))
    return slips | set(chosen)


def write_answer(question: str, slips: Iterable[Slip], dice: Dice) -> str:
    """The right working with these slips, as numbered lines and a last line ``Final answer: N``."""
    planted = set(slips)
    working = right_working(question)
    lines: list[str] = []
    if dice.chance(0.7):
        lines.append(fill(dice.pick(INTROS), working, dice))
    results: list[Number] = []
    for place, step in enumerate(working.steps):
        kinds = {kind for kind, at in planted if at == place}
        equation, result = _equation(step, results, working, kinds, dice)
        words = "" if "no_explanation" in kinds else explain(place, step.noun, equation, results, working, dice, kinds)
        number = "" if ("unnumbered", -1) in planted else f"{place + 1}. "
        lines.append(f"{number}{words}{': ' if words else ''}{equation}")
        if "filler" in kinds:
            lines.append(dice.pick(FILLERS))
        results.append(result)
    closing = fill(dice.pick(CLOSINGS), working, dice)
    if closing:
        lines.append(closing)
    final = results[-1]
    if ("contradiction", -1) in planted:
        final = _other(final, {figure(value) for value in results}, dice)
    return "\n".join([*lines, f"Final answer: {figure(final)}"])


def _equation(step: Step, results: list[Number], working: Working, kinds: set[str], dice: Dice) -> tuple[str, Number]:
    left = results[-1] if results else step.left
    if "broken_chain" in kinds:
        older = [working.steps[0].left, *results[:-1]]
        usable = [value for value in older if value not in (left, step.right)]
        left = dice.pick(usable) if usable else _other(left, {figure(step.right)}, dice)
    op, right = step.op, step.right
    if "wrong_operation" in kinds:
        op = dice.pick([other for other in "+-*/" if other != op and not (other == "*" and abs(left * right) > 1e6)])
    if "wrong_number" in kinds:
        right = abs(_other(right, {"0"}, dice)) or right + 1
    result = work_out(left, op, right)
    if "off_by_one" in kinds:
        result = exact(result + dice.pick((1, -1)))
    return f"{figure(left)} {op} {figure(right)} = {figure(result)}", result


def explain(
    place: int,
    noun: str,
    equation: str,
    results: list[Number],
    working: Working,
    dice: Dice,
    kinds: Collection[str] = (),
) -> str:
    """Words for the equation of step ``place`` (from 0), with the slips ``kinds`` that live in words."""
    op, right = equation.split(" ")[1:3]
    lead = fill(dice.pick(NEXT_LEADS if place else LEADS), working, dice)
    parts = [f"{lead}, {dice.pick(ACTIONS[op]).format(right=right, noun=noun)}"]
    if place and ("wrong_reference" in kinds or dice.chance(0.35)):
        at = place if dice.chance(0.7) else 1 + dice.below(place)
        value = results[at - 1]
        if "wrong_reference" in kinds:
            value = _other(value, set(), dice)
        parts.append(dice.pick(REFERENCES).format(step=at, value=figure(value)))
    if "wrong_claim" in kinds:
        known = {figure(quantity.value) for quantity in working.quantities} | {figure(value) for value in results}
        value = _other(int(float(right)), known | set(equation.split(" ")), dice)
        parts.append(dice.pick(CLAIMS).format(value=figure(abs(value)), noun=noun))
    if dice.chance(0.75):
        parts.append(fill(dice.pick(REASONS), working, dice))
    if "garbled" in kinds:  # not where an earlier step is cited, which has to stay legible
        words = parts[0].split(" ")
        plain = [at for at, word in enumerate(words) if word.isalpha() and len(word) > 1]
        at = dice.pick(plain)
        parts[0] = " ".join([*words[: at + 1], words[at].lower(), *words[at + 1 :]])
    return ", ".join(parts)


def _evasive_answer(question: str, dice: Dice) -> str:
    working = right_working(question)
    lines = [fill(line, working, dice) for line in dice.shuffled(EVASIONS)[: 2 + dice.below(3)]]
    lines += dice.shuffled(FILLERS)[: 2 + dice.below(2)]
    return "\n".join([*dice.shuffled(lines), "Final answer: it depends"])


def _other(value: Number, taken: set[str], dice: Dice) -> Number:
    """A number near ``value`` that differs from it and from those taken; it keeps its sign."""
    near = (1, 2, 3, 5, 10)
    first = dice.below(len(near))
    for step in (*near[first:], *near[:first], 7, 11, 13, 17, 19, 23):
        for other in (exact(value + step), exact(value - step)):
            if figure(other) not in taken and (other > 0) == (value > 0) and other != 0:
                return other
    return exact(value + 101)


def fill(template: str, working: Working, dice: Dice) -> str:
    """``{a}``, ``{b}`` and ``{c}`` are three different words of the question, as far as it has them."""
    words = dice.few(working.words or ("figures", "amounts", "numbers"), 3)
    a, b, c = (words * 3)[:3] if len(words) < 3 else words
    return template.format(a=a, b=b, c=c)

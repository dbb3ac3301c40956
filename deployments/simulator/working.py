"""The simulator's own notion of a question's right working: a short chain of exact arithmetic, decided by its text.

It is made up: the numbers of the question in their order, with the nouns beside them, joined by operations that a
verb before the number (add, buys, divide ...) or else a hash of the text chooses. It need not be what the question
means; it is what the simulated models agree to hold true. "Start with 12, add 5, multiply by 3, subtract 6" is worked
out as it should be.

>>> [step.equation for step in right_working("Start with 12, add 5, multiply by 3, subtract 6.").steps]
['12 + 5 = 17', '17 * 3 = 51', '51 - 6 = 45']
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from deployments.simulator.dice import Dice

Number = int | float

_WORD = re.compile(r"\d[\d,]*(?:\.\d+)?|[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_FUNCTION_WORDS = (
    "about after again all also and any are back because been before being both but buys can cost costs could day "
    "did does done down each earn every first for from gave get gets give gives goes had half has have having her "
    "hers him his how into its just left less make makes many more most much need needs now off old one only "
    "other others our out over own pay pays per put same says sell sells she some spend spends start such take "
    "takes than that the their them then there these they this those through time times total under until used "
    "uses very was way were what when where which while who whom whose why will with would you your if he it in "
    "on at to of is as by an or so"
)
_STOP = frozenset(_FUNCTION_WORDS.split())
_FROM_TWO = "two three four five six seven eight nine ten eleven twelve"
_NAMED = {word: value for value, word in enumerate(_FROM_TWO.split(), start=2)}
_VERBS = {
    "+": "add added adds plus increase increased increases buys bought gains gained receives received finds found",
    "-": "subtract subtracted minus remove removes removed loses lost eats ate sells sold gives gave decreased",
    "*": "multiply multiplied multiplies times",
    "/": "divide divided divides split splits shared",
}
_OP_OF = {verb: op for op, verbs in _VERBS.items() for verb in verbs.split()}
_PLAIN_NOUNS = ("units", "items", "parts", "shares", "pieces", "counts")


@dataclass(frozen=True)
class Quantity:
    """A whole number that the question states, the noun beside it, and the operation its verb names, if any."""

    value: int
    noun: str
    op: str | None = None


@dataclass(frozen=True)
class Step:
    """``left op right = result``; ``noun`` belongs to ``right``."""

    left: Number
    op: str
    right: Number
    result: Number
    noun: str

    @property
    def equation(self) -> str:
        return f"{figure(self.left)} {self.op} {figure(self.right)} = {figure(self.result)}"


@dataclass(frozen=True)
class Working:
    """The quantities, the content words, and the right chain of a question."""

    quantities: tuple[Quantity, ...]
    words: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def start_noun(self) -> str:
        return self.quantities[0].noun

    @property
    def result(self) -> Number:
        return self.steps[-1].result


def figure(value: Number) -> str:
    """A number as answers write it: no thousands commas, at most two decimals."""
    return str(value) if isinstance(value, int) else f"{value:.2f}".rstrip("0").rstrip(".")


def exact(value: Number) -> Number:
    """Rounded to the two decimals that ``figure`` shows; an int where it is whole."""
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded


def work_out(left: Number, op: str, right: Number) -> Number:
    """The operation's result; division by 0 gives 0, since nothing here divides by it on purpose."""
    if op == "+":
        return exact(left + right)
    if op == "-":
        return exact(left - right)
    if op == "*":
        return exact(left * right)
    return exact(left / right) if right else 0


@lru_cache(maxsize=8192)
def right_working(question: str) -> Working:
    """Three to six steps; any text has one, an empty one too."""
    dice = Dice("working", question)
    words = _WORD.findall(question)
    content = _content_words(words)
    quantities = _quantities(words, content)
    while len(quantities) < 2:
        noun = dice.pick(content) if content else dice.pick(_PLAIN_NOUNS)
        quantities.append(Quantity(2 + dice.below(38), noun))
    steps: list[Step] = []
    left: Number = quantities[0].value
    for position in range(min(max(len(quantities) - 1, 3), 6)):
        quantity = quantities[position + 1] if position + 1 < len(quantities) else dice.pick(quantities)
        op = _operation(left, quantity, dice)
        result = work_out(left, op, quantity.value)
        steps.append(Step(left, op, quantity.value, result, quantity.noun))
        left = result
    return Working(tuple(quantities), content, tuple(steps))


def _operation(left: Number, quantity: Quantity, dice: Dice) -> str:
    """Keeps every result a whole number from 1 to about two million."""
    right = quantity.value
    options = ["+", "+"]
    if left > right:
        options += ["-", "-", "-"]
    if left * right <= 5_000:
        options += ["*", "*"]
    if right > 1 and left % right == 0 and left > right:
        options += ["/", "/", "/"]
    drawn = dice.pick(options)
    return quantity.op if quantity.op in options else drawn


def _quantities(words: list[str], content: tuple[str, ...]) -> list[Quantity]:
    """The first seven whole numbers from 1 to a million, in figures or in words from two to twelve."""
    found: list[Quantity] = []
    verb: str | None = None
    for place, word in enumerate(words):
        lower = word.lower()
        verb = _OP_OF.get(lower, verb)
        value = _NAMED.get(lower)
        if value is None and word[0].isdecimal() and "." not in word:
            value = int(word.replace(",", "")) if len(word) < 10 else 0
        if value and value <= 1_000_000:
            nouns = [w.lower() for w in words[place + 1 : place + 5] if _is_content(w)]
            noun = nouns[0] if nouns else content[place % len(content)] if content else _PLAIN_NOUNS[place % 6]
            found.append(Quantity(value, noun, verb))
            verb = None
        if len(found) == 7:
            break
    return found


def _is_content(word: str) -> bool:
    return len(word) > 2 and not word[0].isdecimal() and word.lower() not in _STOP and word.lower() not in _NAMED


def _content_words(words: list[str]) -> tuple[str, ...]:
    """Up to 40 different words that carry the question's matter, in their order."""
    return tuple(dict.fromkeys(word.lower() for word in words if len(word) > 3 and _is_content(word)))[:40]

"""The static baseline of CriticGen, section 4.1: nine dimensions for every answer, three for each family.

The paper names the families and what belongs to them and prints no levels; those below are this project's.
"""

from typing import NamedTuple


class Item(NamedTuple):
    """A rubric item; ``levels`` says what the scores 0 to 5 mean."""

    family: str
    dimension: str
    levels: tuple[str, str, str, str, str, str]


def _levels(good: str, bad: str) -> tuple[str, str, str, str, str, str]:
    return (
        f"{bad} throughout, or there is no answer to speak of.",
        f"{bad} in most of the answer.",
        f"{bad} in several places that matter.",
        f"{good} on the whole, but not in one place that matters.",
        f"{good}, with slips that change nothing.",
        f"{good} throughout.",
    )


STATIC_RUBRIC: tuple[Item, ...] = (
    Item("subjective", "Clarity", _levels("The wording is plain and has one meaning", "The wording is unclear")),
    Item("subjective", "Coherence", _levels("The parts follow in an order that makes sense", "The order is confused")),
    Item("subjective", "Fluency and readability", _levels("The text reads easily", "The text is hard to read")),
    Item("objective", "Factual accuracy", _levels("What is stated is true", "What is stated is false")),
    Item("objective", "Numerical correctness", _levels("Numbers and calculations are right", "They are wrong")),
    Item("objective", "Task constraints", _levels("All that the task asks for is done", "The task is not followed")),
    Item("self_derived", "Consistency of steps", _levels("Each step agrees with those before", "Steps disagree")),
    Item("self_derived", "Absence of contradictions", _levels("Nothing contradicts itself", "It contradicts itself")),
    Item("self_derived", "Conclusion follows", _levels("The conclusion follows from the steps", "It does not follow")),
)

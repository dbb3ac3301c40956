"""What a simulated verifier says of two answers under one rubric item: each one's score, with the deciding flaw."""

from typing import Any

from deployments.simulator.checker import flaws
from deployments.simulator.knobs import Knobs
from deployments.simulator.teacher import given_score, true_item_score


def verification(
    question: str, answers: tuple[str, str], family: str, dimension: str, *, model: str, knobs: Knobs, call: str
) -> dict[str, Any]:
    """``first_reason``, ``first_score``, ``second_reason``, ``second_score``: the true scores, with the model's noise.

    Equal answers get equal scores.
    """
    found: dict[str, Any] = {}
    for name, answer in zip(("first", "second"), answers, strict=True):
        true = true_item_score(question, answer, family, dimension)
        kinds = sorted({flaw.kind.replace("_", " ") for flaw in flaws(question, answer) if flaw.family == family})
        found[f"{name}_reason"] = f"It has {', '.join(kinds)}." if kinds else "Nothing is wrong under this item."
        found[f"{name}_score"] = given_score(true, model, knobs, f"{call} {answer}")
    return found

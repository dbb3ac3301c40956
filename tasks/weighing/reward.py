"""A rubric's weighted verdicts as a reward for reinforcement learning: s(x, y) = sum_k w_k v_k(x, y), in [0, 1].

``RubricReward`` pickles when its verifier does. It is called with what each trainer passes:

    TRL     GRPOTrainer(reward_funcs=RubricReward(verify), ...), the data set with columns prompt, criteria, weights
    verl    a file with `compute_score = RubricReward(verify).compute_score` (reward manager naive), or
            `compute_score = RubricReward(verify).compute_scores` (batch); extra_info holds prompt, criteria, weights
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.weighing.baselines import direct, uniform
from tasks.weighing.preference import response_scores

# The prompt, the response and one criterion; 1 satisfied, 0 not (a part is 0), None where there is no verdict.
Verify = Callable[[str, str, str], int | None]


class RewardError(ValueError):
    """A row that no reward can be given for."""


@dataclass(frozen=True)
class RubricReward:
    """A reward over each prompt's own criteria; ``weights`` None is uniform."""

    verify: Verify

    @property
    def __name__(self) -> str:
        """What trainers log the reward under."""
        return "rubric_reward"

    def reward(
        self, prompt: str, response: str, criteria: Sequence[str], weights: Sequence[float] | None = None
    ) -> float | None:
        """One response's, in [0, 1]; None where a verdict is missing. Weights are brought to the sum 1.

        Raises ``RewardError`` for no criteria, weights of another number, or a verdict that is not 0, 1 or None.
        """
        if not criteria or (weights is not None and len(weights) != len(criteria)):
            raise RewardError(f"reward: {len(criteria)} criteria and {0 if weights is None else len(weights)} weights")
        said = [self.verify(prompt, response, criterion) for criterion in criteria]
        if any(verdict not in (0, 1, None) for verdict in said):
            raise RewardError(f"reward: verdicts {said}; a verdict is 0, 1 or None")
        verdicts = [verdict for verdict in said if verdict is not None]
        if len(verdicts) < len(said):
            return None
        shares = uniform(len(criteria)) if weights is None else direct(weights)
        return min(1.0, max(0.0, float(response_scores(shares, [verdicts])[0])))

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        criteria: Sequence[Sequence[str] | None],
        weights: Sequence[Sequence[float] | None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """TRL's: a reward for each completion, None where a row has no criteria or no verdict (TRL leaves it out)."""
        given = weights if weights is not None else [None] * len(completions)
        return [
            self.reward(_text(prompt), _text(completion), one, shares) if one else None
            for prompt, completion, one, shares in zip(prompts, completions, criteria, given, strict=True)
        ]

    def compute_score(
        self,
        data_source: Any,
        solution_str: str,
        ground_truth: Any,
        extra_info: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> float:
        """verl's, one response. It has no place for a missing reward: raises ``RewardError``."""
        if extra_info is None or not len(extra_info.get("criteria", ())):
            raise RewardError("reward: extra_info has no criteria")
        found = self.reward(
            _text(extra_info.get("prompt", "")), solution_str, extra_info["criteria"], extra_info.get("weights")
        )
        if found is None:
            raise RewardError("reward: the verifier gave no verdict")
        return found

    def compute_scores(
        self,
        data_sources: Sequence[Any],
        solution_strs: Sequence[str],
        ground_truths: Sequence[Any],
        extra_infos: Sequence[Mapping[str, Any] | None],
        **more: Any,
    ) -> list[float]:
        """verl's, a batch."""
        return [
            self.compute_score(*row)
            for row in zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
        ]


def _text(value: Any) -> str:
    """A text, or the last message of a conversation."""
    if isinstance(value, str):
        return value
    return str(value[-1]["content"]) if len(value) else ""

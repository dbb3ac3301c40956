import pickle

import pytest

from tasks.weighing.reward import RewardError, RubricReward


def contains(prompt: str, response: str, criterion: str) -> int | None:
    """Satisfied when the criterion's word stands in the response; no verdict on what is unclear."""
    return None if criterion == "unclear" else int(criterion in response)


REWARD = RubricReward(contains)


def test_one_response_gets_the_weights_of_what_it_satisfies() -> None:
    assert REWARD.reward("q", "red and blue", ["red", "green", "blue"], [2, 1, 1]) == pytest.approx(0.75)
    assert REWARD.reward("q", "red", ["red", "green"]) == 0.5
    assert REWARD.reward("q", "red", ["red", "unclear"]) is None
    assert REWARD.reward("q", "a b c", list("abc"), [0.1, 0.2, 0.7]) == 1


def test_it_pickles() -> None:
    back = pickle.loads(pickle.dumps(REWARD))
    assert back.reward("q", "red", ["red"]) == 1
    assert pickle.loads(pickle.dumps(REWARD.compute_score))("s", "red", None, {"criteria": ["red"]}) == 1


def test_trl_calls_it_with_lists_of_texts_or_conversations_and_the_columns_of_the_data_set() -> None:
    found = REWARD(
        prompts=["q", [{"role": "user", "content": "q"}], "q", "q"],
        completions=["red", [{"role": "assistant", "content": "green"}], "red", "red"],
        completion_ids=[[1], [2], [3], [4]],
        criteria=[["red", "green"], ["red", "green"], ["unclear"], None],
        weights=[[3, 1], [3, 1], None, None],
        trainer_state=None,
    )
    assert found == [0.75, 0.25, None, None]
    assert REWARD.__name__ == "rubric_reward"


def test_verl_calls_it_for_one_response_or_a_batch() -> None:
    info = {"prompt": "q", "criteria": ["red", "green"], "weights": [3, 1]}
    assert REWARD.compute_score(data_source="s", solution_str="red", ground_truth="", extra_info=info) == 0.75
    found = REWARD.compute_scores(
        data_sources=["s", "s"], solution_strs=["red", "green"], ground_truths=[None] * 2, extra_infos=[info, info]
    )
    assert found == [0.75, 0.25]


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (None, "no criteria"),
        ({"prompt": "q"}, "no criteria"),
        ({"criteria": ["unclear"]}, "no verdict"),
        ({"criteria": ["red"], "weights": [1, 2]}, "1 criteria and 2 weights"),
    ],
)
def test_verl_gets_no_made_up_reward(info: dict[str, object] | None, says: str) -> None:
    with pytest.raises(RewardError, match=says):
        REWARD.compute_score("s", "red", None, info)


def test_a_verdict_in_between_is_refused() -> None:
    with pytest.raises(RewardError, match="a verdict is 0, 1 or None"):
        RubricReward(lambda *_: 2).reward("q", "red", ["red"])

import polars as pl
import pytest

from tasks.coverage import quality


@pytest.mark.parametrize(
    ("scores", "expected"), [([4, 5], 5), ([4, 4, 5], 4), ([0], 0), ([0, 1], 1), ([2, 3, 2], 2), ([5, 5, 5, 5, 3], 5)]
)
def test_quality_is_the_mean_rounded_half_up(scores: list[int], expected: int) -> None:
    frame = pl.DataFrame({"answer_id": "a", "score": pl.Series(scores, dtype=pl.Int8)})
    assert quality(frame)["quality"].to_list() == [expected]


def test_many_scores_do_not_overflow() -> None:
    frame = pl.DataFrame({"answer_id": "a", "score": pl.Series([5] * 1000, dtype=pl.Int8)})
    assert quality(frame)["quality"].to_list() == [5]

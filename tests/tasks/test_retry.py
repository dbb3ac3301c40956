import pytest

from tasks.batches import Batch, Retry


@pytest.mark.parametrize(
    ("retry", "covered"),
    [
        (Retry(), True),
        (Retry(shard="made-0001"), True),
        (Retry(shard="made-0000"), False),
        (Retry("judges", "openai/a", "refused", "made-0001"), True),
        (Retry("rubrics", shard="made-0001"), False),
    ],
)
def test_a_retry_covers_what_all_of_its_parts_name(retry: Retry, covered: bool) -> None:
    assert retry.covers(Batch("judges", "made-0001", "all"), "openai/a", "refused") is covered

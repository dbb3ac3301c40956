import pytest

from tasks.duplicates import marked


@pytest.mark.parametrize(
    ("text", "other", "shown", "other_shown"),
    [
        ("a B c, d e", "x A b. c d", "⟦a B c, d⟧ e", "x ⟦A b. c d⟧"),
        ("a b c d", "d c b a", "a b c d", "d c b a"),
        ("1 2 3 4 5 - 1 2 3 4", "0 1 2 3 4", "⟦1 2 3 4⟧ 5 - ⟦1 2 3 4⟧", "0 ⟦1 2 3 4⟧"),
        ("\u0130 e\u0301 c d!", "i\u0307 \u00c9 c d", "⟦i\u0307 \u00e9 c d⟧!", "⟦i\u0307 \u00c9 c d⟧"),
        ("", "a b c d", "", "a b c d"),
    ],
)
def test_what_ngrams_of_both_cover_is_marked(text: str, other: str, shown: str, other_shown: str) -> None:
    assert marked(text, other, n=4, mode="word") == (shown, other_shown)

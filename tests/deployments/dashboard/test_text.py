import re

import pytest

from deployments.dashboard.queries.diversity import marked
from deployments.dashboard.text import diff, rich


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "![](http://127.0.0.1:1/x.png)",
        "<http://example.org>",
        r"$\href{javascript:alert(1)}{x}$",
        r"$\text{<script>alert(1)</script>}$",
        "$<script>$",
        "```html\n<script>alert(1)</script>\n```",
        "\ue0000\ue001<b>",
        "| a |\n|---|\n| <script>x</script> |",
    ],
)
def test_nothing_in_a_text_becomes_an_element_of_its_own(text: str) -> None:
    html = str(rich(text)).lower()
    assert not re.search(r"<(script|img|a|b)\b|<[^>]*(href|src|style|on\w+)=", html)


def test_latex_becomes_mathml_in_its_four_ways_of_being_written() -> None:
    for text in (r"$\frac{1}{2}$", r"\(\frac{1}{2}\)", r"$$\frac{1}{2}$$", r"\[\frac{1}{2}\]"):
        assert "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>" in rich(text)


def test_money_is_no_math_and_broken_latex_stands_as_it_is() -> None:
    assert "<math" not in rich("Ann pays $5 and Ben $7, or $3-$4 a day.")
    assert '<code class="tex">\\frac{</code>' in rich(r"so \(\frac{\) it is")
    assert "<math" not in rich("`$HOME/$USER` in code")


def test_markdown_is_rendered_and_lines_stay_lines() -> None:
    html = rich("**Step 1**\n3 * 4 = 12\n\n- one\n- two")
    assert "<strong>Step 1</strong><br />" in html
    assert "<li>two</li>" in html


def test_a_diff_marks_words_and_escapes_them() -> None:
    assert diff("It is 12 <b>", "It is 13 <b> now") == ("It is <del>12</del><ins>13</ins> &lt;b&gt;<ins> now</ins>")


def test_shared_4_grams_are_marked_and_no_others() -> None:
    shown = marked("One two three four, then <five> six.", ["zero one Two three four six"], 4, "word")
    assert shown == "<mark>One two three four</mark>, then &lt;five&gt; six."
    assert marked("one two three", ["one two three"], 4, "word") == "one two three"

r"""Strings as they are after JSON's escapes are read, so "\t" here is what became of a model's ``\t``."""

import pytest
from hypothesis import given, strategies as st

from tasks.latex import escapes_doubled, latex_restored


@pytest.mark.parametrize(
    ("decoded", "restored"),
    [
        ("\frac{1}{2}", r"\frac{1}{2}"),
        ("for \forall x", r"for \forall x"),
        ("\beta + \bar{x}", r"\beta + \bar{x}"),
        ("match \bword\b.", r"match \bword\b."),
        ("3 \times 4", r"3 \times 4"),
        ("\theta, \tau, \tanh x", r"\theta, \tau, \tanh x"),
        ("\text{kg} and \textbf{x}", r"\text{kg} and \textbf{x}"),
        ("\nabla f", r"\nabla f"),
        ("a \not= b, c \notin D", r"a \not= b, c \notin D"),
        ("x \neq y", "x \neq y"),  # no mathematics around it: a line that begins with "eq"
        ("$x \neq y$", r"$x \neq y$"),
        ("\rho g h \right)", r"\rho g h \right)"),
        ("\rightarrow 5", r"\rightarrow 5"),
    ],
)
def test_commands_that_json_took_for_its_escapes(decoded, restored):
    assert latex_restored(decoded) == restored


@pytest.mark.parametrize(
    "text",
    [
        "First line\nnot the second",
        "one\nto two\nthe third\nnumber four\nneither\nnext\nu = 5\ne = 2.718\neq. 3",
        "name\tage\ttotal\tan apple\top",
        "line\r\nrho\r\nright",
        "old lines\rangle\rfloor\rule",
        "many animals\neg cats\nless than five\nrightarrow = 3",
        "def f():\n\tif x:\n\t\treturn an\n\ttext = 3\n\tfrac = 4",
        "mid = (lo + hi) / 2\nmid = 3\nsim = run()",
        "It costs $5\nu pay $7 in all",
        "He pays $20 a book.\ne.g. $40 for two",
        "a page\fbreak is \f",
        r"already \frac{1}{2} and $\nu$ and \(\theta\)",
        "$$\nu = 5\n$$",
        "\\[\ne^{i\\pi} = -1\n\\]",
        "\\begin{align}\nu &= 1 \\\\\nu &= 2\n\\end{align}",
        "U+2028 \u2028 and \u2029, 中文\nnu, ½",
    ],
)
def test_text_that_means_what_it_says_is_left_alone(text):
    # A page break before a letter is the one thing that is always taken for LaTeX.
    expected = text.replace("\fb", r"\fb")
    assert latex_restored(text) == expected


@pytest.mark.parametrize(
    ("decoded", "restored"),
    [
        ("$\nu$", r"$\nu$"),
        ("$h\nu$ and $a \ne b$", r"$h\nu$ and $a \ne b$"),
        ("\\(x \to 0\\)", r"\(x \to 0\)"),
        ("$x \to 0$, $\tan x$", r"$x \to 0$, $\tan x$"),
        ("$a \nmid b$", r"$a \nmid b$"),
        ("$$E = h\nu$$", r"$$E = h\nu$$"),
        ("$$\frac{a}{b} \ne c$$", r"$$\frac{a}{b} \ne c$$"),
        ("$$\nu = 5\n$$ and $\nu$", "$$\nu = 5\n$$ and $\\nu$"),
        ("\frac{1}{2} \ne 3", r"\frac{1}{2} \ne 3"),  # no mathematics, but a writer who does not escape
        ("\frac{1}{2}\ne = 3", "\\frac{1}{2}\ne = 3"),
        ("costs $5 and $\nu$ is", "costs $5 and $\\nu$ is"),
    ],
)
def test_words_and_names_are_commands_only_in_mathematics(decoded, restored):
    assert latex_restored(decoded) == restored


def test_a_writer_who_does_not_escape_means_commands_in_displays_too():
    assert latex_restored("$$a \ne b$$") == "$$a \ne b$$"
    assert latex_restored("$$a \ne b$$", unescaped=True) == r"$$a \ne b$$"


@pytest.mark.parametrize(
    ("written", "doubled"),
    [
        (r'{"a": "\alpha \(x\)"}', r'{"a": "\\alpha \\(x\\)"}'),
        (r'{"a": "\\alpha \" \n \u00e9"}', r'{"a": "\\alpha \" \n \u00e9"}'),
        (r'{"a": "\underline \u12"}', r'{"a": "\\underline \\u12"}'),
        (r'{"a": "\\\alpha"}', r'{"a": "\\\\alpha"}'),
    ],
)
def test_escapes_that_json_does_not_have_are_backslashes(written, doubled):
    assert escapes_doubled(written) == doubled


@given(st.text())
def test_restoring_only_ever_puts_commands_for_control_characters(text):
    restored = latex_restored(text)
    for control, command in (("\f", r"\f"), ("\b", r"\b"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
        restored = restored.replace(command, control)
        text = text.replace(command, control)
    assert restored == text


@given(st.text())
def test_restoring_twice_is_restoring_once(text):
    once = latex_restored(text)
    assert latex_restored(once) == once

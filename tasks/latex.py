r"""LaTeX that JSON took for its own escapes: found and put right.

A model that writes ``"\frac"`` into a JSON string means a backslash; JSON reads a form feed and ``rac``. Five of
JSON's escapes begin LaTeX commands: ``\b \f \n \r \t``. What a reader of the decoded string sees decides:

    form feed or backspace, then a letter        always LaTeX: nobody means these characters in prose
    backspace after a letter                     the ``\b`` of a regular expression, the same
    tab, carriage return or newline, then the    LaTeX where the rest is no word and no name by itself:
    rest of a command                            ``\theta`` (tab, heta), ``\nabla`` (newline, abla)
    the same, where the rest is followed by {    LaTeX for commands that take an argument: ``\text{``
    the same, where the rest is a word or name   LaTeX only in mathematics, ``$\nu$``, ``\( x \to 0 \)``, and in a
    by itself: newline u, tab an, newline mid    display only where no line begins; or after a space, once the
                                                 string shows that its writer did not escape backslashes

So a true newline before "not", "to" or "number" stays: ``\not`` would have left a newline and "ot". Escapes
that JSON does not have (``\alpha``, ``\(``, ``\underline``) make the text invalid, and are read as a backslash.
"""

import re

_TAB_ALWAYS = (
    "heta|imes|au|anh|riangleq?|riangleleft|riangleright|herefore|hickapprox|hicksim|hinspace|extstyle|woheadrightarrow"
)
_TAB_BRACED = "ext(?:bf|it|rm|tt|sf|sc|up|md|normal|color|superscript|subscript)?|frac|ilde|binom|ag|itle|hispagestyle"
_TAB_MATHS = "o|an|op|ilde|frac|ext|riangle"
_NEWLINE_ALWAYS = "abla|ot|otin|otag|onumber|ewline|ewcommand|olimits|atural|earrow|warrow|leq|geq|leqslant|geqslant"
_NEWLINE_MATHS = (
    "e|u|i|eq|eg|mid|sim|cong|less|gtr|exists|parallel|prec|succ|subseteq|supseteq|vdash|vDash"
    "|leftarrow|rightarrow|Leftarrow|Rightarrow|leftrightarrow|Leftrightarrow"
)
_RETURN_ALWAYS = "ho|ight|ightarrow|ightleftharpoons|ightharpoonup|brack|hd"
_RETURN_MATHS = "m|angle|ceil|floor|brace|vert|Vert|oot|oman|ule"

# The set in front lets a search skip all other characters at once.
_ALWAYS = re.compile(
    r"[\x08\t\n\f\r](?:(?<=\f)(?=[A-Za-z])"
    r"|(?<=\x08)(?:(?=[A-Za-z])|(?<=[A-Za-z]\x08))"
    rf"|(?<=\t)(?=(?:{_TAB_ALWAYS})(?![A-Za-z])|(?:{_TAB_BRACED})\{{)"
    rf"|(?<=\n)(?=(?:{_NEWLINE_ALWAYS})(?![A-Za-z]))"
    rf"|(?<=\r)(?=(?:{_RETURN_ALWAYS})(?![A-Za-z])))"
)
_MATHS_ONLY = re.compile(
    rf"[\t\n\r](?:(?<=\t)(?=(?:{_TAB_MATHS})(?![A-Za-z]))"
    rf"|(?<=\n)(?=(?:{_NEWLINE_MATHS})(?![A-Za-z]))"
    rf"|(?<=\r)(?=(?:{_RETURN_MATHS})(?![A-Za-z])))"
)
# A dollar opens mathematics only before, and closes it only after, what is no space, and not before a digit:
# "$5 a day, $7 a week" is money. No mathematics holds an empty line.
MATHS = re.compile(
    r"(?P<display>\$\$(?:(?!\n\n|\$\$).){1,1000}\$\$|\\\[(?:(?!\n\n|\\\]).){1,1000}\\\]"
    r"|\\begin\{(?P<name>\w+\*?)\}(?:(?!\n\n).){1,1000}?\\end\{(?P=name)\})"
    r"|\\\((?:(?!\n\n|\\\)).){1,400}\\\)"
    r"|(?<![\\$\w])\$(?=[^ $])(?:(?!\n\n)[^$]){1,400}(?<![\s\\])\$(?![\d$])",
    re.DOTALL,
)
_LETTERS = {"\f": "f", "\x08": "b", "\t": "t", "\n": "n", "\r": "r"}
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')
# Where a display's lines begin, so that a newline is to be expected.
_LINE_BEGINS = re.compile(r"(?:\$\$|\\\[|\\\\|&|\n|\\begin\{\w+\*?\}) *\Z")


def latex_restored(text: str, *, unescaped: bool = False) -> str:
    """The decoded string with its LaTeX put right; itself where there is nothing to put right.

    ``unescaped``: its writer is known not to have escaped backslashes. Then a rest after a space is a command
    outside mathematics, too, and in a display wherever no line begins.
    """
    restored, fixes = _ALWAYS.subn(_command, text)
    if _MATHS_ONLY.search(restored) is None:
        return restored
    unescaped = unescaped or fixes > 0

    def outside(found: re.Match[str]) -> str:
        after_space = found.string[found.start() - 1 : found.start()] == " "
        return _command(found) if unescaped and after_space else found[0]

    def in_display(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 30) : found.start()]
        line_begins = _LINE_BEGINS.search(before) or (before.endswith(" ") and not unescaped)
        return found[0] if found[0] == "\n" and line_begins else _command(found)

    pieces, end = [], 0
    for maths in MATHS.finditer(restored):
        pieces.append(_MATHS_ONLY.sub(outside, restored[end : maths.start()]))
        pieces.append(_MATHS_ONLY.sub(in_display if maths["display"] else _command, maths[0]))
        end = maths.end()
    return "".join([*pieces, _MATHS_ONLY.sub(outside, restored[end:])])


def escapes_doubled(text: str) -> str:
    r"""JSON text in which each backslash that begins no JSON escape stands for itself: ``\alpha`` as ``\\alpha``."""
    return _ESCAPE.sub(lambda escape: "\\\\" if escape[0] == "\\" else escape[0], text)


def _command(found: re.Match[str]) -> str:
    return "\\" + _LETTERS[found[0]]

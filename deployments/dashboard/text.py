"""Model text as HTML that is safe to show: Markdown and LaTeX rendered, HTML in it shown as the text it is.

Math (``$x$``, ``$$x$$``, ``\\(x\\)``, ``\\[x\\]``, ``\\begin{align}``) becomes MathML, which browsers draw
themselves. What cannot be converted stands as its source. Links and pictures are not made: nothing in a model's text
leads out of the page or asks another host.
"""

import re
from difflib import SequenceMatcher
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markupsafe import Markup

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
_MARKDOWN.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])

# Code and an escaped dollar come first, so that nothing inside them is math. A dollar before a blank, or a closing one
# before a digit, is money.
_MATH = re.compile(
    r"(?P<skip>```.*?(?:```|\Z)|`[^`\n]+`|\\\$)"
    r"|\$\$(?P<b1>.+?)\$\$|\\\[(?P<b2>.+?)\\\]|(?P<b3>\\begin\{(?P<env>[a-z]+\*?)\}.+?\\end\{(?P=env)\})"
    r"|\\\((?P<i1>.+?)\\\)|\$(?=\S)(?P<i2>(?:\\.|[^$\\\n]){1,500}?)(?<=\S)\$(?!\d)",
    re.DOTALL,
)
_HOLE = re.compile("\ue000(\\d+)\ue001")
# What a formula may be made of. \\href and \\style would bring other attributes.
_ATTRIBUTES = {
    "display", "stretchy", "fence", "form", "accent", "linethickness", "columnalign", "mathvariant", "movablelimits",
    "notation", "separator", "minsize", "maxsize", "lspace", "rspace", "width",
}  # fmt: skip
_TAGS = {
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup",
    "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose",
}  # fmt: skip
MAX_CHARACTERS = 60_000  # of one text; what is longer is shown as it is


@lru_cache(2_000)
def rich(text: str) -> Markup:
    """Markdown with LaTeX, as HTML."""
    if len(text) > MAX_CHARACTERS:
        return Markup("<pre>{}</pre>").format(text)
    found: list[str] = []

    def hole(match: re.Match[str]) -> str:
        if match["skip"]:
            return match[0]
        block = match["b1"] or match["b2"] or match["b3"]
        found.append(math(block or match["i1"] or match["i2"], block=block is not None))
        return f"\ue000{len(found) - 1}\ue001"

    html = _MARKDOWN.render(_MATH.sub(hole, text.replace("\ue000", "").replace("\ue001", "")))
    return Markup(_HOLE.sub(lambda match: found[int(match[1])], html))


@lru_cache(5_000)
def math(source: str, *, block: bool) -> str:
    """LaTeX as MathML, or its source where it cannot be converted."""
    try:
        element = convert_to_element(source, display="block" if block else "inline")
        return _mathml(element)
    except Exception:  # the converter raises errors of many kinds on LaTeX that is not its own
        return f'<code class="tex">{escape(source)}</code>'


def _mathml(element: Element) -> str:
    """The element with known tags and attributes alone: \\href and \\style would bring others."""
    if element.tag not in _TAGS:
        raise ValueError(element.tag)
    names = "".join(
        f' {name}="{escape(unescape(value))}"' for name, value in element.attrib.items() if name in _ATTRIBUTES
    )
    inside = escape(unescape(element.text or "")) + "".join(
        _mathml(child) + escape(unescape(child.tail or "")) for child in element
    )
    return f"<{element.tag}{names}>{inside}</{element.tag}>"


_PIECES = re.compile(r"\s+|\w+|[^\w\s]")
MOST_COMPARED = 4_000_000  # pairs of pieces: beyond it lines are compared, not words


def diff(before: str, after: str) -> Markup:
    """Both texts as one: what went is in <del>, what came in <ins>."""
    left, right = _PIECES.findall(before), _PIECES.findall(after)
    if len(left) * len(right) > MOST_COMPARED:
        left, right = before.splitlines(keepends=True), after.splitlines(keepends=True)
    pieces = []
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(escape("".join(left[a:b])))
            continue
        if a < b:
            pieces.append(f"<del>{escape(''.join(left[a:b]))}</del>")
        if c < d:
            pieces.append(f"<ins>{escape(''.join(right[c:d]))}</ins>")
    return Markup("".join(pieces))

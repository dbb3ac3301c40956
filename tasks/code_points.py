"""What each Unicode code point is to the lexical figures: its lower case, and its part in a token.

An entry of a mode's table is the lower-case code point in the low 21 bits (``LOWER``) and above them the parts that
this lower-case code point plays. Classes are those of the ``regex`` package, lower case and normalization those of
``unicodedata``: both are asked once, so that the kernel cannot disagree with them.
"""

import unicodedata
from functools import cache
from typing import Literal

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

Mode = Literal["word", "ws"]

LOWER = (1 << 21) - 1
RUN, MARK, DIGIT, ALONE, MATH, BACKSLASH, POINT, APOSTROPHE, LETTER = (1 << bit for bit in range(21, 30))
UNSETTLED = 255

# As tasks/text.py has them, and its one-character parts.
ALONE_CLASS = r"[[\p{Han}\p{Ideographic}\p{Hiragana}\p{Katakana}ーｰﾞﾟ]&&[\p{L}\p{N}]]"
RUN_CLASS = rf"[[\p{{L}}\p{{M}}\p{{N}}]--{ALONE_CLASS}]"
MATH_CLASS = r"[-+*/=<>^\p{Sm}]"
_WORD = {
    RUN_CLASS: RUN,
    r"\p{M}": MARK,
    r"\p{Nd}": DIGIT,
    ALONE_CLASS: ALONE,
    MATH_CLASS: MATH,
    r"\\": BACKSLASH,
    "[.,]": POINT,
    "'": APOSTROPHE,
    "[a-z]": LETTER,
}

_SURROGATES = range(0xD800, 0xE000)
_POINTS = np.concatenate([np.arange(0xD800), np.arange(0xE000, 0x110000)]).astype(np.uint32)


@cache
def table(mode: Mode) -> NDArray[np.uint32]:
    """The entry of every code point; that of a surrogate, which no UTF-8 holds, is 0."""
    every = _POINTS.tobytes().decode("utf-32-le")
    # One code point each: U+0130 alone has two, and is UNSETTLED.
    lower = every.replace("\u03a3", "\u03c3").replace("\u0130", "i").lower()
    parts = np.zeros(0x110000, np.uint32)
    for pattern, part in _WORD.items() if mode == "word" else {r"\S": RUN}.items():
        for found in regex.finditer(f"{pattern}+", every, regex.V1):
            parts[_POINTS[found.start() : found.end()]] |= np.uint32(part)
    if mode == "ws":  # Python's whitespace, which has U+001C to U+001F too
        parts[[point for point in _POINTS.tolist() if chr(point).isspace()]] = 0
    entries = np.zeros(0x110000, np.uint32)
    lowered = np.frombuffer(lower.encode("utf-32-le"), np.uint32)
    entries[_POINTS] = lowered | parts[lowered]
    return entries


@cache
def normal() -> NDArray[np.uint8]:
    """For every code point its combining class, or ``UNSETTLED``.

    A text without an unsettled code point whose combining classes (other than 0) do not fall from one to the next is
    in NFC. Unsettled are those that NFC replaces, those that it can join to the one before, and U+0130.
    """
    classes = np.zeros(0x110000, np.uint8)
    # The other planes hold no character that is decomposed or combines.
    for point in [*range(0x80, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000)]:
        char = chr(point)
        if (combining := unicodedata.combining(char)) != 0:
            classes[point] = combining
        if parts := unicodedata.decomposition(char):
            if not unicodedata.is_normalized("NFC", char):
                classes[point] = UNSETTLED
            elif not parts.startswith("<") and " " in parts:
                classes[int(parts.split()[1], 16)] = UNSETTLED
    for jamo in (range(0x1161, 0x1176), range(0x11A8, 0x11C3)):  # Hangul is composed by arithmetic
        classes[jamo.start : jamo.stop] = UNSETTLED
    classes[0x130] = UNSETTLED
    return classes

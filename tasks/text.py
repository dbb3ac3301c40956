"""Text as the lexical figures see it: normalization, tokens and hashed n-grams (CriticGen, Appendix B).

Distinct-n, the near-duplicate filter, question clusters and the split's certificate all count the tokens of
this file, so that no two figures disagree on what a word is.

    >>> tokens_of("Don't pay $1,234.50 - x_1=2", "word")
    ["don't", 'pay', '1,234.50', '-', 'x', '1', '=', '2']

**Normalization**: NFC, then lower case. Lower case is taken per code point, without context: a capital sigma is
never the small final one (as Python's ``str.lower`` has it at a word's end), and the Turkish dotted capital I is i
with a combining dot. Whitespace is Python's, U+0085, U+00A0 and U+2028 included; it only separates.

**Mode word** has these tokens, everything else separates (punctuation, currency, emoji, joiners, underscores):

- a maximal run of letters, marks and numbers (Unicode's L, M, N). ``.`` and ``,`` between two decimal digits
  belong to it (3.14, 1,000), and ``'`` between two of its characters (don't). The curly apostrophe separates. Hangul
  and Arabic words are runs. A mark without a letter before it, such as an emoji's variation selector, is a run too;
- an ideograph or a kana, alone, with the marks on it;
- a LaTeX command: a backslash and the ASCII letters after it;
- a math symbol, alone: ``+ - * / = < > ^`` and Unicode's Sm (which holds ``|`` and ``~``).

**Mode ws** is the paper read literally: what whitespace separates.

``tokens_of`` shows the tokens and is the definition; ``token_hashes`` finds the same ones many times faster, by one
look-up per code point (tasks/text_kernel.py), and is what every figure counts.

Tokens and n-grams are 64-bit hashes. Among N different n-grams N^2 / 2^65 pairs are expected to share a hash:
0.0003 for 100 million, 0.03 for a billion. A collision changes a count by one.
"""

import unicodedata
from typing import NamedTuple

import numpy as np
import polars as pl
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tasks import text_kernel
from tasks.code_points import ALONE_CLASS, MATH_CLASS, RUN_CLASS, Mode as Mode, normal, table

_RUNS = rf"(?:[a-z0-9]++|{RUN_CLASS})++"
# The first alternative is the second one's plain case (an ASCII run that nothing can extend), twice as fast.
_TOKEN = regex.compile(
    rf"[a-z0-9]++(?![.,'\P{{ASCII}}])"
    rf"|{_RUNS}(?:(?:(?<=\p{{Nd}})[.,](?=\p{{Nd}})|'(?={RUN_CLASS})){_RUNS})*+"
    r"|\\[a-z]++"
    rf"|{ALONE_CLASS}\p{{M}}*+"
    rf"|{MATH_CLASS}",
    regex.V1,
)
_WS_TOKEN = regex.compile(r"[^\s\x1c-\x1f]+")
_SLICE = 4096  # texts hashed at a time: bounds the room set aside for their tokens


class Ragged(NamedTuple):
    """A list of 64-bit hashes per text, flat: text ``i`` has ``values[offsets[i]:offsets[i + 1]]``."""

    values: NDArray[np.uint64]
    offsets: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


def lowered(text: str) -> str:
    """NFC and lower case per code point. Applied before anything else in both modes."""
    # U+03A3 is the one code point that str.lower() treats by its context.
    return unicodedata.normalize("NFC", text).replace("\u03a3", "\u03c3").lower()


def tokens_of(text: str, mode: Mode) -> list[str]:
    """The tokens of one text, in order; none for an empty one."""
    if mode == "ws":
        return lowered(text).split()
    tokens: list[str] = _TOKEN.findall(lowered(text))
    return tokens


def token_spans(text: str, mode: Mode) -> tuple[str, list[tuple[int, int]]]:
    """The text in NFC with its own capitals, and where in it each of its tokens stands."""
    # U+0130 is the one code point whose lower case is two.
    shown = unicodedata.normalize("NFC", text).replace("\u0130", "i\u0307")
    pattern = _TOKEN if mode == "word" else _WS_TOKEN
    return shown, [found.span() for found in pattern.finditer(lowered(text))]


def grams_at(text: str, spans: list[tuple[int, int]], n: int) -> list[tuple[str, ...]]:
    """The n-grams of a text whose tokens stand there, in order."""
    tokens = [lowered(text[start:end]) for start, end in spans]
    return [tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1)]


def normalized(texts: pl.Series, mode: Mode) -> pl.Series:
    """The tokens of each text joined by one space: equal for texts that no lexical figure tells apart.

    A text without a token (brackets only, say) stands as its lower-case text with whitespace runs as one space:
    two such texts are equal when they are written alike, not because neither has a word.
    """

    def one(text: str) -> str:
        return " ".join(tokens_of(text, mode) or lowered(text).split())

    return pl.Series(texts.name, [one(text or "") for text in texts], dtype=pl.String)


def token_hashes(texts: pl.Series, mode: Mode) -> Ragged:
    """The tokens of each text, in order and with repeats, as 64-bit hashes of their code points."""
    return joined([_hashed(texts.slice(first, _SLICE), mode) for first in range(0, len(texts), _SLICE)])


def ngrams(tokens: Ragged, n: int) -> Ragged:
    """The n-grams of each text, in order and with repeats, as hashes of their token hashes.

    A text of k tokens has max(0, k - n + 1); none crosses into the next text. Hashes for different n are
    unrelated. Raises ``ValueError`` when n is less than 1.
    """
    if n < 1:
        raise ValueError(f"n-grams of {n} tokens: n is at least 1")
    offsets = np.concatenate(([0], np.cumsum(np.maximum(tokens.counts - (n - 1), 0))))
    values = np.empty(offsets[-1], np.uint64)
    text_kernel.ngram_hashes(tokens.values, tokens.offsets, n, values)
    return Ragged(values, offsets)


def ngram_hashes(texts: pl.Series, n: int, mode: Mode) -> Ragged:
    """The n-grams of each text as 64-bit hashes, in order and with repeats."""
    return ngrams(token_hashes(texts, mode), n)


def joined(parts: list[Ragged]) -> Ragged:
    """The texts of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    counts = [part.counts for part in parts]
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(counts)))) if counts else np.zeros(1, np.int64)
    return Ragged(np.concatenate([np.empty(0, np.uint64), *(part.values for part in parts)]), offsets)


def _hashed(texts: pl.Series, mode: Mode) -> Ragged:
    texts = texts.cast(pl.String).fill_null("")
    data, offsets = _utf8(texts)
    rows = np.flatnonzero(text_kernel.unsettled(data, offsets, normal()))
    if len(rows):
        settled = pl.Series([lowered(text) for text in texts.gather(rows)], dtype=pl.String)
        data, offsets = _utf8(texts.scatter(rows, settled))
    values, ends = np.empty(len(data), np.uint64), np.empty(len(texts), np.int64)
    count = text_kernel.token_hashes(data, offsets, table(mode), values, ends)
    return Ragged(values[:count].copy(), np.concatenate(([0], ends)))


def _utf8(texts: pl.Series) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    array = texts.to_arrow()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets or bytes(8), np.int64)
    return np.frombuffer(data or b"", np.uint8), ends[array.offset : array.offset + len(array) + 1]

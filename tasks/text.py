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

Tokens and n-grams are 64-bit hashes. Among N different n-grams N^2 / 2^65 pairs are expected to share a hash:
0.0003 for 100 million, 0.03 for a billion. A collision changes a count by one.
"""

import unicodedata
from array import array
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
import regex  # type: ignore[import-untyped]
import xxhash
from numpy.typing import NDArray

Mode = Literal["word", "ws"]

_ALONE = r"[[\p{Han}\p{Ideographic}\p{Hiragana}\p{Katakana}ーｰﾞﾟ]&&[\p{L}\p{N}]]"
_RUN = rf"[[\p{{L}}\p{{M}}\p{{N}}]--{_ALONE}]"
_RUNS = rf"(?:[a-z0-9]++|{_RUN})++"
# The first alternative is the second one's plain case (an ASCII run that nothing can extend), twice as fast.
_TOKEN = regex.compile(
    rf"[a-z0-9]++(?![.,'\P{{ASCII}}])"
    rf"|{_RUNS}(?:(?:(?<=\p{{Nd}})[.,](?=\p{{Nd}})|'(?={_RUN})){_RUNS})*+"
    r"|\\[a-z]++"
    rf"|{_ALONE}\p{{M}}*+"
    r"|[-+*/=<>^\p{Sm}]",
    regex.V1,
)

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)


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


def token_spans(text: str, mode: Mode) -> tuple[str, list[tuple[str, int, int]]]:
    """The text that has the places, and each token with its start and end in it.

    That is ``text`` itself, or its lower case where that is of another length (as NFC can make it).
    """
    low = lowered(text)
    pattern = _TOKEN if mode == "word" else regex.compile(r"\S+")
    spans = [(match[0], match.start(), match.end()) for match in pattern.finditer(low)]
    return (text if len(text) == len(low) else low), spans


def tokenize(texts: pl.Series, mode: Mode) -> pl.Series:
    """A list of tokens per text. A null text has none."""
    return pl.Series(texts.name, [tokens_of(text or "", mode) for text in texts], dtype=pl.List(pl.String))


def normalized(texts: pl.Series, mode: Mode) -> pl.Series:
    """The tokens of each text joined by one space: equal for texts that no lexical figure tells apart.

    A text without a token (brackets only, say) stands as its lower-case text with whitespace runs as one space:
    two such texts are equal when they are written alike, not because neither has a word.
    """

    def joined(text: str) -> str:
        return " ".join(tokens_of(text, mode) or lowered(text).split())

    return pl.Series(texts.name, [joined(text or "") for text in texts], dtype=pl.String)


def token_hashes(texts: pl.Series, mode: Mode) -> Ragged:
    """The tokens of each text, in order and with repeats, as XXH3 hashes of their UTF-8."""
    vocabulary = _Vocabulary()
    hashes = array("Q")
    offsets = np.zeros(len(texts) + 1, np.int64)
    for row, text in enumerate(texts, start=1):
        hashes.extend(map(vocabulary.__getitem__, tokens_of(text or "", mode)))
        offsets[row] = len(hashes)
    return Ragged(np.frombuffer(hashes, np.uint64) if hashes else np.empty(0, np.uint64), offsets)


def ngrams(tokens: Ragged, n: int) -> Ragged:
    """The n-grams of each text, in order and with repeats, as hashes of their token hashes.

    A text of k tokens has max(0, k - n + 1); none crosses into the next text. Hashes for different n are
    unrelated. Raises ``ValueError`` when n is less than 1.
    """
    if n < 1:
        raise ValueError(f"n-grams of {n} tokens: n is at least 1")
    values, offsets = tokens
    grams = np.maximum(tokens.counts - (n - 1), 0)
    starts = max(len(values) - n + 1, 0)
    hashes = _mixed(values[:starts].copy())
    for place in range(1, n):
        hashes *= _ODD
        hashes += values[place : place + starts]
        _mixed(hashes)
    if n > 1:
        ends = np.repeat(offsets[1:], tokens.counts)[:starts]
        hashes = hashes[np.arange(n, starts + n) <= ends]
    return Ragged(hashes, np.concatenate(([0], np.cumsum(grams))))


def ngram_hashes(texts: pl.Series, n: int, mode: Mode) -> Ragged:
    """The n-grams of each text as 64-bit hashes, in order and with repeats."""
    return ngrams(token_hashes(texts, mode), n)


class _Vocabulary(dict[str, int]):
    """Each different token is hashed once. It lives for one call, so that no long run fills the memory with it."""

    def __missing__(self, token: str) -> int:
        self[token] = value = xxhash.xxh3_64_intdigest(token.encode())
        return value


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each value through a bijection that spreads every bit (MurmurHash3's 64-bit finalizer), in place."""
    values ^= values >> _SHIFT
    values *= _FIRST
    values ^= values >> _SHIFT
    values *= _SECOND
    values ^= values >> _SHIFT
    return values

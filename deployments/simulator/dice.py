"""Choices that look random and are decided by text alone: the same seed gives the same choices on any machine."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_FINE = 1 << 24


def digest(*parts: object) -> int:
    """512 bits of the parts' text. Lone surrogates are allowed."""
    text = "\x1f".join([str(part) for part in parts])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest(), "big")


def share(*parts: object) -> float:
    """A number in [0, 1) decided by the parts."""
    return (digest(*parts) % _FINE) / _FINE


class Dice:
    """A stream of choices from one seed; each draw takes its bits from a pool that is refilled by hashing."""

    def __init__(self, *seed: object) -> None:
        self._state = digest(*seed)
        self._pool = self._state

    def below(self, n: int) -> int:
        """A whole number from 0 to ``n - 1``."""
        if self._pool < 1 << 64:
            self._state = digest(self._state)
            self._pool = self._state
        self._pool, value = divmod(self._pool, n)
        return value

    def chance(self, probability: float) -> bool:
        return self.below(_FINE) < probability * _FINE

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def few(self, options: Sequence[T], n: int) -> list[T]:
        """``n`` different places of the options, in drawn order; all of them where there are fewer."""
        rest = list(options)
        return [rest.pop(self.below(len(rest))) for _ in range(min(n, len(rest)))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.few(options, len(options))

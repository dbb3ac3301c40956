"""A call as the simulated models see it, the same for every wire: what is asked, what is answered, what is refused."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import orjson

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``turns`` are (role, text) of user and assistant. ``max_tokens`` is None where there is no limit.

    ``caching``: whether a prompt cache may serve part of the input; ``request`` is the body as it came.
    """

    model: str
    system: str
    turns: tuple[tuple[str, str], ...]
    schema: Mapping[str, Any] | None
    max_tokens: int | None
    request: Json
    caching: bool = True

    @property
    def input_tokens(self) -> int:
        return tokens(self.system) + sum(tokens(text) + 3 for _, text in self.turns)


class Finish(Enum):
    """Why the model stopped. BLOCKED is a refusal by the vendor's own filter rather than by the model.

    EMPTY is a whole answer without text; of one that is NULL the text was written, but is withheld.
    """

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    BLOCKED = "blocked"
    EMPTY = "empty"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote, and its tokens. ``output`` includes ``thinking``; ``input`` includes ``cached``."""

    text: str
    finish: Finish
    input: int
    cached: int
    output: int
    thinking: int


class Problem(Enum):
    """Why a call is answered with an error."""

    NO_KEY = "no key"
    BAD_KEY = "bad key"
    BAD_REQUEST = "bad request"
    NO_MODEL = "no such model"
    NO_ROUTE = "no such route"
    RATE = "too many requests"
    QUOTA = "no money left"
    RETIRED = "model retired"
    SERVER = "internal error"
    UNAVAILABLE = "service unavailable"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Level:
    """One limit as the rate-limit headers tell it: per minute, what is left, seconds until it is full again."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Pace:
    """A model's limits."""

    requests: Level
    tokens: Level

    def spent(self, seconds: float) -> "Pace":
        """The same with no request left for so long."""
        level = self.requests
        return replace(self, requests=Level(level.limit, 0, max(level.reset_s, seconds)))


UNLIMITED = Pace(Level(100_000, 99_999, 0.0006), Level(300_000_000, 299_990_000, 0.002))
"""What a model without a limit tells: limits that one request hardly touches."""


@dataclass(frozen=True, slots=True)
class Excess:
    """What went beyond a limit. ``unit`` is ``requests`` or ``tokens``."""

    unit: str
    limit: int
    used: int
    requested: int


class VendorError(Exception):
    """An error that the vendor's wire puts into its own words. ``param`` and ``code`` are OpenAI's.

    Of a 429 for pace, ``excess`` is what the words name, ``retry_after`` the seconds that they and the headers name,
    and ``pace`` what the rate-limit headers tell; where they are None, nothing is said of it.
    """

    def __init__(
        self,
        problem: Problem,
        message: str = "",
        *,
        model: str = "",
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        excess: Excess | None = None,
        pace: Pace | None = UNLIMITED,
    ) -> None:
        super().__init__(message or problem.value)
        self.problem = problem
        self.message = message
        self.model = model
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.excess = excess
        self.pace = pace


@dataclass(frozen=True)
class Wire:
    """One vendor's protocol: how a request is read and how completions and errors are written."""

    vendor: str
    authorize: Callable[[Mapping[str, str]], None]
    read: Callable[[Json, Mapping[str, str], str], Ask]
    write: Callable[[Ask, Completion, str, float], Json]
    write_error: Callable[[VendorError, str], tuple[int, Json]]
    headers: Callable[[str, Pace | None], dict[str, str]]


def tokens(text: str) -> int:
    """One token for each four characters, rounded up."""
    return (len(text) + 3) // 4


def as_json(body: Any) -> bytes:
    """The body of an answer; a lone surrogate in it is escaped."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(body, separators=(",", ":")).encode()


def as_seconds(seconds: float) -> str:
    """As a header's value: whole seconds without a decimal point."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def as_text(content: Any, where: str) -> str:
    """The text of a message's content: a string, or a list of parts of which those with text count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    raise VendorError(
        Problem.BAD_REQUEST, f"Invalid type for '{where}': expected a string or an array of parts.", param=where
    )

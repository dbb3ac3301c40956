"""A call as the simulated models see it, the same for every wire: what is asked, what is answered, what is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``turns`` are (role, text) of user and assistant. ``max_tokens`` is None where there is no limit.

    ``cached_text`` is as much of the input as a prompt cache would serve; ``request`` is the body as it came.
    """

    model: str
    system: str
    turns: tuple[tuple[str, str], ...]
    schema: Mapping[str, Any] | None
    max_tokens: int | None
    request: Json

    @property
    def input_tokens(self) -> int:
        return tokens(self.system) + sum(tokens(text) + 3 for _, text in self.turns)


class Finish(Enum):
    """Why the model stopped. BLOCKED is a refusal by the vendor's own filter rather than by the model."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    BLOCKED = "blocked"
    EMPTY = "empty"


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
    SERVER = "internal error"
    OVERLOADED = "overloaded"


class VendorError(Exception):
    """An error that the vendor's wire puts into its own words. ``param`` and ``code`` are OpenAI's."""

    def __init__(
        self,
        problem: Problem,
        message: str = "",
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or problem.value)
        self.problem = problem
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Pace:
    """A model's request limit as the rate-limit headers tell it: per minute, left, seconds until the next."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True)
class Wire:
    """One vendor's protocol: how a request is read and how completions and errors are written."""

    vendor: str
    authorize: Callable[[Mapping[str, str]], None]
    read: Callable[[Json, Mapping[str, str], str], Ask]
    write: Callable[[Ask, Completion, str, float], Json]
    write_error: Callable[[VendorError, str], tuple[int, Json]]
    headers: Callable[[str, Pace], dict[str, str]]


def tokens(text: str) -> int:
    """One token for each four characters, rounded up."""
    return (len(text) + 3) // 4


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

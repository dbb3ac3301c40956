"""What is asked of a model and what comes back, the same for every vendor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.models.outcomes import Outcome


@dataclass(frozen=True)
class Message:
    """One turn: ``role`` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True)
class Request:
    """One call. ``schema`` is a JSON schema for structured output, or None for plain text.

    ``params`` are the model's own (temperature, reasoning_effort, ...), passed on as the vendor spells them.
    ``call_id`` travels as the X-Client-Request-Id header. Where calls of a model wait, the smallest ``rank`` is next.
    """

    call_id: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    schema: Mapping[str, Any] | None = None
    schema_name: str = "output"
    params: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 0


@dataclass(frozen=True)
class Usage:
    """Tokens of one response; None: not reported.

    ``input`` includes ``cached`` (read from the vendor's prompt cache) and ``cache_write`` (put there, at a price
    of its own); ``output`` includes ``thinking``.
    """

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    thinking: int | None = None
    cache_write: int | None = None


class Unsent(Exception):
    """A call that was not made: its model was stopped, or the budget does not reach. ``cause`` says which and why."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


@dataclass(frozen=True)
class Pace:
    """A server's limits of the moment, as its answer tells them; None: not told.

    Requests and tokens are of a minute. ``wait_s`` is how long to send nothing, since nothing is left.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    wait_s: float = 0.0


@dataclass(frozen=True)
class Reply:
    """One response, or the failure to get one.

    ``outcome`` is what the vendor's envelope says; whether ``text`` keeps to its schema is not known yet.
    ``raw`` is the body as it came. ``retry_after`` is in seconds. ``cost_usd`` is None where it is not known;
    ``most_usd`` is what it can have been at the most, None where the price is not known either.
    """

    outcome: Outcome
    text: str | None = None
    raw: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    request_id: str | None = None
    latency_s: float = 0.0
    retry_after: float | None = None
    pace: Pace | None = None
    cost_usd: float | None = None
    most_usd: float | None = None

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


@dataclass(frozen=True)
class Reply:
    """One response, or the failure to get one.

    ``outcome`` is what the vendor's envelope says; whether ``text`` keeps to its schema is not known yet.
    ``raw`` is the body as it came. ``retry_after`` is in seconds.
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

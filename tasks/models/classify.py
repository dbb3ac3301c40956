"""Which class of failure an answer or an exception is: one table.

    class           status             what the error says
    too_long        429                one request asks for more than a whole minute allows
    quota           429                Google's quota of a day, or a limit of nothing at all
    rate_limited    429                a quota per minute, or when to try again
    quota           402                anything
    quota           400, 403, 429      money: a plan, credits, billing, a spend limit
    rate_limited    429                anything else
    auth            400                the key is not valid, or not from here
    refused         400, 403, 422      a content policy
    auth            401, 403           anything else
    model_gone      404, 410           the model
    model_gone      400                the model does not exist or is retired
    too_long        413                anything
    too_long        400, 422, 500      the context overflows
    server          408, 409, 425, 499 and 5xx
    rejected        any other

An exception is a timeout, a connection that failed, or a request that could not be made. Vendors' SDKs wrap
the cause, at times in the wrong name (a refused connection as a timeout), so the cause itself decides.
"""

import math
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from tasks.models.envelope import clean, header, load_object, string, without_key
from tasks.models.exchange import Reply
from tasks.models.outcomes import Outcome

_MESSAGE_LENGTH = 2_000
_EVIDENCE_LENGTH = 4_000

_MONEY = (
    r"insufficient_quota|insufficient_balance|insufficient balance|exceeded your current quota|billing"
    r"|credit balance|prepayment credits|out of credits|more credits|spend_limit|spending|usage limits|payment"
)
_OVERFLOW = (
    r"context_length_exceeded|exceed_context_size|context.?length|context.?window|context.?size"
    r"|prompt is too long|exceed context limit|input token count|string_above_max_length|too many input tokens"
)
_NO_MODEL = (
    r"model_not_found|model_decommissioned|invalid model id"
    r"|\bmodel\b.{0,100}(?:does not exist|not found|deprecated|retired|decommissioned|shut ?down)"
)
_POLICY = (
    r"invalid_prompt|content_policy|content_filter|bio_policy|misalignment_policy"
    r"|content filtering policy|flagged as potentially"
)


@dataclass(frozen=True)
class Rule:
    outcome: Outcome
    statuses: Collection[int]
    says: re.Pattern[str] | None = None


def _rule(outcome: Outcome, statuses: Collection[int], says: str | None = None) -> Rule:
    return Rule(outcome, statuses, re.compile(says, re.IGNORECASE | re.DOTALL) if says else None)


RULES: tuple[Rule, ...] = (
    _rule(Outcome.TOO_LONG, {429}, r"request too large"),
    _rule(Outcome.QUOTA, {429}, r"PerDay|limit: 0\b"),
    _rule(Outcome.RATE_LIMITED, {429}, r"PerMinute|retryDelay|rate_limit_exceeded|ramp_limit_exceeded"),
    _rule(Outcome.QUOTA, {402}),
    _rule(Outcome.QUOTA, {400, 403, 429}, _MONEY),
    _rule(Outcome.RATE_LIMITED, {429}),
    _rule(Outcome.AUTH, {400}, r"API_KEY_INVALID|API key (?:not valid|expired)|location is not supported"),
    _rule(Outcome.REFUSED, {400, 403, 422}, _POLICY),
    _rule(Outcome.AUTH, {401, 403}),
    _rule(Outcome.MODEL_GONE, {404, 410}, r"\bmodels?\b|model_not_found|deployment|no endpoints found"),
    _rule(Outcome.MODEL_GONE, {400}, _NO_MODEL),
    _rule(Outcome.TOO_LONG, {413}),
    _rule(Outcome.TOO_LONG, {400, 422, 500}, _OVERFLOW),
    _rule(Outcome.SERVER, {408, 409, 425, 499, *range(500, 600)}),
)

# An error that comes without a status: inside a 200 answer, or read back from the ledger.
_STATUS_OF_CODE = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
    "image_content_policy_violation": 400,
    "content_policy_violation": 400,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


@dataclass(frozen=True)
class Said:
    """What an error body says: ``message`` for people, ``evidence`` for the rules, ``status`` if it names one."""

    message: str
    evidence: str
    code: str | None
    status: int | None

    @classmethod
    def of(cls, body: str) -> "Said":
        value = load_object(body)
        if value is None:
            text = clean(body[:300])
            return cls(text, text, None, None)
        error = value.get("error") or value
        if not isinstance(error, dict):
            error = {"message": str(error)}
        message = string(error.get("message")) or string(value.get("message")) or _dump(error)[:300]
        codes = [error.get("code"), error.get("type"), error.get("status")]
        code = next((name for name in codes if isinstance(name, str) and name), None)
        known = (_STATUS_OF_CODE.get(name) for name in codes if isinstance(name, str))
        number = error.get("code")
        status = number if isinstance(number, int) and 400 <= number < 600 else next((n for n in known if n), None)
        return cls(clean(message), clean(_dump(error))[:_EVIDENCE_LENGTH], code, status)


def outcome_of_status(status: int, evidence: str) -> Outcome:
    """The class of an HTTP status of 300 or more, by the first rule that fits."""
    for rule in RULES:
        if status in rule.statuses and (rule.says is None or rule.says.search(evidence)):
            return rule.outcome
    return Outcome.REJECTED


def reply_to_error(status: int | None, body: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The reply for an error body. ``status`` None: the body itself must name it, or it counts as the server's."""
    said = Said.of(body)
    status = status or said.status or 500
    place = f"{status} {said.code}" if said.code else f"{status}"
    return Reply(
        outcome_of_status(status, said.evidence),
        raw=body,
        error=f"{place}: {said.message}"[:_MESSAGE_LENGTH],
        retry_after=retry_after(headers or {}, body),
    )


def outcome_of_exception(error: Exception) -> Outcome:
    """The class of an exception. Whether it is a timeout, its innermost cause says."""
    import aiohttp

    chain = _chain(error)
    if isinstance(chain[-1], TimeoutError) or "Timeout" in type(chain[-1]).__name__:
        return Outcome.TIMEOUT
    if any(isinstance(link, aiohttp.InvalidURL) or "UnsupportedProtocol" in type(link).__name__ for link in chain):
        return Outcome.REJECTED
    broken = (OSError, EOFError, zlib.error, aiohttp.ClientError)
    if any(isinstance(link, broken) or type(link).__name__ == "APIConnectionError" for link in chain):
        return Outcome.CONNECTION
    return Outcome.REJECTED


def reply_to_exception(error: Exception, key: str = "") -> Reply:
    """The reply for a call that got no answer. The text names the cause, without the API key: a line that is no
    HTTP, or the place that a redirect names, stands in it."""
    root = _chain(error)[-1]
    detail = " ".join(clean(without_key(str(root), key)).split())
    text = f"{type(root).__name__}: {detail}" if detail else type(root).__name__
    return Reply(outcome_of_exception(error), error=text[:_MESSAGE_LENGTH])


def _chain(error: Exception) -> list[Exception]:
    """The exception and its causes. A cancellation is only how a timeout was made, and no cause."""
    chain = [error]
    while isinstance(cause := chain[-1].__cause__, Exception) and cause not in chain:
        chain.append(cause)
    return chain


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds to wait, or None: the vendor's milliseconds, Retry-After as seconds or date, or Google's RetryInfo."""
    milliseconds = _number(header(headers, "retry-after-ms", "Retry-After-Ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    if value := header(headers, "retry-after", "Retry-After"):
        seconds = _number(value)
        return _seconds_until(value) if seconds is None else seconds
    if delay := re.search(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"', body):
        return float(delay[1])
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _dump(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a lone surrogate, or an integer beyond 64 bits
        return str(value)

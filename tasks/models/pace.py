"""What an answer tells of its server's limits: OpenAI's and Anthropic's headers, Google's body of a 429.

    x-ratelimit-limit-requests: 600       anthropic-ratelimit-requests-limit: 600
    x-ratelimit-remaining-requests: 0     anthropic-ratelimit-requests-remaining: 0
    x-ratelimit-reset-requests: 1m0s      anthropic-ratelimit-requests-reset: 2026-01-01T00:00:00Z
    "quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "600"

``reset`` is when the limit will be whole again, so one more request is there after the limit's share of it.
OpenAI's limit is at times that of a day: how fast it comes back tells.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from tasks.models.envelope import dig, header, load_object, objects
from tasks.models.exchange import Pace

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MINUTES_A_DAY = 1_440
_QUOTA = re.compile(r"(Requests|Tokens)PerMinute")


def pace_of(headers: Mapping[str, str], body: str = "") -> Pace | None:
    """The pace that an answer tells, None where it tells nothing. ``body``: of a 429."""
    if "x-ratelimit-limit-requests" in headers or "x-ratelimit-limit-tokens" in headers:
        requests, wait = _openai(headers, "requests")
        return Pace(requests, _openai(headers, "tokens")[0], wait)
    if "anthropic-ratelimit-requests-limit" in headers:
        limit = _number(headers, "anthropic-ratelimit-requests-limit")
        wait = 0.0
        if limit and _number(headers, "anthropic-ratelimit-requests-remaining") == 0:
            wait = _until(header(headers, "anthropic-ratelimit-requests-reset") or "") / limit
        return Pace(limit, _number(headers, "anthropic-ratelimit-tokens-limit"), wait)
    found = _quotas(body) if body else {}
    return Pace(found.get("Requests"), found.get("Tokens")) if found else None


def _quotas(body: str) -> dict[str, float]:
    """Google's limits of a minute: ``{"Requests": 600.0}``."""
    found = {}
    for detail in objects(dig(load_object(body), "error", "details")):
        for violation in objects(detail.get("violations")):
            named, value = _QUOTA.search(str(violation.get("quotaId"))), str(violation.get("quotaValue"))
            if named and value.isdecimal():
                found[named[1]] = float(value)
    return found


def _openai(headers: Mapping[str, str], of: str) -> tuple[float | None, float]:
    """The limit of a minute, and the seconds to wait where nothing is left."""
    limit = _number(headers, f"x-ratelimit-limit-{of}")
    left = _number(headers, f"x-ratelimit-remaining-{of}")
    reset = _DURATION.findall(headers.get(f"x-ratelimit-reset-{of}", ""))
    whole_s = sum(float(number) * _SECONDS[unit] for number, unit in reset)
    if not limit:
        return None, 0.0
    used = limit - (limit if left is None else left)
    if used > 0 and whole_s > 0 and 60 * used / whole_s < limit / 10:
        limit /= _MINUTES_A_DAY
    return limit, whole_s / used if left == 0 else 0.0


def _number(headers: Mapping[str, str], name: str) -> float | None:
    try:
        return max(0.0, float(headers[name]))
    except (KeyError, ValueError):
        return None


def _until(moment: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0

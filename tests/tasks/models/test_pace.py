"""What servers tell of their limits."""

from datetime import UTC, datetime, timedelta

import pytest

from tasks.models.exchange import Pace
from tasks.models.pace import pace_of


def openai(limit, left, reset, tokens=None):
    told = {"x-ratelimit-limit-requests": limit, "x-ratelimit-remaining-requests": left}
    told["x-ratelimit-reset-requests"] = reset
    return told | ({"x-ratelimit-limit-tokens": tokens} if tokens else {})


@pytest.mark.parametrize(
    ("headers", "pace"),
    [
        (openai("600", "599", "100ms", "90000"), Pace(600, 90_000)),
        (openai("600", "0", "1m0s"), Pace(600, None, wait_s=0.1)),
        (openai("10000", "9999", "8.64s"), Pace(10_000 / 1_440, None)),  # a day's
        (openai("10000", "0", "24h0m0s"), Pace(10_000 / 1_440, None, wait_s=8.64)),
        (openai("600", "600", "0s"), Pace(600, None)),
        (openai("0", "0", "1s"), Pace(None, None)),
        (openai("many", "-3", "soon"), Pace(None, None)),
        ({"x-ratelimit-limit-tokens": "1000"}, Pace(None, 1_000)),
        ({"content-type": "application/json"}, None),
        ({}, None),
    ],
)
def test_openais_headers(headers, pace):
    found = pace_of(headers)
    assert (found is None) == (pace is None)
    if found is not None:
        assert found.requests_per_minute == pytest.approx(pace.requests_per_minute)
        assert found.tokens_per_minute == pace.tokens_per_minute
        assert found.wait_s == pytest.approx(pace.wait_s)


def test_anthropics_headers_say_when_all_is_back():
    reset = (datetime.now(UTC) + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": reset,
        "anthropic-ratelimit-tokens-limit": "80000",
    }
    found = pace_of(headers)
    assert (found.requests_per_minute, found.tokens_per_minute) == (50, 80_000)
    assert found.wait_s == pytest.approx(1.2, abs=0.1)
    assert pace_of(headers | {"anthropic-ratelimit-requests-remaining": "3"}).wait_s == 0
    assert pace_of(headers | {"anthropic-ratelimit-requests-reset": "tomorrow"}).wait_s == 0


def test_googles_429_tells_its_quota():
    body = """{"error": {"code": 429, "details": [{"violations": [
        {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaDimensions": {"model": "m"},
         "quotaValue": "600"},
        {"quotaMetric": "x", "quotaId": "GenerateContentInputTokensPerMinute-PaidTier", "quotaValue": 4000}]}]}}"""
    found = pace_of({}, body)
    assert (found.requests_per_minute, found.tokens_per_minute) == (600, 4_000)
    assert pace_of({}, body.replace("PerMinute", "PerDay")) is None
    assert pace_of({}, body.replace('"600"', '"a lot"')).requests_per_minute is None
    assert pace_of({}, "x" * 10**6) is None

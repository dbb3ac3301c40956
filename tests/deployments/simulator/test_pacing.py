"""Limits, bursts, retirement and the end of the money, and how the headers tell of them."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from deployments.simulator.wire_openai_errors import as_duration


def test_openai_tells_what_is_left_and_when_the_limit_is_full_again(simulator: Any) -> None:
    simulator.post("knobs", {"requests_per_minute.sim-told": 6, "tokens_per_minute.sim-told": 6_000})
    told = [simulator.chat("sim-told") for _ in range(3)][-1]
    spent = 3 * told.body["usage"]["total_tokens"]
    assert told.headers["x-ratelimit-limit-requests"] == "6"
    assert told.headers["x-ratelimit-remaining-requests"] == "3"
    assert 20 < float(told.headers["x-ratelimit-reset-requests"].removesuffix("s")) <= 30
    assert told.headers["x-ratelimit-limit-tokens"] == "6000"
    left = int(told.headers["x-ratelimit-remaining-tokens"])
    assert 6_000 - spent <= left < 6_000
    reset = float(told.headers["x-ratelimit-reset-tokens"].removesuffix("s"))
    assert reset == pytest.approx((6_000 - left) / 100, abs=0.02)


def test_anthropic_tells_the_moment_at_which_the_limit_is_full_again(simulator: Any) -> None:
    simulator.post("knobs", {"requests_per_minute.sim-moment": 6, "tokens_per_minute.sim-moment": 6_000})
    told = simulator.messages("sim-moment").headers
    reset = datetime.fromisoformat(told["anthropic-ratelimit-requests-reset"])
    assert 9 < (reset - datetime.now(UTC)).total_seconds() <= 11
    assert (told["anthropic-ratelimit-requests-limit"], told["anthropic-ratelimit-requests-remaining"]) == ("6", "5")
    assert (told["anthropic-ratelimit-tokens-limit"], told["anthropic-ratelimit-tokens-remaining"]) == ("6000", "6000")
    assert told["anthropic-ratelimit-requests-reset"].endswith("Z")


def test_without_a_limit_the_headers_tell_one_that_is_hardly_touched(simulator: Any) -> None:
    told = simulator.chat("sim-free").headers
    assert [told[f"x-ratelimit-{name}-requests"] for name in ("limit", "remaining", "reset")] == [
        "100000",
        "99999",
        "1ms",
    ]
    assert [told[f"x-ratelimit-{name}-tokens"] for name in ("limit", "remaining", "reset")] == [
        "300000000",
        "299990000",
        "2ms",
    ]
    assert not any("ratelimit" in name for name in simulator.gemini("sim-free").headers)


def test_more_requests_than_the_limit_are_told_by_name(simulator: Any) -> None:
    simulator.post("knobs", {"requests_per_minute.sim-full": 20, "burst_s.sim-full": 3})
    assert simulator.chat("sim-full").status == 200
    refused = simulator.chat("sim-full")
    assert refused.status == 429
    assert refused.headers["retry-after"] == "3"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert refused.body["error"]["type"] == "requests"
    assert "on requests per min (RPM): Limit 20, Used 20, Requested 1. Please try again in 3s." in str(refused.body)


def test_googles_429_names_the_quota_and_its_value(simulator: Any) -> None:
    simulator.post("knobs", {"requests_per_minute.sim-quota": 20, "burst_s.sim-quota": 3})
    simulator.gemini("sim-quota")
    failure, retry = simulator.gemini("sim-quota").body["error"]["details"]
    assert failure["violations"] == [
        {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_paid_tier_requests",
            "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
            "quotaDimensions": {"location": "global", "model": "sim-quota"},
            "quotaValue": "20",
        }
    ]
    assert retry == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}


def test_tokens_are_charged_when_a_request_passes_and_the_debt_is_waited_for(simulator: Any) -> None:
    simulator.post("knobs", {"tokens_per_minute.sim-wordy": 60, "burst_s.sim-wordy": 60})
    first = simulator.chat("sim-wordy")
    usage = first.body["usage"]
    assert usage["total_tokens"] > 60
    assert first.headers["x-ratelimit-remaining-tokens"] == "0"
    refused = simulator.chat("sim-wordy")
    assert (refused.status, refused.body["error"]["type"]) == (429, "tokens")
    assert int(refused.headers["retry-after"]) == pytest.approx(
        usage["total_tokens"] - 60 + usage["prompt_tokens"], abs=1
    )
    assert f"(TPM): Limit 60, Used 60, Requested {usage['prompt_tokens']}." in refused.body["error"]["message"]
    google = simulator.gemini("sim-wordy").body["error"]["details"][0]["violations"][0]
    assert google["quotaId"] == "GenerateContentPaidTierInputTokensPerModelPerMinute"
    assert google["quotaValue"] == "60"


def test_bursts_of_429_end_when_they_say(simulator: Any) -> None:
    simulator.post("knobs", {"burst_429_every_s.sim-bursts": 60, "burst_429_for_s.sim-bursts": 0.8})
    refused = [simulator.chat("sim-bursts", str(n)) for n in range(3)]
    assert [answer.status for answer in refused] == [429] * 3
    wait = float(refused[-1].headers["retry-after"])
    assert 0 < wait <= 0.8
    assert refused[-1].headers["x-ratelimit-remaining-requests"] == "0"
    time.sleep(wait)
    assert [simulator.chat("sim-bursts", str(n)).status for n in range(3)] == [200] * 3


def test_bursts_come_again(simulator: Any) -> None:
    simulator.post("knobs", {"burst_429_every_s.sim-again": 0.4, "burst_429_for_s.sim-again": 0.2})
    changes: list[int] = []
    until = time.monotonic() + 10
    while len(changes) < 4 and time.monotonic() < until:
        if (status := simulator.chat("sim-again").status) not in changes[-1:]:
            changes.append(status)
        time.sleep(0.01)
    assert changes == [429, 200, 429, 200]


def test_a_bare_429_says_nothing_of_any_wait(simulator: Any) -> None:
    simulator.post("knobs", {"fault_429_bare.sim-bare": 1})
    openai, anthropic, google = simulator.chat("sim-bare"), simulator.messages("sim-bare"), simulator.gemini("sim-bare")
    assert [answer.status for answer in (openai, anthropic, google)] == [429] * 3
    for answer in (openai, anthropic, google):
        assert not any("retry" in name or "ratelimit" in name for name in answer.headers)
    assert "try again in" not in openai.body["error"]["message"]
    assert openai.body["error"]["code"] == "rate_limit_exceeded"
    assert "details" not in google.body["error"]


def test_a_429_by_fault_tells_that_no_request_is_left(simulator: Any) -> None:
    simulator.post("knobs", {"fault_429.sim-429": 1, "retry_after_s.sim-429": 90})
    told = simulator.chat("sim-429").headers
    assert told["x-ratelimit-remaining-requests"] == "0"
    assert told["x-ratelimit-reset-requests"] == "1m30s"
    assert told["retry-after"] == "90"


def test_a_model_retires_alone_after_so_many_answers(simulator: Any) -> None:
    simulator.post("knobs", {"retire_after.sim-retires": 2})
    assert [simulator.chat("sim-retires", str(n)).status for n in range(4)] == [200, 200, 404, 404]
    assert simulator.chat("sim-stays").status == 200
    key = {"Authorization": "Bearer key"}
    assert simulator.send("/v1/models/sim-retires", None, key).status == 404
    assert simulator.send("/v1/models/sim-stays", None, key).status == 200
    assert simulator.get("stats")["served_by_model"]["sim-retires"] == 2


def test_errors_are_no_answers_and_retire_no_model(simulator: Any) -> None:
    simulator.post("knobs", {"retire_after.sim-errs": 1, "quota_after.sim-errs": 0})
    simulator.post("script", {"script": {"sim-errs": ["fault_500", "fault_429", "ok"]}})
    assert [simulator.chat("sim-errs", str(n)).status for n in range(4)] == [500, 429, 200, 404]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.006, "6ms"),
        (0.12, "120ms"),
        (0.9999, "1s"),
        (8.64, "8.64s"),
        (60, "1m0s"),
        (360, "6m0s"),
        (86.4, "1m26.4s"),
        (3661, "1h1m1s"),
    ],
)
def test_durations_as_openai_writes_them(seconds: float, written: str) -> None:
    assert as_duration(seconds) == written

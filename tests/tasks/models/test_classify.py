"""Vendors' own error bodies, and what they are taken for."""

import asyncio
import json
import re
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import aiohttp
import pytest

from tasks.models import Outcome, classify
from tasks.models.classify import outcome_of_exception, reply_to_error, reply_to_exception, retry_after


def google_429(quota_id, **fields):
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"},
    ]
    said = "You exceeded your current quota, please check your plan and billing details."
    return {"error": {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": details, **fields}}


def error(message, **fields):
    return {"error": {"message": message, **fields}}


def anthropic(kind, message, **fields):
    return {"type": "error", "error": {"type": kind, "message": message, **fields}}


CASES = [
    # OpenAI
    ("quota", 429, error("You exceeded your current quota", type="insufficient_quota", code="insufficient_quota")),
    ("quota", 429, error("Your account is not active, please check your billing", code="billing_not_active")),
    ("rate_limited", 429, error("Rate limit reached on tokens per min (TPM): Limit 10", code="rate_limit_exceeded")),
    ("rate_limited", 429, error("Rate limit reached on requests per day (RPD)", code="rate_limit_exceeded")),
    ("too_long", 429, error("Request too large for gpt-5 on tokens per min (TPM)", code="rate_limit_exceeded")),
    ("auth", 401, error("Incorrect API key provided", code="invalid_api_key")),
    ("auth", 403, error("Country not supported", code="unsupported_country_region_territory")),
    ("model_gone", 404, error("The model `gpt-9` does not exist or you do not have access", code="model_not_found")),
    ("model_gone", 400, error("The requested model 'x' does not exist.", param="model", code="model_not_found")),
    ("rejected", 404, error("Invalid URL (POST /v1/responsible)")),
    ("rejected", 404, {"detail": "Not Found"}),
    ("too_long", 400, error("This model's maximum context length is 128000 tokens.", code="context_length_exceeded")),
    ("refused", 400, error("Invalid prompt: your prompt was flagged as potentially violating", code="invalid_prompt")),
    ("rejected", 400, error("Unsupported parameter: 'temperature' is not supported with this model.")),
    ("rejected", 400, error("Invalid schema for response_format 'output'", code="invalid_json_schema")),
    ("rejected", 422, error("bad")),
    ("server", 409, error("conflict")),
    ("server", 408, error("timeout")),
    ("server", 500, error("The server had an error", type="server_error")),
    # Anthropic
    ("rate_limited", 429, anthropic("rate_limit_error", "would exceed your organization's rate limit per minute")),
    (
        "rate_limited",
        429,
        anthropic("rate_limit_error", "grew too fast", details={"error_code": "ramp_limit_exceeded"}),
    ),
    ("quota", 429, anthropic("rate_limit_error", "x", details={"error_code": "enforced_spend_limit_reached"})),
    ("quota", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
    ("quota", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits.")),
    ("quota", 402, anthropic("billing_error", "x")),
    ("model_gone", 404, anthropic("not_found_error", "model: claude-sonnet-9")),
    ("too_long", 400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
    ("too_long", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2")),
    ("rejected", 400, anthropic("invalid_request_error", "max_tokens: 99999 > 64000, the maximum output tokens")),
    ("refused", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy")),
    ("too_long", 413, anthropic("request_too_large", "Request exceeds the maximum size")),
    ("server", 529, anthropic("overloaded_error", "Overloaded")),
    # Google
    ("rate_limited", 429, google_429("GenerateRequestsPerMinutePerProjectPerModel")),
    ("quota", 429, google_429("GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
    ("quota", 429, google_429("GenerateRequestsPerMinutePerProjectPerModel", message="Quota exceeded, limit: 0")),
    ("quota", 429, error("You exceeded your current quota, please check your plan", status="RESOURCE_EXHAUSTED")),
    ("rate_limited", 429, error("Resource has been exhausted (e.g. check quota).", status="RESOURCE_EXHAUSTED")),
    ("auth", 400, error("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT")),
    ("auth", 400, error("User location is not supported for the API use.", status="FAILED_PRECONDITION")),
    ("model_gone", 404, [error("models/gemini-x is not found for API version v1", status="NOT_FOUND")]),
    ("too_long", 400, error("The input token count (1200000) exceeds the maximum number of tokens allowed")),
    ("server", 503, error("The model is overloaded.", status="UNAVAILABLE")),
    # Servers of one's own, and gateways
    ("model_gone", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}),
    ("model_gone", 404, {"error": 'model "x" not found, try pulling it first'}),
    ("too_long", 400, error("the request exceeds the available context size", type="exceed_context_size_error")),
    ("too_long", 500, error("Context size has been exceeded.")),
    ("server", 503, error("Loading model", type="unavailable_error")),
    ("quota", 402, error("Insufficient Balance")),
    ("rejected", 405, "Method Not Allowed"),
    ("rate_limited", 429, "<html>Too many requests</html>"),
]


@pytest.mark.parametrize(("outcome", "status", "body"), CASES)
def test_the_class_of_an_error(outcome, status, body):
    reply = reply_to_error(status, body if isinstance(body, str) else json.dumps(body))
    assert (reply.outcome.value, reply.error.startswith(str(status))) == (outcome, True)


def test_the_table_at_the_top_names_the_rules_in_their_order():
    drawn = re.findall(
        r"^    ([a-z_]+) {2,}(?:[\d]|any)", Path(classify.__file__).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert drawn == [*(rule.outcome.value for rule in classify.RULES), "rejected"]


class WrongName(Exception):
    """As an SDK that calls every lost connection a timeout."""


def caused(outer, inner):
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (TimeoutError(), Outcome.TIMEOUT),
        (caused(TimeoutError(), asyncio.CancelledError()), Outcome.TIMEOUT),
        (aiohttp.SocketTimeoutError(), Outcome.TIMEOUT),
        (caused(WrongName(), aiohttp.ServerTimeoutError()), Outcome.TIMEOUT),
        (caused(WrongName(), aiohttp.ServerDisconnectedError()), Outcome.CONNECTION),
        (ConnectionResetError(), Outcome.CONNECTION),
        (aiohttp.ClientPayloadError(), Outcome.CONNECTION),
        (caused(aiohttp.ClientPayloadError(), ValueError()), Outcome.CONNECTION),
        (ssl.SSLError(), Outcome.CONNECTION),
        (aiohttp.InvalidURL("x"), Outcome.REJECTED),
        (TypeError("unexpected argument"), Outcome.REJECTED),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), Outcome.REJECTED),
    ],
)
def test_the_class_of_an_exception(problem, outcome):
    assert outcome_of_exception(problem) is outcome


def test_an_exception_is_told_by_its_innermost_cause():
    told = reply_to_exception(caused(WrongName("Request timed out."), ConnectionResetError("by peer"))).error
    assert told == "ConnectionResetError: by peer"


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, "", 7.0),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after": "-3"}, "", 0.0),
        ({"retry-after": "7", "retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "", 0.0),
        ({}, '{"retryDelay": "36s"}', 36.0),
        ({}, '{"retryDelay":"0.25s"}', 0.25),
        ({}, "", None),
    ],
)
def test_when_to_come_back(headers, body, seconds):
    assert retry_after(headers, body) == seconds


def test_when_to_come_back_as_a_date():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after({"retry-after": date}) <= 90


def test_an_error_text_is_bounded():
    assert len(reply_to_error(400, json.dumps(error("x" * 9_000))).error) == 2_000

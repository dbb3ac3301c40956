"""OpenAI's errors, and the headers of its answers."""

from deployments.simulator.exchange import Json, Level, Pace, Problem, VendorError, as_seconds

_STATUS = {
    Problem.NO_KEY: 401,
    Problem.BAD_KEY: 401,
    Problem.BAD_REQUEST: 400,
    Problem.NO_MODEL: 404,
    Problem.NO_ROUTE: 404,
    Problem.RATE: 429,
    Problem.QUOTA: 429,
    Problem.RETIRED: 404,
    Problem.SERVER: 500,
    Problem.UNAVAILABLE: 503,
    Problem.OVERLOADED: 503,
}
_UNITS = {"requests": "requests per min (RPM)", "tokens": "tokens per min (TPM)"}


def write_error(error: VendorError, request_id: str) -> tuple[int, Json]:
    message, kind, code = error.message, "invalid_request_error", error.code
    match error.problem:
        case Problem.RATE:
            kind, code = error.excess.unit if error.excess else "requests", "rate_limit_exceeded"
            message = _too_many(error)
        case Problem.QUOTA:
            kind = code = "insufficient_quota"
            message = (
                "You exceeded your current quota, please check your plan and billing details. For more information on "
                "this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
            )
        case Problem.RETIRED:
            code = "model_not_found"
            message = (
                f"The model `{error.model}` has been deprecated, learn more here: "
                "https://platform.openai.com/docs/deprecations"
            )
        case Problem.SERVER:
            kind = "server_error"
            message = (
                "The server had an error while processing your request. Sorry about that! You can retry your request, "
                "or contact us through our help center if the error persists. (Please include the request ID "
                f"{request_id} in your message.)"
            )
        case Problem.UNAVAILABLE:
            kind, message = "server_error", "Service temporarily unavailable."
        case Problem.OVERLOADED:
            kind, message = "service_unavailable_error", "The engine is currently overloaded, please try again later"
        case Problem.NO_ROUTE:
            message = f"Invalid URL ({error.message})"
    body = {"message": message, "type": kind, "param": error.param, "code": code}
    return _STATUS[error.problem], {"error": body}


def _too_many(error: VendorError) -> str:
    excess = error.excess
    message = f"Rate limit reached for {error.model} in organization org-simulated on "
    message += _UNITS[excess.unit if excess else "requests"]
    if excess is not None:
        message += f": Limit {excess.limit}, Used {excess.used}, Requested {excess.requested}"
    message += "."
    if error.retry_after is not None:
        message += f" Please try again in {as_duration(error.retry_after)}."
    return f"{message} Visit https://platform.openai.com/account/rate-limits to learn more."


def headers(request_id: str, pace: Pace | None) -> dict[str, str]:
    """The resets are the times until a limit is full again, not those until the next request may pass."""
    told = {
        "x-request-id": f"req_{request_id}",
        "openai-organization": "org-simulated",
        "openai-version": "2020-10-01",
        "openai-processing-ms": "1",
    }
    if pace is not None:
        _tell(told, "requests", pace.requests)
        _tell(told, "tokens", pace.tokens)
    return told


def _tell(told: dict[str, str], unit: str, level: Level) -> None:
    told[f"x-ratelimit-limit-{unit}"] = str(level.limit)
    told[f"x-ratelimit-remaining-{unit}"] = str(level.remaining)
    told[f"x-ratelimit-reset-{unit}"] = as_duration(level.reset_s)


def as_duration(seconds: float) -> str:
    """As OpenAI writes it: ``120ms``, ``8.64s``, ``6m0s``, ``1h0m0s``; never less than there is."""
    milliseconds = -int(-seconds * 1000 // 1)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    long = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{long}{as_seconds(rest / 1000)}s"

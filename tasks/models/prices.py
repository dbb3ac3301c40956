"""What a response cost, from the price list of genai-prices: US dollars, offline, None where it is not known."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from tasks.models.exchange import Usage

_PROVIDERS = {"openai": "openai", "openai-chat": "openai", "anthropic": "anthropic", "google": "google"}
_TERMS = ("service_tier", "speed")  # parameters of a call that change its price
_MILLION = 1_000_000


def cost_usd(
    api: str, model: str, usage: Usage, *, base_url: str | None = None, params: Mapping[str, Any] | None = None
) -> float | None:
    """The cost of one response of ``model`` (vendor/model), by the prices of today.

    None for a simulated or unknown model, a server at ``base_url`` that is in no price list, and for a usage
    without input or output. Cached tokens have their own price, and so have tokens written to the cache; a long
    prompt may raise the price of all. ``params`` are the model's, for the service tier among them.
    """
    bare = model.partition("/")[2]
    if bare.startswith("sim-") or usage.input is None or usage.output is None:
        return None
    entry = _entry(_PROVIDERS[api], bare, base_url)
    if entry is None:
        return None
    terms = {name: str(params[name]) for name in _TERMS if name in params} if params else None
    prices = entry.get_prices(datetime.now(UTC), terms)
    fresh_rate, output_rate = _rate(prices.input_mtok, usage.input), _rate(prices.output_mtok, usage.input)
    if fresh_rate is None or output_rate is None:
        return None
    cached, written = usage.cached or 0, usage.cache_write or 0
    cached_rate, written_rate = _rate(prices.cache_read_mtok, usage.input), _rate(prices.cache_write_mtok, usage.input)
    dollars = (
        max(0, usage.input - cached - written) * fresh_rate
        + cached * (fresh_rate if cached_rate is None else cached_rate)
        + written * (fresh_rate if written_rate is None else written_rate)
        + usage.output * output_rate
    )
    return float(dollars / _MILLION)


def _rate(price: Any, input_tokens: int) -> Decimal | None:
    """Dollars per million tokens. Beyond a tier's start, the tier's price holds for all tokens."""
    if price is None or isinstance(price, Decimal):
        return price
    rate: Decimal = price.base
    for tier in price.tiers:
        if input_tokens > tier.start:
            rate = tier.price
    return rate


@cache
def _entry(provider: str, model: str, base_url: str | None) -> Any:
    """The model's entry in the price list, None where there is none."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, entry = get_snapshot().find_provider_model(model, None, None if base_url else provider, base_url)
    except LookupError:
        return None
    return entry

"""What a response cost, in US dollars: by the config's own price, else by the price list of genai-prices, offline."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from tasks.models.exchange import Request, Usage
from tasks.settings import Asking, ConfigError, Model, Price

_PROVIDERS = {"openai": "openai", "openai-chat": "openai", "anthropic": "anthropic", "google": "google"}
_TERMS = ("service_tier", "speed")  # parameters of a call that change its price
_OVERHEAD_TOKENS = 500  # what a vendor's own wrapping of a prompt may add


@dataclass(frozen=True)
class Prices:
    """The prices of one model, online and in vendor batches. ``None`` where they are not known."""

    online: Any
    batch: Any

    def cost_usd(self, usage: Usage, *, batch: bool = False) -> float | None:
        """The cost of one response; None where the price, its input or its output is not known.

        Cached tokens have their own price, and so have tokens written to the cache; a long prompt may raise the
        price of all.
        """
        price = self.batch if batch else self.online
        if price is None or usage.input is None or usage.output is None:
            return None
        cached = min(usage.cached or 0, usage.input)
        return _total(price, usage.input, usage.output, cached, min(usage.cache_write or 0, usage.input - cached))

    def most_usd(self, request: Request, *, batch: bool = False) -> float | None:
        """What one response to the request costs at the most: a token has at least a byte, and the cache is cold."""
        price = self.batch if batch else self.online
        if price is None:
            return None
        texts = [message.text for message in request.messages]
        if request.schema is not None:
            texts.append(str(request.schema))
        sent = sum(len(text.encode("utf-8", "replace")) for text in texts) + _OVERHEAD_TOKENS
        costs = [_total(price, sent, request.max_output_tokens, 0, written) for written in (0, sent)]
        return max(costs)


def prices_of(config: Asking, model: Model) -> Prices:
    """The model's prices of today. A simulated model has one only where the config gives it."""
    own = config.prices.get(model.name)
    if own is not None:
        return Prices(_own(own, 1.0), _own(own, own.batch_factor))
    server = config.servers[model.endpoint]
    entry = None if model.simulated else _entry(_PROVIDERS[server.api], model.bare, server.base_url)
    if entry is None:
        return Prices(None, None)
    terms = {name: str(model.params[name]) for name in _TERMS if name in model.params}
    now = datetime.now(UTC)
    found = [entry.get_prices(now, terms), entry.get_prices(now, terms | {"processing": "batch"})]
    whole = [None if price.input_mtok is None or price.output_mtok is None else price for price in found]
    return Prices(*whole)


def check_prices(config: Asking) -> None:
    """A budget can be kept only where every price is known. Raises ``ConfigError``."""
    if config.budget_usd is None:
        return
    unknown = {model.name for model in config.models if prices_of(config, model).online is None}
    if unknown:
        raise ConfigError(
            f"budget_usd: the price of {', '.join(sorted(unknown))} is not known; give it under `prices:`, as "
            "`openai/some-model: {input_usd_per_mtok: 1.25, output_usd_per_mtok: 10}`"
        )


def _total(price: Any, sent: int, received: int, cached: int, written: int) -> float:
    from genai_prices import Usage as Priced

    counts = {"input_tokens": sent, "cache_read_tokens": cached, "cache_write_tokens": written}
    return float(price.calc_price(Priced(**counts, output_tokens=received))["total_price"])


def _own(price: Price, factor: float) -> Any:
    from genai_prices.types import ModelPrice

    cached = price.input_usd_per_mtok if price.cached_input_usd_per_mtok is None else price.cached_input_usd_per_mtok
    rates: Mapping[str, float] = {
        "input_mtok": price.input_usd_per_mtok,
        "cache_read_mtok": cached,
        "cache_write_mtok": price.input_usd_per_mtok,
        "output_mtok": price.output_usd_per_mtok,
    }
    return ModelPrice(**{name: Decimal(str(rate)) * Decimal(str(factor)) for name, rate in rates.items()})


@cache
def _entry(provider: str, model: str, base_url: str | None) -> Any:
    """The model's entry in the price list, None where there is none."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, entry = get_snapshot().find_provider_model(model, None, None if base_url else provider, base_url)
    except LookupError:
        return None
    return entry

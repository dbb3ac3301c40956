"""All models of a run: one client for each server, one limiter for each model, in one event loop.

async with ModelPool(config) as pool:
    reply = await pool.ask(model, Request(call_id, messages, max_output_tokens=1024))
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self

from storage.ids import content_id
from tasks.models.batch import BatchClient
from tasks.models.client import Client
from tasks.models.exchange import Message, Reply, Request, Unsent
from tasks.models.limiter import Limiter
from tasks.models.logs import hide_in_logs
from tasks.models.outcomes import REMEDIES, UNANSWERED, Outcome
from tasks.models.prices import Prices, prices_of
from tasks.settings import Asking, ConfigError, Endpoint, Model

NO_KEY = "sim"  # for the simulator, and any server that asks for none: the SDKs insist on something
CHARACTERS_PER_TOKEN = 4
FIRST_GUESS = 1_000  # output tokens, until answers have come
SPARE_CONNECTIONS = 16
IDLE_S = 120.0  # without a call in hand: longer than a call waits before it is tried again

# The module of each api is imported when the first call needs it: an SDK takes half a second to a second.
_MODULES = {api: f"tasks.models.{api.replace('-', '_')}" for api in ("openai", "openai-chat", "anthropic", "google")}
_SIMULATED_PATHS = {"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": ""}


class Funds(Protocol):
    """Where a call's worst case is set aside before it starts."""

    async def reserve(self, usd: float) -> None:
        """Wait until it fits what is left. Raises ``Unsent`` where it never will."""
        ...

    def settle(self, reserved: float, spent: float) -> None:
        """Give back what was reserved, and count what it cost."""
        ...


@dataclass
class Asked:
    """What a run knows of one model. ``trying_since``: when calls began that no success has come after yet."""

    limiter: Limiter
    prices: Prices
    usual_output: float = FIRST_GUESS
    trying_since: float | None = None
    in_hand: int = 0
    idle_since: float = 0.0


class ModelPool:
    """``stopped`` names the models that no call is made to any more, and why. ``waited`` is told of every reply that
    only said to wait: the model, and for how many seconds, where it said so.

    Raises ``ConfigError`` where the config has a simulator whose url is not known.
    """

    def __init__(
        self,
        config: Asking,
        funds: Funds | None = None,
        waited: Callable[[str, float | None], None] = lambda model, seconds: None,
    ) -> None:
        self._config = config
        self._funds = funds
        self._waited = waited
        self._servers = served(config)
        self._clients: dict[str, Client] = {}
        self._models: dict[str, Asked] = {}
        self._cannot_keep: str | None = None
        self.stopped: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()

    async def ask(
        self, model: Model, request: Request, keep: Callable[[Reply], Awaitable[None]] | None = None
    ) -> Reply:
        """Ask when the model's pace allows it, and again while it only says to wait.

        The call gives up its place when ``keep`` has the reply: there are never more answers that are not kept than
        calls may be in flight. Where it fails, no call is made any more, to any model: what cannot be kept is not
        asked.
        ``latency_s`` is the time of the last call alone, without the wait. A reply of quota, auth or model_gone, and
        no success for the config's stall limit, stop the model. Raises ``Unsent`` for a stopped model, also where the
        call waited for its turn, and where the funds do not reach.
        """
        asked = self._models.get(model.name) or self._add(model)
        client = self._client(asked, model)
        most_usd = asked.prices.most_usd(request)
        clock = asyncio.get_running_loop().time
        if not asked.in_hand and clock() - asked.idle_since > IDLE_S:
            asked.trying_since = None
        asked.in_hand += 1
        try:
            return await self._until_answered(asked, client, model, request, most_usd, keep)
        finally:
            asked.in_hand -= 1
            asked.idle_since = clock()

    async def _until_answered(
        self,
        asked: Asked,
        client: Client,
        model: Model,
        request: Request,
        most_usd: float | None,
        keep: Callable[[Reply], Awaitable[None]] | None,
    ) -> Reply:
        while True:
            async with asked.limiter.slot(_expected_tokens(asked, request), request.rank):
                if (cause := self.stopped.get(model.name) or self._cannot_keep) is not None:
                    raise Unsent(cause)
                if self._funds is not None:
                    await self._funds.reserve(most_usd or 0.0)
                reply = await self._once(asked, client, model, request)
                reply = replace(reply, cost_usd=asked.prices.cost_usd(reply.usage), most_usd=most_usd)
                if not REMEDIES[reply.outcome].waits:
                    if keep is not None:
                        await self._keep(reply, keep)
                    return reply
            self._waited(model.name, reply.retry_after)
            if self._funds is not None:
                self._funds.settle(most_usd or 0.0, 0.0)

    async def _keep(self, reply: Reply, keep: Callable[[Reply], Awaitable[None]]) -> None:
        try:
            await keep(reply)
        except Exception as error:
            self._cannot_keep = str(error)
            raise

    async def _once(self, asked: Asked, client: Client, model: Model, request: Request) -> Reply:
        clock = asyncio.get_running_loop().time
        began = clock()
        if asked.trying_since is None:
            asked.trying_since = began
        reply = await client.ask(model.bare, request)
        latency_s = clock() - began
        if reply.pace is not None:
            asked.limiter.told(reply.pace)
        if reply.outcome in UNANSWERED:
            if reply.outcome is Outcome.RATE_LIMITED:
                asked.limiter.rate_limited(reply.retry_after, began)
            self._check_stall(asked, model, reply)
        else:
            asked.trying_since = None
            asked.limiter.went_well()
            if reply.usage.output is not None:
                asked.usual_output = 0.95 * asked.usual_output + 0.05 * reply.usage.output
        if REMEDIES[reply.outcome].stops_model:
            self._stop(asked, model, f"{reply.outcome} ({reply.error})")
        return replace(reply, latency_s=latency_s)

    def _check_stall(self, asked: Asked, model: Model, reply: Reply) -> None:
        """Stop a model that nothing has come from for the stall limit, or that says that nothing will for as long."""
        now = asyncio.get_running_loop().time()
        if asked.trying_since is None:  # a success has come since this call began
            asked.trying_since = now
        limit = self._config.limits_of(model.name).stall_limit_s
        wait = reply.retry_after or 0.0 if reply.outcome is Outcome.RATE_LIMITED else 0.0
        if now + wait - asked.trying_since > limit:
            why = f"no success for {now - asked.trying_since:.0f} s"
            if wait > 0:
                why += f", and the next call not before {wait:.0f} s"
            self._stop(asked, model, f"{reply.outcome} ({why}; stall_limit_s {limit:g}; {reply.error})")

    def _stop(self, asked: Asked, model: Model, cause: str) -> None:
        asked.limiter.stopped = True
        self.stopped.setdefault(model.name, cause)

    def _add(self, model: Model) -> Asked:
        limiter = Limiter(self._config.limits_of(model.name))
        asked = self._models[model.name] = Asked(limiter, prices_of(self._config, model))
        return asked

    def _client(self, asked: Asked, model: Model) -> Client:
        client = self._clients.get(model.endpoint)
        if client is None:
            missing = key_missing(self._servers[model.endpoint])
            if missing is not None:
                self._stop(asked, model, f"{Outcome.AUTH} (environment variable {missing} is not set)")
                raise Unsent(self.stopped[model.name])
            client = self._clients[model.endpoint] = self._connect(model.endpoint)
        return client

    def _connect(self, name: str) -> Client:
        endpoint = self._servers[name]
        models = {model.name for model in self._config.models if model.endpoint == name}
        calls = sum(self._config.limits_of(model).max_concurrency for model in models)
        client: Client = import_module(_MODULES[endpoint.api]).connect(
            endpoint, key_of(endpoint), calls + SPARE_CONNECTIONS
        )
        return client


def _expected_tokens(asked: Asked, request: Request) -> int:
    sent = sum(len(message.text) for message in request.messages) // CHARACTERS_PER_TOKEN
    return sent + int(min(asked.usual_output, request.max_output_tokens))


def served(config: Asking) -> dict[str, Endpoint]:
    """The servers by name; all of them the simulator where the config has one."""
    if config.simulator is None:
        return config.servers
    if config.simulator.url is None:
        raise ConfigError("simulator: its url is not known; start one (`criticgen simulate`) and give its url")
    url = config.simulator.url.rstrip("/")
    return {
        name: endpoint.model_copy(update={"base_url": url + _SIMULATED_PATHS[endpoint.api], "key_env": None})
        for name, endpoint in config.servers.items()
    }


def batch_client(config: Asking, model: Model) -> BatchClient:
    """A client of the Batch API of the model's server. Raises ``Unsent`` where its key is not set."""
    endpoint = served(config)[model.endpoint]
    if missing := key_missing(endpoint):
        raise Unsent(f"{Outcome.AUTH} (environment variable {missing} is not set)")
    module = f"tasks.models.batch_{endpoint.api.removesuffix('-chat')}"
    client: BatchClient = import_module(module).connect_batches(endpoint, key_of(endpoint))
    return client


def key_missing(endpoint: Endpoint) -> str | None:
    """The name of the environment variable that should hold this server's key and does not: no header takes it."""
    key = os.environ.get(endpoint.key_env, "").strip() if endpoint.key_env else "-"
    return None if key.isascii() and key.isprintable() and key else endpoint.key_env


def missing_keys(config: Asking) -> list[str]:
    """The environment variables that the run's models need and that are not set, by name."""
    if config.simulator is not None:
        return []
    needed = {key_missing(config.servers[model.endpoint]) for model in config.models}
    return sorted(name for name in needed if name is not None)


def require_keys(config: Asking) -> None:
    """Raises ``ConfigError`` that names the environment variables of keys that are not set."""
    if missing := missing_keys(config):
        raise ConfigError(f"set the environment variable{'s' * (len(missing) > 1)} {', '.join(missing)}")


def key_of(endpoint: Endpoint) -> str:
    """The server's API key, or a stand-in where it asks for none. No log shows it from now on."""
    if endpoint.key_env is None:
        return NO_KEY
    key = os.environ[endpoint.key_env].strip()
    hide_in_logs(key)
    return key


async def ping(model: Model, pool: ModelPool) -> Reply:
    """One cheap call, with the limit and the parameters of the run, so that what it shows holds for the run.

    ``truncated`` also shows that server, key and model work: all was spent on thinking.
    """
    messages = (Message("user", "Answer with the one word: ready"),)
    request = Request(content_id("ping", model.name), messages, model.max_output_tokens, params=model.params)
    try:
        return await pool.ask(model, request)
    except Unsent as unsent:
        return Reply(Outcome.AUTH, error=unsent.cause)

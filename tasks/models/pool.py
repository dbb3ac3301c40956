"""All models of a run: one client for each server, one limiter for each model, in one event loop.

async with ModelPool(config) as pool:
    reply = await pool.ask(model, Request(call_id, messages, max_output_tokens=1024))
"""

import os
import time
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import Self

from storage.ids import content_id
from tasks.config import Config, ConfigError, Endpoint, Model
from tasks.models.client import Client
from tasks.models.exchange import Message, Reply, Request
from tasks.models.limiter import Limiter
from tasks.models.outcomes import REMEDIES, Outcome

NO_KEY = "sim"  # for the simulator, and any server that asks for none: the SDKs insist on something
CHARACTERS_PER_TOKEN = 4
FIRST_GUESS = 1_000  # output tokens, until answers have come
SPARE_CONNECTIONS = 16

# The module of each api is imported when the first call needs it: an SDK takes half a second to a second.
_MODULES = {api: f"tasks.models.{api.replace('-', '_')}" for api in ("openai", "openai-chat", "anthropic", "google")}
_SIMULATED_PATHS = {"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": ""}


class ModelPool:
    """Raises ``ConfigError`` where the config has a simulator whose url is not known."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._servers = served(config)
        self._clients: dict[str, Client] = {}
        self._limiters: dict[str, Limiter] = {}
        self._typical_output: dict[str, float] = {}
        self._stopped: dict[str, Reply] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()

    async def ask(self, model: Model, request: Request) -> Reply:
        """Ask when the model's pace allows it. ``latency_s`` is the time of the call alone, without the wait.

        Once a reply has stopped its model (quota, auth, model_gone), the calls that still wait for their turn are
        not made: they get that class and cause, and a reply without ``raw``.
        """
        limiter = self._limiters.get(model.name)
        if limiter is None:
            limiter = self._limiters[model.name] = Limiter(self._config.limits_of(model.name))
        client = self._clients.get(model.endpoint)
        if client is None:
            missing = key_missing(self._servers[model.endpoint])
            if missing is not None:
                return Reply(Outcome.AUTH, error=f"environment variable {missing} is not set")
            client = self._clients[model.endpoint] = self._connect(model.endpoint)
        async with limiter.slot(self._expected_tokens(model, request), request.rank):
            if model.name in self._stopped:
                return self._stopped[model.name]
            began = time.perf_counter()
            reply = await client.ask(model.bare, request)
            latency_s = time.perf_counter() - began
            if REMEDIES[reply.outcome].stops_model:
                self._stopped[model.name] = Reply(
                    reply.outcome, error=f"not asked, since the model said: {reply.error}"
                )
            if reply.outcome is Outcome.RATE_LIMITED:
                limiter.rate_limited(reply.retry_after)
            elif reply.usage.output is not None:
                limiter.went_well()
                usual = self._typical_output.get(model.name, FIRST_GUESS)
                self._typical_output[model.name] = 0.95 * usual + 0.05 * reply.usage.output
        return replace(reply, latency_s=latency_s)

    def _connect(self, name: str) -> Client:
        endpoint = self._servers[name]
        models = {model.name for model in self._config.models if model.endpoint == name}
        calls = sum(self._config.limits_of(model).max_concurrency for model in models)
        client: Client = import_module(_MODULES[endpoint.api]).connect(
            endpoint, _key(endpoint), calls + SPARE_CONNECTIONS
        )
        return client

    def _expected_tokens(self, model: Model, request: Request) -> int:
        sent = sum(len(message.text) for message in request.messages) // CHARACTERS_PER_TOKEN
        usual = self._typical_output.get(model.name, FIRST_GUESS)
        return sent + int(min(usual, request.max_output_tokens))


def served(config: Config) -> dict[str, Endpoint]:
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


def key_missing(endpoint: Endpoint) -> str | None:
    """The name of the environment variable that should hold this server's key and does not."""
    return endpoint.key_env if endpoint.key_env and not os.environ.get(endpoint.key_env, "").strip() else None


def missing_keys(config: Config) -> list[str]:
    """The environment variables that the run's models need and that are not set, by name."""
    if config.simulator is not None:
        return []
    needed = {key_missing(config.servers[model.endpoint]) for model in config.models}
    return sorted(name for name in needed if name is not None)


def _key(endpoint: Endpoint) -> str:
    return os.environ[endpoint.key_env].strip() if endpoint.key_env else NO_KEY


def read(api: str, raw: str) -> Reply:
    """The reply that a body holds, as when it came: for what is in the ledger. Imports no SDK."""
    reply: Reply = import_module(_MODULES[api]).read(raw)
    return reply


async def ping(model: Model, pool: ModelPool) -> Reply:
    """One cheap call, with the limit and the parameters of the run, so that what it shows holds for the run.

    ``truncated`` also shows that server, key and model work: all was spent on thinking.
    """
    messages = (Message("user", "Answer with the one word: ready"),)
    return await pool.ask(
        model, Request(content_id("ping", model.name), messages, model.max_output_tokens, params=model.params)
    )

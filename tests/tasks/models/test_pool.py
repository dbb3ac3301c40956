import asyncio
import json

import pytest
from aiohttp import web

from tasks.config import Config, ConfigError, Endpoint, Model
from tasks.models import Outcome, Reply, Usage, pool as pools
from tasks.models.pool import ModelPool, missing_keys, ping, served

ANSWER = {"choices": [{"finish_reason": "stop", "message": {"content": "ready"}}], "usage": {"completion_tokens": 3}}


def config_of(teacher="sim", **fields):
    names = {"sim": "openai/sim-t", "real": "openai/gpt-5"}
    judge = "anthropic/sim-j" if teacher == "sim" else "anthropic/claude-sonnet-4-5"
    if teacher == "sim":
        fields = {"simulator": {"url": "http://127.0.0.1:7/"}, **fields}
    return Config(
        name="test",
        sources=[{"name": "s", "path": "x.jsonl"}],
        teacher=names[teacher],
        judges=[judge],
        answers={"generators": [names[teacher]]},
        **fields,
    )


def local(url, **fields):
    endpoints = {"local": Endpoint(api="openai-chat", base_url=f"{url}/v1")}
    models = {"teacher": "local/sim-m", "judges": ["local/sim-j"], "answers": {"generators": ["local/sim-m"]}}
    return Config(name="test", sources=[{"name": "s", "path": "x.jsonl"}], endpoints=endpoints, **models, **fields)


def test_the_simulator_stands_in_for_every_server():
    servers = served(config_of(endpoints={"mine": {"api": "openai-chat", "key_env": "MINE"}}))
    assert {name: server.base_url for name, server in servers.items()} == {
        "openai": "http://127.0.0.1:7/v1",
        "anthropic": "http://127.0.0.1:7",
        "google": "http://127.0.0.1:7",
        "mine": "http://127.0.0.1:7/v1",
    }
    assert {server.key_env for server in servers.values()} == {None}


def test_a_simulator_without_a_url_is_an_error_of_the_config():
    with pytest.raises(ConfigError, match="simulator: its url is not known"):
        ModelPool(config_of(simulator={}))


def test_missing_keys_are_named_and_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    assert missing_keys(config_of("real")) == ["ANTHROPIC_API_KEY"]
    assert missing_keys(config_of("sim")) == []


def test_a_call_without_its_key_stops_the_model_and_names_the_variable(monkeypatch, request_of):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def run():
        async with ModelPool(config_of("real")) as pool:
            return await pool.ask(Model(name="openai/gpt-5"), request_of())

    assert asyncio.run(run()) == Reply(Outcome.AUTH, error="environment variable OPENAI_API_KEY is not set")


def test_a_ping_is_one_call_with_the_models_own_parameters(vendors, server):
    vendors.server = server(body=ANSWER)
    model = Model(name="local/sim-m", max_output_tokens=77, params={"temperature": 0})

    async def run():
        async with ModelPool(local(vendors.url)) as pool:
            return await ping(model, pool)

    reply = vendors.loop.run(run())
    assert (reply.outcome, reply.text) == (Outcome.OK, "ready")
    assert 0 < reply.latency_s < 5
    (asked,) = vendors.server.seen
    assert asked["headers"]["Authorization"] == "Bearer sim"
    assert (asked["posted"]["model"], asked["posted"]["max_tokens"], asked["posted"]["temperature"]) == ("sim-m", 77, 0)


class Canned:
    """A client that gives the same reply to all."""

    def __init__(self, reply):
        self.reply = reply
        self.open = True
        self.asked = 0

    async def ask(self, model, request):
        self.asked += 1
        await asyncio.sleep(0)
        return self.reply

    async def aclose(self):
        self.open = False


def canned(monkeypatch, reply):
    client = Canned(reply)
    monkeypatch.setattr(ModelPool, "_connect", lambda pool, name: client)
    return client


def test_a_rate_limit_pauses_its_model_and_no_other(monkeypatch, request_of):
    canned(monkeypatch, Reply(Outcome.RATE_LIMITED, retry_after=0.3))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7")) as pool:
            times = {}
            loop = asyncio.get_running_loop()
            for name in ("local/sim-m", "local/sim-j", "local/sim-m"):
                began = loop.time()
                await pool.ask(Model(name=name), request_of())
                times.setdefault(name, []).append(loop.time() - began)
            return times

    times = asyncio.run(run())
    assert times["local/sim-j"][0] < 0.1
    assert times["local/sim-m"][1] >= 0.25


def test_calls_that_wait_for_a_stopped_model_are_not_made(monkeypatch, request_of):
    client = canned(monkeypatch, Reply(Outcome.QUOTA, raw="{}", error="429: no credit"))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7", limits={"default": {"max_concurrency": 2}})) as pool:
            return await asyncio.gather(*(pool.ask(Model(name="local/sim-m"), request_of()) for _ in range(9)))

    replies = asyncio.run(run())
    assert client.asked == 2
    assert {reply.outcome for reply in replies} == {Outcome.QUOTA}
    assert replies[-1] == Reply(Outcome.QUOTA, error="not asked, since the model said: 429: no credit")


def test_waiting_for_a_place_is_no_latency(monkeypatch, request_of):
    canned(monkeypatch, Reply(Outcome.OK, "x", usage=Usage(1, 0, 1)))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7")) as pool:
            model = Model(name="local/sim-m")
            await pool.ask(model, request_of())
            pool._limiters[model.name].pause(0.2)
            return await pool.ask(model, request_of())

    assert asyncio.run(run()).latency_s < 0.1


def test_one_client_serves_a_server_and_is_closed_at_the_end(monkeypatch, request_of):
    client = canned(monkeypatch, Reply(Outcome.OK, "x"))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7")) as pool:
            for name in ("local/sim-m", "local/sim-j"):
                await pool.ask(Model(name=name), request_of())
            assert list(pool._clients) == ["local"]
            assert client.open

    asyncio.run(run())
    assert not client.open


def test_a_server_gets_as_many_connections_as_calls_may_be_in_flight(monkeypatch, vendors, server, request_of):
    most = now = 0

    async def hold(request):
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.3)
        now -= 1
        return web.json_response(ANSWER)

    vendors.server = server(behave=hold)
    limits = {"default": {"max_concurrency": 120}}

    async def run():
        async with ModelPool(local(vendors.url, limits=limits)) as pool:
            model = Model(name="local/sim-m")
            await asyncio.gather(*(pool.ask(model, request_of()) for _ in range(120)))

    vendors.loop.run(run())
    assert most == 120


def test_a_body_can_be_read_back(request_of):
    assert pools.read("openai-chat", json.dumps(ANSWER)).text == "ready"

import asyncio

import pytest
from aiohttp import web

from tasks.config import Config
from tasks.models import Outcome, Reply, Unsent, Usage
from tasks.models.pool import ModelPool, missing_keys, ping, served
from tasks.settings import ConfigError, Endpoint, Model

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
            model = Model(name="openai/gpt-5")
            with pytest.raises(Unsent, match=r"^auth \(environment variable OPENAI_API_KEY is not set\)$"):
                await pool.ask(model, request_of())
            return await ping(model, pool)

    assert asyncio.run(run()).outcome is Outcome.AUTH


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
    """A client that gives its replies in turn, the last of them for ever."""

    def __init__(self, *replies):
        self.replies = replies
        self.open = True
        self.asked = 0

    async def ask(self, model, request):
        self.asked += 1
        await asyncio.sleep(0)
        return self.replies[min(self.asked, len(self.replies)) - 1]

    async def aclose(self):
        self.open = False


def canned(monkeypatch, *replies):
    client = Canned(*replies)
    monkeypatch.setattr(ModelPool, "_connect", lambda pool, name: client)
    return client


OK = Reply(Outcome.OK, "x", usage=Usage(1, 0, 1))


def test_a_rate_limit_pauses_its_model_and_no_other_and_is_no_answer(monkeypatch, request_of):
    client = canned(monkeypatch, Reply(Outcome.RATE_LIMITED, retry_after=0.4), OK)

    async def run():
        async with ModelPool(local("http://127.0.0.1:7")) as pool:
            loop = asyncio.get_running_loop()
            began = loop.time()
            limited = asyncio.create_task(pool.ask(Model(name="local/sim-m"), request_of()))
            await asyncio.sleep(0.05)
            await pool.ask(Model(name="local/sim-j"), request_of())
            other = loop.time() - began
            return (await limited).outcome, loop.time() - began, other

    outcome, waited, other = asyncio.run(run())
    assert outcome is Outcome.OK
    assert client.asked == 3
    assert other < 0.3 < 0.39 < waited


def ask_all(number, request_of, **limits):
    """The causes of calls that were not made, and the number of replies."""

    async def run():
        async with ModelPool(local("http://127.0.0.1:7", limits={"default": limits})) as pool:
            calls = (pool.ask(Model(name="local/sim-m"), request_of()) for _ in range(number))
            return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(run())
    return [str(one) for one in found if isinstance(one, Unsent)], sum(isinstance(one, Reply) for one in found)


def test_calls_that_wait_for_a_stopped_model_are_not_made(monkeypatch, request_of):
    client = canned(monkeypatch, Reply(Outcome.QUOTA, raw="{}", error="429: no credit"))
    unsent, replies = ask_all(9, request_of, max_concurrency=2)
    assert client.asked == replies == 2
    assert unsent == ["quota (429: no credit)"] * 7


def test_a_model_that_only_says_to_wait_is_stopped_after_the_stall_limit(monkeypatch, request_of):
    canned(monkeypatch, Reply(Outcome.RATE_LIMITED, retry_after=0.1, error="429: slow down"))
    unsent, replies = ask_all(3, request_of, stall_limit_s=0.35)
    assert replies == 0
    assert len(unsent) == 3
    assert "stall_limit_s 0.35; 429: slow down" in unsent[0]


def test_a_wait_beyond_the_stall_limit_is_not_waited_for(monkeypatch, request_of):
    client = canned(monkeypatch, Reply(Outcome.RATE_LIMITED, retry_after=7_200.0))
    unsent, _ = ask_all(40, request_of, stall_limit_s=600)
    assert len(unsent) == 40
    assert client.asked <= 16
    assert "the next call not before 7200 s" in unsent[0]


def test_a_success_in_between_is_no_stall(monkeypatch, request_of):
    limited = Reply(Outcome.RATE_LIMITED, retry_after=0.1)
    canned(monkeypatch, *[limited, limited, OK] * 4)
    unsent, replies = ask_all(4, request_of, stall_limit_s=0.35, max_concurrency=1)
    assert (unsent, replies) == ([], 4)


def test_server_faults_alone_are_given_back_at_once_and_stop_the_model_when_nothing_else_comes(monkeypatch, request_of):
    canned(monkeypatch, Reply(Outcome.SERVER, error="500"))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7", limits={"default": {"stall_limit_s": 0.2}})) as pool:
            model, kept = Model(name="local/sim-m"), asyncio.Event()

            async def go_on():
                while True:
                    assert (await pool.ask(model, request_of())).outcome is Outcome.SERVER
                    kept.set()
                    await asyncio.sleep(0.01)

            async def ask_until_stopped():
                with pytest.raises(Unsent, match="server"):
                    await go_on()

            await asyncio.gather(*(ask_until_stopped() for _ in range(20)))
            assert kept.is_set()

    asyncio.run(asyncio.wait_for(run(), 5))


def test_waiting_for_a_place_is_no_latency(monkeypatch, request_of):
    canned(monkeypatch, Reply(Outcome.OK, "x", usage=Usage(1, 0, 1)))

    async def run():
        async with ModelPool(local("http://127.0.0.1:7")) as pool:
            model = Model(name="local/sim-m")
            await pool.ask(model, request_of())
            pool._models[model.name].limiter.pause(0.2)
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
    limits = {"default": {"max_concurrency": 120, "min_concurrency": 120}}

    async def run():
        async with ModelPool(local(vendors.url, limits=limits)) as pool:
            model = Model(name="local/sim-m")
            await asyncio.gather(*(pool.ask(model, request_of()) for _ in range(120)))

    vendors.loop.run(run())
    assert most == 120


@pytest.mark.parametrize("key", ["", "  ", "sk-a\nb", "sk-\u00e4", "sk-\x1b"])
def test_a_key_that_no_header_takes_is_no_key(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", " sk-good \n")
    assert missing_keys(config_of("real")) == ["OPENAI_API_KEY"]


def test_there_are_never_more_answers_unkept_than_calls_may_be_in_flight(monkeypatch, request_of):
    canned(monkeypatch, OK)
    most = now = 0

    async def keep(reply):
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    async def run():
        async with ModelPool(local("http://127.0.0.1:7", limits={"default": {"max_concurrency": 3}})) as pool:
            await asyncio.gather(*(pool.ask(Model(name="local/sim-m"), request_of(), keep) for _ in range(20)))

    asyncio.run(run())
    assert most == 3


def test_what_cannot_be_kept_is_not_asked_any_more_of_any_model(monkeypatch, request_of):
    client = canned(monkeypatch, OK)

    async def keep(reply):
        raise OSError(28, "No space left on device")

    async def run():
        async with ModelPool(local("http://127.0.0.1:7", limits={"default": {"max_concurrency": 1}})) as pool:
            calls = [pool.ask(Model(name="local/sim-m"), request_of(), keep) for _ in range(9)]
            found = await asyncio.gather(*calls, return_exceptions=True)
            with pytest.raises(Unsent, match="No space left on device"):
                await pool.ask(Model(name="local/sim-j"), request_of(), keep)
            return found

    assert [type(error) for error in asyncio.run(run())] == [OSError, *[Unsent] * 8]
    assert client.asked == 1

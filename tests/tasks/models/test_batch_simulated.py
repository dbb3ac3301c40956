"""The clients of the Batch APIs against the simulated vendors, with every way in which a batch can go wrong."""

import asyncio
from collections import Counter
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module

import pytest
from batch_vendor import APIS, VENDORS, connect

from deployments.simulator.knobs import Knobs
from deployments.simulator.server import start
from tasks.models import Message, Outcome, Request, batch_google
from tasks.models.batch import BatchFailure
from tasks.settings import Endpoint

MODEL = "sim-small"
CALLS = [f"call{number:02}" for number in range(24)]
IDS = sorted(f"{call}-S1" for call in CALLS)


def request_of(call):
    question = f"Ann packs {int(call[4:]) + 3} crates of 4 pears and gives 2 away. How many are left?"
    return Request(call, (Message("system", "Answer the question."), Message("user", question)), 4000)


@asynccontextmanager
async def simulated(api, **knobs):
    """A client at a simulator of its own."""
    runner, url = await start(Knobs.of({"batch_s": 0.1, **knobs}), 0)
    client = connect(api, url)
    try:
        yield client, url
    finally:
        await client.aclose()
        await runner.cleanup()


def items_of(client, submission="S1", calls=CALLS):
    return [client.item(MODEL, f"{call}-{submission}", request_of(call)) for call in calls]


async def ended(client, batch):
    words = set()
    async with asyncio.timeout(20):
        while not (looked := await client.look(batch)).ended:
            words.add(looked.status)
            await asyncio.sleep(0.03)
    return looked, words


async def run_batch(client):
    """A batch from its creation to its end: what is last seen of it, the words before, and its results."""
    batch = await client.create("S1", MODEL, items_of(client))
    looked, words = await ended(client, batch)
    async with aclosing(client.results(batch)) as results:
        return looked, words, [result async for result in results]


def ids(results):
    return [result.custom_id for result in results]


def outcomes(results):
    return Counter(result.reply.outcome for result in results)


def in_a_batch(api, **knobs):
    async def run():
        async with simulated(api, **knobs) as (client, _):
            return await run_batch(client)

    return asyncio.run(run())


@pytest.mark.parametrize("api", APIS)
def test_a_batch_answers_what_the_online_client_is_answered(api):
    async def run():
        async with simulated(api) as (client, url):
            _, _, results = await run_batch(client)
            prefix = "/v1" if api.startswith("openai") else ""
            endpoint = Endpoint(api=api, base_url=url + prefix)
            online = import_module(f"tasks.models.{api.replace('-', '_')}").connect(endpoint, "none", 8)
            replies = {call: await online.ask(MODEL, request_of(call)) for call in CALLS}
            await online.aclose()
            return results, replies

    results, replies = asyncio.run(run())
    assert sorted(ids(results)) == IDS
    for result in results:
        same = replies[result.custom_id.removesuffix("-S1")]
        assert (result.reply.outcome, result.reply.text) == (Outcome.OK, same.text)
        assert result.reply.usage == same.usage


def test_google_answers_a_file_as_it_does_a_creation(monkeypatch):
    inline = in_a_batch("google")[2]
    monkeypatch.setattr(batch_google, "INLINE_BYTES", 0)
    in_a_file = in_a_batch("google")[2]
    assert sorted(ids(in_a_file)) == IDS
    assert {one.custom_id: one.reply.text for one in in_a_file} == {one.custom_id: one.reply.text for one in inline}


@pytest.mark.parametrize("api", VENDORS)
def test_results_out_of_order_belong_to_their_calls(api):
    results = in_a_batch(api, batch_swap=1)[2]
    assert ids(results) != IDS
    assert sorted(ids(results)) == IDS


@pytest.mark.parametrize("api", VENDORS)
def test_every_item_may_have_failed(api):
    looked, _, results = in_a_batch(api, batch_all_fail=1)
    assert (looked.ended, looked.error) == (True, None)
    assert (sorted(ids(results)), outcomes(results)) == (IDS, {Outcome.SERVER: 24})


@pytest.mark.parametrize("api", VENDORS)
def test_results_may_be_strange_twice_or_missing(api):
    results = in_a_batch(api, batch_unknown=1, batch_duplicate=0.3, batch_missing=0.3)[2]
    seen = Counter(ids(results))
    assert len([name for name in seen if name not in IDS]) == 1
    assert 0 < len(set(seen) & set(IDS)) < 24
    assert max(seen.values()) == 2
    assert outcomes(results) == {Outcome.OK: len(results)}


@pytest.mark.parametrize("api", VENDORS)
def test_an_expired_batch_has_the_results_of_what_ran(api):
    looked, _, results = in_a_batch(api, batch_expire=1)
    assert (looked.ended, looked.error) == (True, None)
    seen = outcomes(results)
    assert 0 < seen[Outcome.OK] < 24
    if api != "google":  # it has no result at all of what never ran
        assert seen == {Outcome.OK: seen[Outcome.OK], Outcome.EXPIRED: 24 - seen[Outcome.OK]}


@pytest.mark.parametrize("api", VENDORS)
def test_a_cancelled_batch_has_the_results_of_what_ran(api):
    async def run():
        async with simulated(api, batch_s=30) as (client, _):
            batch = await client.create("S1", MODEL, items_of(client))
            await client.cancel(batch)
            looked, _ = await ended(client, batch)
            await client.cancel(batch)
            return looked, [result async for result in client.results(batch)]

    looked, results = asyncio.run(run())
    assert looked.error is None
    seen = outcomes(results)
    assert 0 < seen[Outcome.OK] < 24
    if api != "google":
        assert seen == {Outcome.OK: seen[Outcome.OK], Outcome.CANCELLED: 24 - seen[Outcome.OK]}


@pytest.mark.parametrize("api", ["openai", "google"])
def test_a_batch_may_fail_as_a_whole(api):
    looked, _, results = in_a_batch(api, batch_invalid=1)
    assert looked.ended
    assert looked.error.outcome is Outcome.REJECTED
    assert results == []


def test_anthropic_refuses_a_batch_as_a_whole():
    with pytest.raises(BatchFailure) as caught:
        in_a_batch("anthropic", batch_invalid=1)
    assert caught.value.reply.outcome is Outcome.REJECTED


@pytest.mark.parametrize("api", VENDORS)
def test_the_limit_of_enqueued_tokens_is_a_limit_of_pace(api):
    if api == "openai":
        error = in_a_batch(api, batch_enqueued_tokens=10)[0].error
    else:
        with pytest.raises(BatchFailure) as caught:
            in_a_batch(api, batch_enqueued_tokens=10)
        error = caught.value.reply
    assert error.outcome is Outcome.RATE_LIMITED


@pytest.mark.parametrize("api", VENDORS)
def test_strange_words_and_counts_as_text_change_nothing(api):
    looked, words, results = in_a_batch(api, batch_strange_status=1, batch_string_counts=1)
    assert sorted(ids(results)) == IDS
    assert looked.status in ("completed", "ended", "BATCH_STATE_SUCCEEDED", "JOB_STATE_SUCCEEDED")
    assert looked.status not in words


@pytest.mark.parametrize("api", VENDORS)
def test_a_batch_whose_creation_was_not_confirmed_is_found(api):
    async def run():
        async with simulated(api, batch_lost=1, batch_unknown=1, batch_string_counts=1, batch_s=0.3) as (client, _):
            began = datetime.now(UTC)
            for submission, calls in (("S1", CALLS), ("S2", CALLS), ("S3", CALLS[:9])):
                with pytest.raises(BatchFailure) as caught:
                    await client.create(submission, MODEL, items_of(client, submission, calls))
                assert caught.value.reply.outcome is Outcome.CONNECTION
            if api == "anthropic":
                with pytest.raises(BatchFailure) as caught:
                    await client.find("S1", 24, began)
                assert caught.value.reply.outcome is Outcome.SERVER
                await asyncio.sleep(0.6)
            batch = await client.find("S1", 24, began)
            assert batch is not None
            await ended(client, batch)
            assert await client.find("S4", 24, began) is None
            return [result async for result in client.results(batch)]

    seen = ids(asyncio.run(run()))
    assert sorted(name for name in seen if name.endswith("-S1")) == IDS


@pytest.mark.parametrize("api", VENDORS)
def test_a_batch_that_is_not_there_is_no_fault_of_the_key(api):
    async def run():
        async with simulated(api) as (client, _):
            with pytest.raises(BatchFailure) as caught:
                await client.look("batches/nothing" if api == "google" else "nothing")
            return caught.value.reply

    assert asyncio.run(run()).outcome is Outcome.REJECTED


@pytest.mark.parametrize("api", ["openai", "openai-chat", "anthropic"])
def test_a_bad_item_fails_alone(api):
    async def run():
        async with simulated(api) as (client, _):
            messages = request_of(CALLS[0]).messages
            bad = client.item(MODEL, "bad-S1", Request("bad", messages, 4000, params={"no_such": 1}))
            batch = await client.create("S1", MODEL, [*items_of(client), bad])
            await ended(client, batch)
            return [result async for result in client.results(batch)]

    results = {result.custom_id: result.reply.outcome for result in asyncio.run(run())}
    assert results == dict.fromkeys(IDS, Outcome.OK) | {"bad-S1": Outcome.REJECTED}

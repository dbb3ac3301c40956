"""What is the same for all four clients, through the real SDKs against a server of our own."""

import asyncio
import json
from importlib import import_module

import pytest
from aiohttp import web

from tasks.models import Outcome, Usage
from tasks.settings import Endpoint

APIS = ["openai", "openai-chat", "anthropic", "google"]

GOOD = {
    "openai": {
        "id": "resp_1",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Four €"}]}],
        "usage": {"input_tokens": 9, "output_tokens": 3},
    },
    "openai-chat": {
        "id": "chat_1",
        "choices": [{"finish_reason": "stop", "message": {"content": "Four €"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    },
    "anthropic": {
        "id": "msg_1",
        "content": [{"type": "text", "text": "Four €"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    },
    "google": {
        "candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "Four €"}]}}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3},
        "responseId": "gem_1",
    },
}
PATHS = {
    "openai": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "google": "/v1/models/some-model:generateContent",
}
KEY_HEADERS = {
    "openai": "Authorization",
    "openai-chat": "Authorization",
    "anthropic": "Authorization",
    "google": "x-goog-api-key",
}


@pytest.mark.parametrize("api", APIS)
def test_an_answer_comes_back_with_its_body_as_it_came(api, server, ask):
    body = json.dumps(GOOD[api], ensure_ascii=False, indent=1)
    vendor = server(body=body)
    reply = ask(api, vendor)
    assert (reply.outcome, reply.text, reply.raw) == (Outcome.OK, "Four €", body)
    assert (reply.usage.input, reply.usage.output) == (9, 3)
    assert reply.request_id in ("resp_1", "chat_1", "msg_1", "gem_1")
    assert vendor.seen[0]["path"] == PATHS[api]
    assert vendor.seen[0]["headers"]["X-Client-Request-Id"] == "c0ffee"
    assert vendor.seen[0]["headers"][KEY_HEADERS[api]].removeprefix("Bearer ") == "sk-test-0123456789abcdef"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("body", ['{"id": "cut o', "", "<html>Bad gateway</html>", "[1, 2]"])
def test_a_broken_body_is_a_broken_connection(api, body, server, ask):
    reply = ask(api, server(body=body))
    assert (reply.outcome, reply.raw) == (Outcome.CONNECTION, body)


@pytest.mark.parametrize("api", APIS)
def test_bytes_that_are_not_utf8_are_kept_readable(api, server, ask):
    reply = ask(api, server(body=b'{"id": "\xff\xfe"'))
    assert (reply.outcome, reply.raw) == (Outcome.CONNECTION, '{"id": "\\xff\\xfe"')


@pytest.mark.parametrize("api", APIS)
def test_an_escaped_lone_surrogate_does_not_break_the_answer(api, server, ask):
    body = json.dumps(GOOD[api]).replace("Four", "Four\\ud800")
    assert ask(api, server(body=body)).text == "Four\ud800 €"


@pytest.mark.parametrize("api", APIS)
def test_a_failed_request_is_made_once_and_says_when_to_come_back(api, server, ask):
    vendor = server(status=429, body={"error": {"message": "slow down"}}, headers={"Retry-After": "7"})
    reply = ask(api, vendor)
    assert (reply.outcome, reply.retry_after, reply.raw) == (
        Outcome.RATE_LIMITED, 7.0, '{"error": {"message": "slow down"}}',
    )  # fmt: skip
    assert len(vendor.seen) == 1


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [500, 503, 529])
def test_an_error_page_that_is_not_json_keeps_its_status(api, status, server, ask):
    reply = ask(api, server(status=status, body="<html>overloaded</html>"))
    assert (reply.outcome, reply.raw, reply.error) == (
        Outcome.SERVER, "<html>overloaded</html>", f"{status}: <html>overloaded</html>",
    )  # fmt: skip


@pytest.mark.parametrize("api", APIS)
def test_a_dropped_connection_is_no_timeout_and_is_not_tried_again(api, server, ask):
    async def drop(request):
        request.transport.abort()
        return web.Response()

    vendor = server(behave=drop)
    assert ask(api, vendor).outcome is Outcome.CONNECTION
    assert len(vendor.seen) == 1


@pytest.mark.parametrize("api", APIS)
def test_a_body_that_breaks_off_is_a_broken_connection(api, server, ask):
    async def break_off(request):
        response = web.StreamResponse(headers={"Content-Length": "500", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"id": "x", ')
        request.transport.close()
        return response

    assert ask(api, server(behave=break_off)).outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", APIS)
def test_no_answer_in_time_is_a_timeout(api, server, ask):
    async def sleep(request):
        await asyncio.sleep(5)

    reply = ask(api, server(behave=sleep), timeout_s=0.3)
    assert (reply.outcome, reply.error) == (Outcome.TIMEOUT, "no answer within 0.3 s")


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_trickles_for_ever_is_a_timeout(api, server, ask):
    async def trickle(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(50):
            await response.write(b" ")
            await asyncio.sleep(0.1)
        return response

    assert ask(api, server(behave=trickle), timeout_s=0.4).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_is_not_there_is_a_failed_connection(api, request_of):
    async def run():
        endpoint = Endpoint(api=api, base_url="http://127.0.0.1:9", timeout_s=5)
        client = import_module(f"tasks.models.{api.replace('-', '_')}").connect(endpoint, "none", 8)
        reply = await client.ask("m", request_of())
        await client.aclose()
        return reply

    assert asyncio.run(run()).outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", APIS)
def test_the_key_is_in_no_reply(api, server, ask):
    body = {"error": {"message": "Incorrect API key provided: sk-test-0123456789abcdef, or sk-test-****cdef"}}
    reply = ask(api, server(status=401, body=body))
    assert reply.outcome is Outcome.AUTH
    assert reply.error == "401: Incorrect API key provided: [key], or [key]"
    assert "0123456789" not in repr(reply)


@pytest.mark.parametrize("api", APIS)
def test_a_request_that_cannot_be_made_is_rejected_and_not_sent(api, server, ask):
    vendor = server(body=GOOD[api])
    assert ask(api, vendor, params={"no_such_parameter": object()}).outcome is Outcome.REJECTED
    assert vendor.seen == []


@pytest.mark.parametrize("api", APIS)
def test_an_overflow_fails_with_the_sizes(api, server, ask):
    reply = ask(api, server(status=400, body={"error": {"message": "input exceeds the context window"}}))
    assert reply.outcome is Outcome.TOO_LONG
    assert reply.error == "400: input exceeds the context window (23 characters sent, max_output_tokens 64)"


@pytest.mark.parametrize("api", APIS)
def test_a_cancelled_call_is_cancelled(api, server, vendors, request_of):
    async def sleep(request):
        await asyncio.sleep(5)

    async def run():
        call = asyncio.create_task(vendors.client(api).ask("m", request_of()))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    vendors.server = server(behave=sleep)
    vendors.loop.run(run())


@pytest.mark.parametrize("api", APIS)
def test_the_known_usage_of_a_failed_answer_is_kept(api, server, ask):
    body = {**GOOD[api]}
    if api == "openai":
        body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    elif api == "openai-chat":
        body |= {"choices": [{"finish_reason": "length", "message": {"content": None}}]}
    elif api == "anthropic":
        body |= {"content": [], "stop_reason": "max_tokens"}
    else:
        body |= {"candidates": [{"finishReason": "MAX_TOKENS"}]}
    reply = ask(api, server(body=body))
    assert (reply.outcome, reply.text) == (Outcome.TRUNCATED, None)
    assert (reply.usage.input, reply.usage.output) == (9, 3)
    assert reply.usage != Usage()

"""What one line of a vendor's batch results says, by the pure functions that read it."""

import asyncio
from functools import partial

import pytest

from tasks.models import Outcome, batch_anthropic, batch_google, batch_openai, openai, openai_chat
from tasks.models.batch_wire import raw_items, raw_part, split

READ = {
    "openai": partial(batch_openai.read_line, read=openai.read),
    "openai-chat": partial(batch_openai.read_line, read=openai_chat.read),
    "anthropic": batch_anthropic.read_line,
    "google": batch_google.read_line,
}
# Spaces, escapes, a name that no SDK knows and a number that floats cannot hold: none of it may be written anew.
BODY = {
    "openai": r'{ "id":"r1","status":"completed", "new_field": 1.10e5, "usage": {"input_tokens":9,"output_tokens":3},'
    r' "output":[{"type":"message","content":[{"type":"output_text","text":"Vier \u20ac"}]}]}',
    "openai-chat": r'{"choices" : [{"finish_reason":"stop","message":{"content":"Vier \u20ac"}}],'
    r'"n":12345678901234567890,"usage":{"prompt_tokens":9,"completion_tokens":3}}',
    "anthropic": r'{"id":"m1", "content":[{"type":"text","text":"Vier \u20ac"}],"stop_reason":"end_turn" ,'
    r'"usage":{"input_tokens":9,"output_tokens":3}}',
    "google": r'{"candidates":[ {"finishReason":"STOP","content":{"parts":[{"text":"Vier \u20ac"}]}}],'
    r'"responseId":"g1","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}}',
}
OPENAI_LINE = '{"custom_id": "c-S", "response": {"status_code": 200, "request_id": "req_7", "body": %s}, "error": null}'
LINE = {
    "openai": OPENAI_LINE,
    "openai-chat": OPENAI_LINE,
    "anthropic": '{"custom_id":"c-S","result":{"type":"succeeded","message": %s }}',
    "google": '{"response": %s, "key": "c-S"}',
}


@pytest.mark.parametrize("api", READ)
def test_an_answer_is_read_as_online_and_kept_as_it_stands(api):
    line = LINE[api] % BODY[api]
    result = READ[api](line)
    assert (result.custom_id, result.line) == ("c-S", line)
    assert (result.reply.outcome, result.reply.text, result.reply.raw) == (Outcome.OK, "Vier €", BODY[api])
    assert (result.reply.usage.input, result.reply.usage.output) == (9, 3)
    assert result.reply.request_id == {"anthropic": "m1", "google": "g1"}.get(api, "req_7")


@pytest.mark.parametrize("api", READ)
@pytest.mark.parametrize("line", ['{"custom_id": "c-S", "respo', "<html>busy</html>", "[]", "7", "[" * 5000])
def test_a_line_that_is_no_result_belongs_to_nobody(api, line):
    result = READ[api](line)
    assert (result.custom_id, result.line, result.reply.outcome) == (None, line, Outcome.CONNECTION)


@pytest.mark.parametrize("api", READ)
def test_a_line_nested_too_deeply_is_one_broken_result(api):
    line = LINE[api] % ('{"a":' * 5000 + "1" + "}" * 5000)
    assert READ[api](line).reply.outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", READ)
@pytest.mark.parametrize("custom_id", ['""', "7", "null", '["c-S"]'])
def test_a_custom_id_that_is_no_text_is_none(api, custom_id):
    line = (LINE[api] % BODY[api]).replace('"c-S"', custom_id)
    assert READ[api](line).custom_id is None


OPENAI_SAYS = [
    (
        '"response": null, "error": {"code": "batch_expired", "message": "too late"}',
        "expired",
        "batch_expired: too late",
    ),
    (
        '"response": null, "error": {"code": "batch_cancelled", "message": "stopped"}',
        "cancelled",
        "batch_cancelled: stopped",
    ),
    ('"response": null, "error": {"code": "server_error", "message": "oh"}', "server", "500 server_error: oh"),
    ('"response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}', "rate_limited", "429: slow down"),
    (
        '"response": {"status_code": "400", "body": {"error": {"message": "bad", "code": "odd"}}}',
        "rejected",
        "400 odd: bad",
    ),
    ('"response": {"status_code": 502, "body": "<html>"}, "error": null', "server", '502: "<html>"'),
    (
        '"response": {"status_code": 400, "body": {"error": {"code": "context_length_exceeded", "message": "long"}}}',
        "too_long",
        "400 context_length_exceeded: long",
    ),
    (
        '"response": {"status_code": 401, "body": {"error": {"message": "Incorrect API key: sk-proj-abcdefgh1234"}}}',
        "auth",
        "401: Incorrect API key: [key]",
    ),
    ('"response": null, "error": null', "connection", "a result without a response and without an error"),
    ('"error": {}', "connection", "a result without a response and without an error"),
]
ANTHROPIC_SAYS = [
    ('{"type": "expired"}', "expired", "expired: the batch ended before this request ran"),
    ('{"type": "canceled"}', "cancelled", "canceled: the batch ended before this request ran"),
    (
        '{"type": "errored", "error": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}}',
        "server",
        "529 overloaded_error: busy",
    ),
    (
        '{"type": "errored", "error": {"error": {"type": "invalid_request_error", "message": "prompt is too long"}}}',
        "too_long",
        "400 invalid_request_error: prompt is too long",
    ),
    ('{"type": "postponed"}', "server", "a result of the type postponed"),
    ('{"type": "succeeded"}', "server", "a result of the type succeeded"),
    ("null", "server", "a result of the type None"),
]
GOOGLE_SAYS = [
    ('"error": {"code": 8, "message": "busy", "details": [{"retryDelay": "30s"}]}', "rate_limited", "429: busy"),
    ('"error": {"code": 13, "message": "oh"}', "server", "500: oh"),
    ('"error": {"code": 3, "message": "bad"}', "rejected", "400: bad"),
    ('"error": {"code": 1, "message": "stopped"}', "cancelled", "499: stopped"),
    ('"error": {"code": 400, "message": "bad"}', "rejected", "400: bad"),
    (
        '"error": {"code": [], "status": "NOT_FOUND", "message": "model gone"}',
        "model_gone",
        "404 NOT_FOUND: model gone",
    ),
    ('"response": {}', "connection", "a result without a response and without an error"),
    ('"response": {"promptFeedback": {"blockReason": "SAFETY"}}', "refused", "the prompt was blocked: SAFETY"),
]


@pytest.mark.parametrize(
    ("api", "line", "outcome", "error"),
    [("openai", f'{{"custom_id": "c-S", {says}}}', *rest) for says, *rest in OPENAI_SAYS]
    + [("anthropic", f'{{"custom_id": "c-S", "result": {says}}}', *rest) for says, *rest in ANTHROPIC_SAYS]
    + [("google", f'{{"metadata": {{"key": "c-S"}}, {says}}}', *rest) for says, *rest in GOOGLE_SAYS],
)
def test_what_failed_has_its_class_and_what_the_vendor_said(api, line, outcome, error):
    result = READ[api](line)
    assert (result.custom_id, result.reply.outcome, result.reply.error) == ("c-S", outcome, error)
    assert result.reply.raw is not None
    assert result.reply.raw in line


def test_google_says_when_to_come_back():
    line = '{"key": "k", "error": {"code": 8, "details": [{"retryDelay": "30s"}]}}'
    assert batch_google.read_line(line).reply.retry_after == 30.0


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (("a",), r'{ "b" : [1, {"c":"\u20ac"}] , "a":2 }'),
        (("a", "b"), r'[1, {"c":"\u20ac"}]'),
        (("a", "a"), "2"),
        (("d",), "1.0"),
        (("e",), "null"),
        (("a", "c"), None),
        (("d", "x"), None),
        (("x",), None),
    ],
)
def test_a_part_of_json_is_cut_out_as_it_stands(path, part):
    assert raw_part(r' {"a": { "b" : [1, {"c":"\u20ac"}] , "a":2 }, "d":1.0,"e" :null}', *path) == part


def test_the_items_of_a_list_are_cut_out_as_they_stand():
    assert list(raw_items(' [ {"a" : "],["} ,2, [ ] ]')) == ['{"a" : "],["}', "2", "[ ]"]
    assert list(raw_items("[ ]")) == list(raw_items("{}")) == list(raw_items("")) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_are_cut_in_pieces(size):
    data = "one\r\n\n  \ntwo \u2028 \x85 lines\nlast".encode()

    async def run():
        async def chunks():
            for at in range(0, len(data), size):
                yield data[at : at + size]

        return [line.decode() async for line in split(chunks())]

    assert asyncio.run(run()) == ["one", "two \u2028 \x85 lines", "last"]

"""The clients of the Batch APIs through the real SDKs: what they send, and how they see where a batch stands."""

import json

import pytest
from batch_vendor import APIS, ONE, failure, through

from tasks.models import Message, Outcome, Request

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
PARAMS = {
    "openai": {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
    "openai-chat": {"temperature": 0.5, "top_k": 3},
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "google": {
        "temperature": 0.5,
        "thinking_config": {"thinking_budget": 128},
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    },
}


@pytest.mark.parametrize("api", APIS)
def test_an_item_asks_what_the_online_client_asks(api, server, ask):
    messages = (
        Message("system", "Be brief."),
        Message("user", "Was ist 2 + 2? \u2028 $\\frac{1}{2}$ \"'\n"),
        Message("assistant", "5"),
        Message("user", "No."),
    )
    asked = {"messages": messages, "schema": SCHEMA, "schema_name": "sum", "params": PARAMS[api]}
    online = server(body="{}")
    ask(api, online, **asked)

    async def item(client):
        return json.loads(client.item("some-model", "c0ffee-S", Request("c0ffee", max_output_tokens=64, **asked)))

    made, _ = through(api, {}, item)
    posted = online.seen[0]["posted"]
    assert (
        made
        == {
            "openai": {"custom_id": "c0ffee-S", "method": "POST", "url": "/v1/responses", "body": posted},
            "openai-chat": {"custom_id": "c0ffee-S", "method": "POST", "url": "/v1/chat/completions", "body": posted},
            "anthropic": {"custom_id": "c0ffee-S", "params": posted},
            "google": {"key": "c0ffee-S", "request": posted},
        }[api]
    )


@pytest.mark.parametrize("api", APIS)
def test_an_item_that_cannot_be_made_is_rejected(api, request_of):
    async def item(client):
        return client.item("some-model", "c-S", request_of(params={"no_such_parameter": object()}))

    assert failure(api, {}, item).reply.outcome is Outcome.REJECTED


ITEMS = [b'{"key":"c1-S","request":{"contents":[]}}', '{"key":"c2-S","request":{"contents":["é\u2028"]}}'.encode()]


async def create(client):
    return await client.create("S", "some-model", ITEMS)


@pytest.mark.parametrize("api", ["openai", "openai-chat"])
def test_openai_gets_a_file_and_a_batch_of_it_with_our_name(api):
    says = {"/v1/files": {"id": "file-1"}, "/v1/batches": {"id": "batch_1"}}
    batch, vendor = through(api, says, create)
    assert batch == "batch_1"
    (_, _, form), (_, _, asked) = vendor.seen
    assert b'filename="criticgen-S.jsonl"' in form
    assert b"\r\n\r\n" + ITEMS[0] + b"\n" + ITEMS[1] + b"\n\r\n" in form
    assert b'name="purpose"\r\n\r\nbatch\r\n' in form
    assert json.loads(asked) == {
        "input_file_id": "file-1",
        "endpoint": "/v1/responses" if api == "openai" else "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"criticgen": "S"},
    }


def test_anthropic_gets_the_items_as_they_are():
    batch, vendor = through("anthropic", {"/v1/messages/batches": {"id": "msgbatch_1"}}, create)
    assert batch == "msgbatch_1"
    assert vendor.seen[0][2] == b'{"requests":[' + ITEMS[0] + b"," + ITEMS[1] + b"]}"


def test_google_gets_few_items_in_the_creation():
    batch, vendor = through("google", {"/v1/models/some-model:batchGenerateContent": {"name": "batches/1"}}, create)
    assert batch == "batches/1"
    assert json.loads(vendor.seen[0][2])["batch"] == {
        "displayName": "criticgen-S",
        "inputConfig": {
            "requests": {
                "requests": [
                    {"request": {"contents": []}, "metadata": {"key": "c1-S"}},
                    {"request": {"contents": ["é\u2028"]}, "metadata": {"key": "c2-S"}},
                ]
            }
        },
    }


def test_google_gets_many_items_as_a_file_sent_in_pieces():
    sent = bytearray()

    async def begin(request):
        headers = {"X-Goog-Upload-URL": f"http://{request.host}/there", "X-Goog-Upload-Status": "active"}
        return 200, {}, headers

    async def take(request):
        sent.extend(await request.read())
        final = "finalize" in request.headers["X-Goog-Upload-Command"]
        return 200, {"file": {"name": "files/f1"}}, {"X-Goog-Upload-Status": "final" if final else "active"}

    items = [b'{"key":"c%d-S","request":"%s"}' % (number, b"x" * 3_000_000) for number in range(4)]
    says = {
        "/upload/v1/files": begin,
        "/there": take,
        "/v1/models/some-model:batchGenerateContent": {"name": "batches/1"},
    }
    batch, vendor = through("google", says, lambda client: client.create("S", "some-model", items))
    assert batch == "batches/1"
    assert bytes(sent) == b"\n".join(items) + b"\n"
    made = {"displayName": "criticgen-S", "inputConfig": {"fileName": "files/f1"}}
    assert json.loads(vendor.seen[-1][2])["batch"] == made


STATUS = {"openai": "status", "openai-chat": "status", "anthropic": "processing_status"}


def a_batch(api, word, **more):
    if api == "google":
        return {"name": "batches/b", "metadata": {"state": word, "batchStats": {"requestCount": "2"}}, **more}
    return {"id": "batches/b", STATUS[api]: word, "request_counts": {"total": "2", "completed": "2"}, **more}


@pytest.mark.parametrize(
    ("api", "word", "ended"),
    [("openai", word, True) for word in ("completed", "expired", "cancelled")]
    + [("openai", word, False) for word in ("validating", "in_progress", "finalizing", "cancelling", "paused")]
    + [("anthropic", "ended", True)]
    + [("anthropic", word, False) for word in ("in_progress", "canceling", "archived")]
    + [("google", f"JOB_STATE_{word}", True) for word in ("SUCCEEDED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")]
    + [("google", f"BATCH_STATE_{word}", True) for word in ("SUCCEEDED", "CANCELLED", "EXPIRED")]
    + [("google", f"BATCH_STATE_{word}", False) for word in ("PENDING", "RUNNING", "UNSPECIFIED", "DREAMING")],
)
def test_only_the_words_for_an_end_are_an_end(api, word, ended):
    looked, _ = through(api, {ONE[api]: a_batch(api, word)}, lambda client: client.look("batches/b"))
    assert (looked.ended, looked.status, looked.error) == (ended, word, None)


@pytest.mark.parametrize(
    ("api", "says", "outcome", "error"),
    [
        (
            "openai",
            {"errors": {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]}},
            "rate_limited",
            "429 token_limit_exceeded: Enqueued token limit reached.",
        ),
        (
            "openai",
            {"errors": {"data": [{"code": "invalid_json_line", "message": "no", "line": 3}, {"code": "x"}]}},
            "rejected",
            "400 invalid_json_line: no (line 3) (and 1 more)",
        ),
        ("openai", {"errors": {"data": [{"code": "model_not_found"}]}}, "model_gone", None),
        ("openai", {"errors": {"data": [{"code": "billing_hard_limit_reached", "message": "no"}]}}, "quota", None),
        ("openai", {"errors": None}, "server", "the batch failed and does not say why"),
        ("google", {"error": {"code": 3, "message": "bad"}}, "rejected", "400: bad"),
        ("google", {"error": {"code": 8, "message": "no"}}, "rate_limited", "429: no"),
        ("google", {"done": True}, "server", "the batch failed and does not say why"),
    ],
)
def test_a_failed_batch_says_why_for_all_its_items(api, says, outcome, error):
    word = "BATCH_STATE_FAILED" if api == "google" else "failed"
    looked, _ = through(api, {ONE[api]: a_batch(api, word, **says)}, lambda client: client.look("batches/b"))
    assert looked.ended
    assert looked.error.outcome == outcome
    assert error in (None, looked.error.error)


@pytest.mark.parametrize(
    ("api", "says"),
    [
        ("openai", {"error_file_id": "e", "errors": {"data": [{"code": "odd"}]}}),
        ("google", {"response": {"responsesFile": "files/r"}, "error": {"code": 3}}),
    ],
)
def test_a_failed_batch_with_results_is_not_failed_as_a_whole(api, says):
    word = "BATCH_STATE_FAILED" if api == "google" else "failed"
    looked, _ = through(api, {ONE[api]: a_batch(api, word, **says)}, lambda client: client.look("batches/b"))
    assert (looked.ended, looked.error) == (True, None)

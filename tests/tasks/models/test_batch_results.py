"""The clients of the Batch APIs through the real SDKs: results, batches found again, and what goes wrong."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from batch_vendor import KEY, ONE, VENDORS, everything, failure, through

from tasks.models import Outcome
from tasks.models.batch import BatchFailure

NOW = datetime.now(UTC)

DONE = {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Vier"}]}]}
MESSAGE = {"content": [{"type": "text", "text": "Vier"}], "stop_reason": "end_turn"}
CANDIDATE = {"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "Vier"}]}}]}


def lines(*values):
    return "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)


def answered(custom_id):
    return {"custom_id": custom_id, "response": {"status_code": 200, "body": DONE}, "error": None}


def expired(custom_id):
    return {"custom_id": custom_id, "response": None, "error": {"code": "batch_expired", "message": "late"}}


def told(results):
    return [(result.custom_id, result.reply.outcome) for result in results]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"output_file_id": "o", "error_file_id": "e"}, [("c2-S", "ok"), (None, "connection"), ("c1-S", "expired")]),
        ({"output_file_id": None, "error_file_id": "e"}, [("c1-S", "expired")]),
        ({"output_file_id": "o"}, [("c2-S", "ok"), (None, "connection")]),
        ({}, []),
    ],
)
def test_openai_has_results_in_either_file(files, expected):
    says = {
        ONE["openai"]: {"status": "expired", "request_counts": {"total": "2"}, **files},
        "/v1/files/o/content": lines(answered("c2-S"), '{"custom_id": "c1'),
        "/v1/files/e/content": lines(expired("c1-S")),
    }
    assert told(through("openai", says, everything)[0]) == expected


def test_anthropic_has_results_where_the_batch_says():
    async def batch(request):
        return {"processing_status": "ended", "results_url": f"http://{request.host}/v1/elsewhere/results"}

    succeeded = {"custom_id": "c2-S", "result": {"type": "succeeded", "message": MESSAGE}}
    says = {
        ONE["anthropic"]: batch,
        "/v1/elsewhere/results": lines(succeeded, {"custom_id": "c1-S", "result": {"type": "canceled"}}),
    }
    assert told(through("anthropic", says, everything)[0]) == [("c2-S", "ok"), ("c1-S", "cancelled")]


def test_anthropic_no_longer_has_old_results():
    failed = failure("anthropic", {ONE["anthropic"]: {"processing_status": "ended", "results_url": None}}, everything)
    assert (failed.reply.outcome, "no results" in failed.reply.error) == (Outcome.REJECTED, True)


INLINED = [
    {"response": CANDIDATE, "metadata": {"key": "c2-S"}},
    {"response": CANDIDATE},
    {"error": {"code": 13, "message": "oh", "details": [{"any": "thing"}]}, "metadata": {"key": "c1-S"}},
]


@pytest.mark.parametrize("place", ["metadata", "response"])
def test_google_has_results_in_the_batch_by_their_keys_alone(place):
    output = {"inlinedResponses": {"inlinedResponses": INLINED}}
    job = {"metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": output}}
    if place == "response":
        job = {"metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "response": output}
    results, _ = through("google", {ONE["google"]: json.dumps(job, indent=1)}, everything)
    assert told(results) == [("c2-S", "ok"), (None, "ok"), ("c1-S", "server")]
    assert results[0].reply.raw in json.dumps(job, indent=1)
    assert "\n" in results[0].reply.raw


def test_google_has_results_in_a_file():
    says = {
        ONE["google"]: {"metadata": {"output": {"responsesFile": "files/batch-b"}}},
        "/v1/files/batch-b:download": lines({"key": "c2-S", "response": CANDIDATE}, "", {"response": CANDIDATE}, "{"),
    }
    assert told(through("google", says, everything)[0]) == [("c2-S", "ok"), (None, "ok"), (None, "connection")]


def test_google_has_no_results_of_a_batch_that_expired():
    job = {"metadata": {"state": "BATCH_STATE_EXPIRED"}}
    assert through("google", {ONE["google"]: job}, everything)[0] == []


def test_a_file_of_google_that_is_gone_does_not_stop_the_model():
    says = {
        ONE["google"]: {"metadata": {"output": {"responsesFile": "files/batch-b"}}},
        "/v1/files/batch-b:download": (403, {"error": {"message": "You do not have permission or it may not exist."}}),
    }
    assert failure("google", says, everything).reply.outcome is Outcome.REJECTED


@pytest.mark.parametrize("upload", [{}, (200, {}, {"X-Goog-Upload-URL": "http://127.0.0.1:9/"}), "<html>"])
def test_an_upload_that_leads_nowhere_can_be_tried_again(upload):
    item = b'{"key":"c-S","request":"%s"}' % (b"x" * 2_000_000)
    failed = failure("google", {"/upload/v1/files": upload}, lambda client: client.create("S", "some-model", [item]))
    assert failed.reply.outcome in (Outcome.SERVER, Outcome.CONNECTION)


def output_of(api, content):
    """What a server says whose batch has one file of results with this content."""

    async def batch(request):
        return {"results_url": f"http://{request.host}/v1/results", "output_file_id": "o", "metadata": google}

    google = {"output": {"responsesFile": "files/r"}}
    return {ONE[api]: batch, "/v1/results": content, "/v1/files/o/content": content, "/v1/files/r:download": content}


@pytest.mark.parametrize("api", VENDORS)
def test_a_download_that_breaks_off_is_a_broken_connection(api):
    async def break_off(request):
        response = web.StreamResponse(headers={"Content-Length": "500"})
        await response.prepare(request)
        await response.write(b'{"custom_id": "c1-S"}\n{"cus')
        await asyncio.sleep(0.05)
        request.transport.close()
        return response

    assert failure(api, output_of(api, break_off), everything).reply.outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_results_are_given_out_while_they_come(api):
    rest = asyncio.Event()

    async def trickle(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"custom_id": "c1-S"}\n')
        await rest.wait()
        await response.write(b'{"custom_id": "c2-S"}\n')
        return response

    async def read(client):
        seen = []
        async for result in client.results("batches/b"):
            seen.append(result.custom_id)
            rest.set()
        return seen

    assert through(api, output_of(api, trickle), read)[0] == ["c1-S", "c2-S"]


@pytest.mark.parametrize("api", VENDORS)
def test_no_line_and_no_reply_holds_the_key(api):
    said = {"custom_id": "c-S", "key": "c-S", "error": {"message": f"for {KEY}"}, "result": {"type": KEY}}
    results, _ = through(api, output_of(api, lines(said, f"broken {KEY}")), everything)
    assert len(results) == 2
    assert "0123456789" not in repr(results)


USES = {
    "create": lambda client: client.create("S", "some-model", [b'{"key": "c-S", "request": {}}']),
    "find": lambda client: client.find("S", 1, NOW),
    "look": lambda client: client.look("batches/b"),
    "results": everything,
    "cancel": lambda client: client.cancel("batches/b"),
}


class Always(dict):
    """Says one thing to everything."""

    def __init__(self, said):
        self._said = said

    def get(self, path, default=None):
        return self._said


@pytest.mark.parametrize("api", VENDORS)
@pytest.mark.parametrize("use", USES)
def test_what_the_server_refuses_has_the_class_and_not_the_key(api, use):
    said = {"error": {"message": f"Incorrect API key provided: {KEY}, or sk-test-****cdef"}}
    failed = failure(api, Always((401, said, {"x-request-id": "req_9"})), USES[use])
    assert (failed.reply.outcome, failed.reply.request_id) == (Outcome.AUTH, "req_9")
    assert str(failed) == "401: Incorrect API key provided: [key], or [key]"
    assert "0123456789" not in repr(failed.reply)


@pytest.mark.parametrize("api", VENDORS)
@pytest.mark.parametrize(
    ("status", "message", "outcome"),
    [
        (400, "Invalid value", "rejected"),
        (413, "too large", "too_long"),
        (429, "slow down", "rate_limited"),
        (429, "You exceeded your current quota", "quota"),
        (500, "<html>oh</html>", "server"),
    ],
)
def test_a_creation_that_is_refused_has_the_class(api, status, message, outcome):
    failed = failure(api, Always((status, {"error": {"message": message}}, {"Retry-After": "7"})), USES["create"])
    assert (failed.reply.outcome, failed.reply.retry_after) == (outcome, 7.0)


@pytest.mark.parametrize("api", VENDORS)
@pytest.mark.parametrize("use", ["create", "look", "find"])
@pytest.mark.parametrize("body", ["", "<html>", '{"id": "cut o', "[1, 2]"])
def test_a_broken_body_is_a_broken_connection(api, use, body):
    assert failure(api, Always(body), USES[use]).reply.outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", VENDORS)
def test_a_creation_without_an_id_is_a_broken_connection(api):
    assert failure(api, Always({"object": "batch"}), USES["create"]).reply.outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", VENDORS)
@pytest.mark.parametrize("use", USES)
def test_a_dropped_connection_is_one_failure(api, use):
    async def drop(request):
        request.transport.abort()
        return web.Response()

    assert failure(api, Always(drop), USES[use]).reply.outcome is Outcome.CONNECTION


@pytest.mark.parametrize("api", VENDORS)
@pytest.mark.parametrize("use", ["find", "look", "cancel"])
def test_no_answer_in_time_is_a_timeout(api, use):
    async def sleep(request):
        await asyncio.sleep(5)

    failed = failure(api, Always(sleep), USES[use], timeout_s=0.2)
    assert (failed.reply.outcome, failed.reply.error) == (Outcome.TIMEOUT, "no answer within 0.2 s")


@pytest.mark.parametrize("api", VENDORS)
def test_a_batch_that_has_ended_need_not_be_cancelled(api):
    word = "BATCH_STATE_SUCCEEDED" if api == "google" else "completed"
    job = {"status": word, "processing_status": "ended", "metadata": {"state": word}}
    cancel = ONE[api] + (":cancel" if api == "google" else "/cancel")
    result, vendor = through(api, {ONE[api]: job, cancel: (409, {"error": {"message": "ended"}})}, USES["cancel"])
    assert result is None
    assert [method for method, _, _ in vendor.seen] == ["POST", "GET"]


def found(api, says, items=2, **how):
    return through(api, says, lambda client: client.find("S", items, NOW, **how))[0]


def test_openai_finds_our_batch_by_its_metadata():
    second = int(NOW.timestamp())
    other = {"id": "b2", "created_at": second, "metadata": {"criticgen": "T"}}
    says = {
        "/v1/batches?limit=100": {
            "data": [{"id": "b1", "created_at": second, "metadata": None}, other],
            "has_more": True,
        },
        "/v1/batches?limit=100&after=b2": {
            "data": [{"id": "b3", "created_at": second, "metadata": {"criticgen": "S"}}]
        },
    }
    assert found("openai", says) == "b3"


def test_openai_is_not_asked_for_batches_older_than_the_creation():
    old = {"id": "b1", "created_at": int(NOW.timestamp()) - 7200, "metadata": {}}
    assert found("openai", {"/v1/batches?limit=100": {"data": [old], "has_more": True}}) is None


def test_google_finds_our_batch_by_its_display_name_on_any_page():
    says = {
        "/v1/batches?pageSize=20": {"operations": [{"name": "batches/1", "metadata": {}}], "nextPageToken": "t+"},
        "/v1/batches?pageSize=20&pageToken=t%2B": {
            "operations": [{"name": "batches/2", "metadata": {"displayName": "criticgen-S"}}]
        },
    }
    assert found("google", says) == "batches/2"
    assert found("google", {"/v1/batches?pageSize=20": {}}) is None


def anthropic_batch(name, *, age=timedelta(0), ended=True, **counts):
    return {
        "id": name,
        "created_at": (NOW - age).isoformat().replace("+00:00", "Z"),
        "processing_status": "ended" if ended else "in_progress",
        "request_counts": {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0} | counts,
        "results_url": "there" if ended else None,
    }


def anthropic_says(*batches, **ids):
    """A server that lists these batches; ``ids`` are those of the results of each ended one."""
    says = {"/v1/messages/batches?limit=100": {"data": list(batches), "has_more": False}}

    def one(name):
        async def batch(request):
            return {"results_url": f"http://{request.host}/{name}"}

        return batch

    for name, custom_ids in ids.items():
        says[f"/v1/messages/batches/{name}"] = one(name)
        says[f"/{name}"] = lines(*[{"custom_id": custom_id, "result": {}} for custom_id in custom_ids])
    return says


def test_anthropic_finds_our_batch_by_its_size_and_its_results():
    says = anthropic_says(
        anthropic_batch("b0", ended=False, processing=3),
        anthropic_batch("b1", succeeded=3),
        anthropic_batch("b2", succeeded=1, errored="1"),
        anthropic_batch("b3", succeeded=1, expired=1),
        b2=["c1-T", "c2-T"],
        b3=["stray-unknown", "c1-S", "c2-S"],
    )
    assert found("anthropic", says) == "b3"


def test_anthropic_cannot_tell_a_running_batch_of_the_same_size_yet():
    says = anthropic_says(
        anthropic_batch("b1", ended=False, processing=2), anthropic_batch("b2", succeeded=2), b2=["c-T"]
    )
    failed = failure("anthropic", says, lambda client: client.find("S", 2, NOW))
    assert failed.reply.outcome is Outcome.SERVER
    assert failed.reply.error == "cannot be told yet: 1 batches of 2 requests still run, and none has a name"


def test_anthropic_does_not_wait_for_batches_known_to_be_others():
    says = anthropic_says(anthropic_batch("b1", ended=False, processing=2))
    assert found("anthropic", says, others={"b1"}) is None


def test_a_running_batch_does_not_hide_that_ours_has_ended():
    says = anthropic_says(
        anthropic_batch("b1", ended=False, processing=2), anthropic_batch("b2", succeeded=2), b2=["c-S"]
    )
    assert found("anthropic", says) == "b2"


def test_anthropic_is_not_asked_for_batches_older_than_the_creation():
    says = anthropic_says(anthropic_batch("b1", age=timedelta(hours=2), ended=False, processing=2))
    says["/v1/messages/batches?limit=100"]["has_more"] = True
    assert found("anthropic", says) is None


def test_a_reader_may_leave_before_the_end():
    async def leave(client):
        async for result in client.results("batches/b"):
            return result.custom_id

    first = {"custom_id": "c1-S", "result": {"type": "expired"}}
    says = output_of("anthropic", lines(first, *["x" * 1000] * 1000))
    assert through("anthropic", says, leave)[0] == "c1-S"


def test_a_failure_is_told_without_its_cause():
    failed = failure("openai", Always((401, {"error": {"message": KEY}})), USES["look"])
    assert isinstance(failed, BatchFailure)
    assert failed.__suppress_context__

import asyncio
import io
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from simulated_batches import GoogleDesk, ended, open_desk

from deployments.simulator import batches_google

# google-genai subclasses aiohttp's session, which aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:aiohttp", "ignore::DeprecationWarning:google")


@pytest.fixture
def desk(simulator: Any) -> Iterator[Any]:
    simulator.post("knobs", {"batch_s.sim-job": 0.03, "batch_s.sim-slow": 60})
    with open_desk("google", simulator.url) as opened:
        yield opened


@pytest.fixture
def filing(desk: GoogleDesk) -> GoogleDesk:
    return GoogleDesk(desk.sdk, in_file=True)


def operation(simulator: Any, name: str) -> Any:
    """The batch as it is on the wire: the SDK's own drops some of it."""
    request = urllib.request.Request(f"{simulator.url}/v1beta/{name}", headers={"x-goog-api-key": "key"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def test_the_async_client_makes_the_same_rounds(simulator: Any, desk: GoogleDesk) -> None:
    async def rounds(source: Any) -> list[Any]:
        options = types.HttpOptions(base_url=simulator.url)
        client = genai.Client(api_key="key", vertexai=False, http_options=options).aio
        if source is None:
            lines = "\n".join([desk.line(f"{n}-1", "What is 2 + 2?") for n in range(3)]).encode()
            file = await client.files.upload(
                file=io.BytesIO(lines), config=types.UploadFileConfig(mime_type="application/jsonl")
            )
            source = file.name
        batch = await client.batches.create(model="sim-job", src=source)
        while not batch.done:
            await asyncio.sleep(0.02)
            batch = await client.batches.get(name=str(batch.name))
        dest: Any = batch.dest
        if dest.file_name:
            data: Any = await client.files.download(file=dest.file_name)
            told = [json.loads(line)["key"] for line in data.decode().splitlines()]
        else:
            told = [one.metadata["key"] for one in dest.inlined_responses]
        await client.aclose()
        return told

    requests = [types.InlinedRequest(contents="What is 2 + 2?", metadata={"key": f"{n}-1"}) for n in range(3)]
    assert asyncio.run(rounds(requests)) == asyncio.run(rounds(None)) == ["0-1", "1-1", "2-1"]


def test_what_was_given_at_creation_comes_back(filing: GoogleDesk, simulator: Any) -> None:
    name = filing.create("sim-job", ["a-1"], name="sub-names")
    ended(filing, name)
    for batch in (filing.sdk.batches.get(name=name), next(iter(filing.sdk.batches.list()))):
        assert (batch.name, batch.display_name, batch.model) == (name, "sub-names", "models/sim-job")
        assert batch.dest.file_name == name.replace("batches/", "files/batch-")
    told = operation(simulator, name)
    assert told["done"] is True
    assert told["response"]["responsesFile"] == told["metadata"]["output"]["responsesFile"]
    assert told["metadata"]["batchStats"] == {"requestCount": "1", "successfulRequestCount": "1"}


def test_a_list_leaves_the_results_out(desk: GoogleDesk) -> None:
    name = desk.create("sim-job", ["a-1"])
    ended(desk, name)
    listed = next(iter(desk.sdk.batches.list()))
    assert (listed.name, listed.done, listed.dest) == (name, True, None)


def test_a_running_batch_has_no_results(desk: GoogleDesk, simulator: Any) -> None:
    name = desk.create("sim-slow", ["a-1"])
    told = operation(simulator, name)
    assert (told["metadata"]["state"], "done" in told, "output" in told["metadata"]) == (
        "BATCH_STATE_RUNNING", False, False,
    )  # fmt: skip
    assert told["metadata"]["batchStats"] == {"requestCount": "1", "pendingRequestCount": "1"}
    desk.cancel(name)


def test_a_batch_can_be_invalid_by_a_knob(desk: GoogleDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_invalid.sim-invalid": 1})
    name = desk.create("sim-invalid", ["a-1"])
    assert ended(desk, name) == "JOB_STATE_FAILED"
    assert operation(simulator, name)["error"]["code"] == 3


@pytest.mark.parametrize("data", [b'{"key": "a-1"', b'{"key": 1, "request": {}}', b"\n"])
def test_a_wrong_file_fails_the_batch(data: bytes, filing: GoogleDesk) -> None:
    batch = filing.sdk.batches.create(model="sim-job", src=filing.upload(data, "wrong"))
    assert ended(filing, batch.name) == "JOB_STATE_FAILED"
    assert filing.sdk.batches.get(name=batch.name).dest is None


def test_a_wrong_request_errors_alone(filing: GoogleDesk) -> None:
    lines = [filing.line("a-1", "What is 2 + 2?"), '{"key": "b-1", "request": {"contents": []}}', '{"key": "c-1"}']
    batch = filing.sdk.batches.create(model="sim-job", src=filing.upload("\n".join(lines).encode(), "some"))
    ended(filing, batch.name)
    told = {one.custom_id: (one.kind, one.error) for one in filing.results(batch.name)}
    assert told == {"a-1": ("succeeded", None), "b-1": ("errored", 3), "c-1": ("errored", 3)}


def test_a_request_without_metadata_has_a_result_without(desk: GoogleDesk) -> None:
    batch = desk.sdk.batches.create(model="sim-job", src=[types.InlinedRequest(contents="What is 2 + 2?")])
    ended(desk, batch.name)
    (one,) = desk.sdk.batches.get(name=batch.name).dest.inlined_responses
    assert one.metadata is None
    assert "Final answer" in one.response.text


def test_what_is_refused_at_creation(desk: GoogleDesk, monkeypatch: Any) -> None:
    def refused(**given: Any) -> int:
        with pytest.raises(errors.ClientError) as caught:
            desk.sdk.batches.create(**({"model": "sim-job", "src": [types.InlinedRequest(contents="?")]} | given))
        return caught.value.code

    assert refused(model="nobody") == 404
    assert refused(src="files/nonesuch") == 403
    monkeypatch.setattr(batches_google, "LARGEST_BODY", 50)
    assert refused() == 400


def test_a_large_file_comes_in_chunks(filing: GoogleDesk) -> None:
    key = "k" * 9_000_000
    name = filing.upload(filing.line(f"{key}-1", "What is 2 + 2?").encode(), "large")
    batch = filing.sdk.batches.create(model="sim-job", src=name)
    ended(filing, batch.name)
    assert [len(one.custom_id) for one in filing.results(batch.name)] == [9_000_002]


def test_files_are_told_listed_and_deleted(filing: GoogleDesk) -> None:
    config = {"mime_type": "application/jsonl", "name": "sub-own"}
    file = filing.sdk.files.upload(file=io.BytesIO(b"{}"), config=config)
    assert (file.name, file.state.value, file.source.value) == ("files/sub-own", "ACTIVE", "UPLOADED")
    with pytest.raises(errors.ClientError) as caught:
        filing.sdk.files.upload(file=io.BytesIO(b"{}"), config=config)
    assert caught.value.code == 409
    with pytest.raises(errors.ClientError, match="Only generated files"):
        filing.sdk.files.download(file="files/sub-own")
    assert "files/sub-own" in [one.name for one in filing.sdk.files.list(config={"page_size": 2})]
    filing.sdk.files.delete(name="files/sub-own")
    with pytest.raises(errors.ClientError):
        filing.sdk.files.get(name="files/sub-own")


def test_what_is_not_there_is_not_found(desk: GoogleDesk) -> None:
    for ask in (desk.sdk.batches.get, desk.sdk.batches.cancel, desk.sdk.batches.delete):
        with pytest.raises(errors.ClientError) as caught:
            ask(name="batches/nonesuch")
        assert caught.value.code == 404


def test_cancelling_what_has_ended_changes_nothing(desk: GoogleDesk) -> None:
    name = desk.create("sim-job", ["a-1"])
    ended(desk, name)
    desk.cancel(name)
    assert desk.status(name) == "JOB_STATE_SUCCEEDED"
    desk.sdk.batches.delete(name=name)
    assert name not in desk.ids()

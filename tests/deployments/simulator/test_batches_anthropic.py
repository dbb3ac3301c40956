import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from simulated_batches import AnthropicDesk, ended, open_desk

from deployments.simulator import batches_anthropic


@pytest.fixture
def desk(simulator: Any) -> Iterator[Any]:
    simulator.post("knobs", {"batch_s.sim-message": 0.03, "batch_s.sim-slow": 60})
    with open_desk("anthropic", simulator.url) as opened:
        yield opened


def request(custom_id: str, **other: Any) -> dict[str, Any]:
    params = {"model": "sim-message", "max_tokens": 400, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    return {"custom_id": custom_id, "params": params | other}


def counts(desk: AnthropicDesk, batch: str) -> dict[str, Any]:
    values: dict[str, Any] = desk.sdk.messages.batches.retrieve(batch).request_counts.to_dict()
    return values


def test_counts_are_of_processing_until_the_end(desk: AnthropicDesk, simulator: Any) -> None:
    batch = desk.create("sim-slow", ["a-1", "b-1", "c-1"])
    running = desk.sdk.messages.batches.retrieve(batch)
    assert counts(desk, batch) == {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    assert (running.processing_status, running.results_url, running.ended_at) == ("in_progress", None, None)
    assert (running.expires_at - running.created_at).days == 1
    desk.cancel(batch)
    ended(desk, batch)
    over = desk.sdk.messages.batches.retrieve(batch)
    assert over.ended_at >= over.cancel_initiated_at >= over.created_at
    after = counts(desk, batch)
    assert (after["processing"], after["succeeded"] + after["canceled"]) == (0, 3)


def test_wrong_params_are_told_in_the_result(desk: AnthropicDesk) -> None:
    requests = [request("a-1"), request("b-1", max_tokens=0), request("c-1", model="nobody")]
    batch = desk.sdk.messages.batches.create(requests=requests).id
    ended(desk, batch)
    told = {one.custom_id: (one.kind, one.error) for one in desk.results(batch)}
    assert told == {
        "a-1": ("succeeded", None),
        "b-1": ("errored", "invalid_request_error"),
        "c-1": ("errored", "not_found_error"),
    }
    assert counts(desk, batch)["errored"] == 2


def test_an_answer_tells_its_tier_and_usage(desk: AnthropicDesk) -> None:
    batch = desk.sdk.messages.batches.create(requests=[request("a-1")]).id
    ended(desk, batch)
    (line,) = desk.sdk.messages.batches.results(batch)
    usage = line.result.message.usage
    assert (usage.service_tier, usage.input_tokens) == ("batch", 7)


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ([], "requests"),
        ([request("a 1")], "requests.0.custom_id"),
        ([request("a" * 65)], "requests.0.custom_id"),
        ([request("a-1"), request("a-1")], "requests.1.custom_id"),
        ([request(f"{n}-1") for n in range(4)], "at most 3 items"),
    ],
)
def test_a_wrong_batch_is_refused(requests: list[Any], words: str, desk: AnthropicDesk, monkeypatch: Any) -> None:
    monkeypatch.setattr(batches_anthropic, "MOST_REQUESTS", 3)
    with pytest.raises(anthropic.BadRequestError, match=words):
        desk.sdk.messages.batches.create(requests=requests)


def test_a_body_beyond_the_limit_is_refused(desk: AnthropicDesk, monkeypatch: Any) -> None:
    monkeypatch.setattr(batches_anthropic, "LARGEST_BATCH", 100)
    with pytest.raises(anthropic.APIStatusError) as caught:
        desk.sdk.messages.batches.create(requests=[request("a-1")])
    assert caught.value.status_code == 413
    assert caught.value.body["error"]["type"] == "request_too_large"  # type: ignore[index]


def test_a_batch_can_be_invalid_by_a_knob(desk: AnthropicDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_invalid.sim-invalid": 1})
    with pytest.raises(anthropic.BadRequestError):
        desk.create("sim-invalid", ["a-1"])


def test_counts_can_be_strings(desk: AnthropicDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_string_counts.sim-strings": 1, "batch_s.sim-strings": 0})
    batch = desk.sdk.messages.batches.create(requests=[request("a-1", model="sim-strings")]).id
    ended(desk, batch)
    told = desk.sdk.messages.batches.retrieve(batch).request_counts
    assert (told.processing, told.succeeded) == ("0", "1")


def test_results_wait_for_the_end(desk: AnthropicDesk, simulator: Any) -> None:
    batch = desk.create("sim-slow", ["a-1"])
    with pytest.raises(anthropic.AnthropicError, match="results_url"):
        desk.sdk.messages.batches.results(batch)
    url = f"{simulator.url}/v1/messages/batches/{batch}/results"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(url, headers={"x-api-key": "key"}))
    with caught.value as error:
        assert (error.code, json.loads(error.read())["error"]["type"]) == (400, "invalid_request_error")
    desk.cancel(batch)


def test_lists_go_both_ways(desk: AnthropicDesk) -> None:
    made = [desk.create("sim-message", [f"{n}-1"]) for n in range(4)]
    page = desk.sdk.messages.batches.list(after_id=made[3], limit=2)
    assert ([one.id for one in page.data], page.has_more) == ([made[2], made[1]], True)
    page = desk.sdk.messages.batches.list(before_id=made[0], limit=2)
    assert ([one.id for one in page.data], page.has_more) == ([made[2], made[1]], True)


def test_only_what_has_ended_is_deleted(desk: AnthropicDesk) -> None:
    batch = desk.create("sim-slow", ["a-1"])
    with pytest.raises(anthropic.BadRequestError):
        desk.sdk.messages.batches.delete(batch)
    desk.cancel(batch)
    ended(desk, batch)
    with pytest.raises(anthropic.BadRequestError):
        desk.sdk.messages.batches.cancel(batch)
    assert desk.sdk.messages.batches.delete(batch).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        desk.sdk.messages.batches.retrieve(batch)

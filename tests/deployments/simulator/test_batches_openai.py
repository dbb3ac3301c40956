import json
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from simulated_batches import OpenAIDesk, ended, open_desk, openai_line

from deployments.simulator import batches_openai


@pytest.fixture
def desk(simulator: Any) -> Iterator[Any]:
    simulator.post("knobs", {"batch_s.sim-file": 0.03, "batch_s.sim-slow": 60})
    with open_desk("openai", simulator.url) as opened:
        yield opened


def line(custom_id: str, /, **other: Any) -> str:
    return json.dumps(json.loads(openai_line("sim-file", custom_id, "What is 2 + 2?")) | other)


def failure_of(desk: OpenAIDesk, lines: list[str]) -> Any:
    batch = desk.submit(lines)
    assert ended(desk, batch) == "failed"
    failed = desk.sdk.batches.retrieve(batch)
    assert (failed.output_file_id, failed.error_file_id) == (None, None)
    (error,) = failed.errors.data
    return error


def test_what_was_given_at_creation_comes_back(desk: OpenAIDesk) -> None:
    batch = desk.submit([line("a-1")], name="sub-names")
    ended(desk, batch)
    for one in (desk.sdk.batches.retrieve(batch), next(iter(desk.sdk.batches.list()))):
        assert one.metadata == {"submission": "sub-names"}
        assert (one.endpoint, one.completion_window, one.model) == ("/v1/responses", "24h", "sim-file")
        given = desk.sdk.files.retrieve(one.input_file_id)
        assert (given.filename, given.purpose, given.bytes) == ("sub-names.jsonl", "batch", len(line("a-1")))
        assert desk.sdk.files.content(one.input_file_id).content == line("a-1").encode()


def test_answers_and_errors_are_two_files(desk: OpenAIDesk) -> None:
    bad = json.loads(line("b-1"))["body"] | {"max_output_tokens": 1}
    batch = desk.submit([line("a-1"), line("b-1", body=bad)])
    ended(desk, batch)
    (answer,), (error,) = desk.lines(batch, "output"), desk.lines(batch, "error")
    assert (answer["custom_id"], answer["error"]) == ("a-1", None)
    assert (error["custom_id"], error["error"], error["response"]["status_code"]) == ("b-1", None, 400)
    assert error["response"]["body"]["error"]["code"] == "integer_below_min_value"
    counts = desk.sdk.batches.retrieve(batch).request_counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)


def test_a_file_without_a_line_is_not_made(desk: OpenAIDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_all_fail.sim-fails": 1, "batch_s.sim-fails": 0})
    fails = desk.submit([openai_line("sim-fails", "a-1", "?")])
    ended(desk, fails)
    assert desk.sdk.batches.retrieve(fails).output_file_id is None
    assert len(desk.lines(fails, "error")) == 1
    works = desk.submit([line("a-1")])
    ended(desk, works)
    assert desk.sdk.batches.retrieve(works).error_file_id is None


def test_the_times_tell_what_has_been(desk: OpenAIDesk) -> None:
    batch = desk.submit([openai_line("sim-slow", "a-1", "?")])
    running = desk.sdk.batches.retrieve(batch)
    assert (running.status, running.request_counts.total, running.request_counts.completed) == ("in_progress", 1, 0)
    assert (running.completed_at, running.output_file_id) == (None, None)
    desk.cancel(batch)
    ended(desk, batch)
    over = desk.sdk.batches.retrieve(batch)
    assert abs(over.cancelled_at - time.time()) < 10
    assert (over.completed_at, over.expired_at, over.failed_at) == (None, None, None)


def test_chat_completions_have_batches_too(desk: OpenAIDesk) -> None:
    body = {"model": "sim-file", "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    batch = desk.submit([line("a-1", url="/v1/chat/completions", body=body)], endpoint="/v1/chat/completions")
    assert ended(desk, batch) == "completed"
    assert "Final answer" in desk.lines(batch, "output")[0]["response"]["body"]["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("lines", "code", "number"),
    [
        ([line("a-1"), line("a-1")], "duplicate_custom_id", 2),
        ([line("a-1"), '{"custom_id"'], "invalid_json_line", 2),
        ([line("a-1", custom_id=None)], "missing_required_parameter", 1),
        ([line("a-1", url="/v1/chat/completions")], "mismatched_endpoint", 1),
        ([line("a-1", method="GET")], "invalid_method", 1),
        ([line("a-1"), openai_line("sim-other", "b-1", "?")], "mismatched_model", 2),
        ([openai_line("nobody", "a-1", "?")], "model_not_found", 1),
        (["", ""], "empty_file", None),
    ],
)
def test_a_wrong_file_fails_the_batch(lines: list[str], code: str, number: int | None, desk: OpenAIDesk) -> None:
    error = failure_of(desk, lines)
    assert (error.code, error.line) == (code, number)


def test_a_file_beyond_the_limits_fails_the_batch(desk: OpenAIDesk, monkeypatch: Any) -> None:
    monkeypatch.setattr(batches_openai, "MOST_LINES", 2)
    assert failure_of(desk, [line(f"{n}-1") for n in range(3)]).code == "too_many_tasks"
    monkeypatch.setattr(batches_openai, "LARGEST_BATCH", 100)
    assert failure_of(desk, [line("a-1")]).code == "file_too_large"
    monkeypatch.setattr(batches_openai, "LARGEST_FILE", 100)
    with pytest.raises(openai.APIStatusError) as caught:
        desk.submit([line("a-1")])
    assert caught.value.status_code == 413


def test_a_batch_can_be_invalid_by_a_knob(desk: OpenAIDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_invalid.sim-invalid": 1})
    before = simulator.get("stats")["received"]
    error = failure_of(desk, [openai_line("sim-invalid", "a-1", "?")])
    assert (error.code, error.line) == ("invalid_json_line", 1)
    assert simulator.get("stats")["received"] == before


def test_counts_can_be_strings(desk: OpenAIDesk, simulator: Any) -> None:
    simulator.post("knobs", {"batch_string_counts.sim-strings": 1, "batch_s.sim-strings": 0})
    batch = desk.submit([openai_line("sim-strings", "a-1", "?")])
    ended(desk, batch)
    told = json.loads(desk.sdk.batches.with_raw_response.retrieve(batch).text)
    assert told["request_counts"] == {"total": "1", "completed": "1", "failed": "0"}


def test_what_has_ended_cannot_be_cancelled(desk: OpenAIDesk) -> None:
    batch = desk.submit([line("a-1")])
    ended(desk, batch)
    with pytest.raises(openai.ConflictError, match="Cannot cancel a batch with status 'completed'"):
        desk.sdk.batches.cancel(batch)


def test_what_is_not_there_is_not_found(desk: OpenAIDesk) -> None:
    with pytest.raises(openai.NotFoundError):
        desk.sdk.batches.retrieve("batch_nonesuch")
    with pytest.raises(openai.NotFoundError):
        desk.sdk.files.content("file-nonesuch")
    with pytest.raises(openai.NotFoundError):
        desk.sdk.batches.create(input_file_id="file-nonesuch", endpoint="/v1/responses", completion_window="24h")
    with pytest.raises(openai.BadRequestError):
        desk.sdk.batches.create(input_file_id="file-x", endpoint="/v1/embeddings", completion_window="24h")


def test_files_are_listed_and_deleted(desk: OpenAIDesk) -> None:
    data = "\u2028 line\r\n--\r\n".encode()
    made = [desk.sdk.files.create(file=(f"{n}.jsonl", data), purpose="batch").id for n in range(3)]
    assert [one.id for one in desk.sdk.files.list(limit=2, purpose="batch")][:3] == made[::-1]
    assert desk.sdk.files.content(made[0]).content == data
    assert desk.sdk.files.delete(made[0]).deleted
    assert made[0] not in [one.id for one in desk.sdk.files.list()]

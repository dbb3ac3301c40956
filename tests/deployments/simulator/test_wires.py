"""Each wire through its vendor's official SDK."""

import asyncio
import json
import time
from typing import Any

import pytest
from simulated_wires import WIRES, Said, ask

from deployments.simulator import true_scores
from tasks.models.output_schema import schema_for
from tasks.prompts import fenced, fenced_item, load_prompt
from tasks.rubrics import Rubric
from tasks.trajectories import Trajectory

QUESTION = "A baker has 24 rolls, sells 9 and bakes 5 trays of 12 more. How many rolls are there?"
SIZES = {"openai": "max_output_tokens", "openai-chat": "length", "anthropic": "max_tokens", "google": "MAX_TOKENS"}
ENDS = {"openai": "completed", "openai-chat": "stop", "anthropic": "end_turn", "google": "STOP"}

pytestmark = [
    pytest.mark.parametrize("wire", WIRES),
    # google-genai subclasses aiohttp's session, which aiohttp discourages.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:aiohttp", "ignore::DeprecationWarning:google"),
]


def run(wire: str, url: str, model: str, prompt: str, schema: Any = None, **values: Any) -> Said:
    """One call with a prompt of the pipeline's."""
    marks = {"question": fenced("question", QUESTION), **values.pop("marks", {})}
    system, user = load_prompt(prompt).render(**marks)
    return asyncio.run(
        ask(
            wire,
            url,
            model,
            user.text,
            system=system.text,
            schema=schema_for(wire, schema.model_json_schema()) if schema else None,
            **values,
        )
    )


def error_of(wire: str, url: str, model: str, **values: Any) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of the exception that the SDK raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each SDK has its own
        run(wire, url, model, "answer", **values)
    error: Any = caught.value
    if wire == "google":
        return error.code, json.dumps(error.details), dict(error.response.headers)
    return error.status_code, error.response.text, dict(error.response.headers)


def test_plain_answer_has_text_usage_and_a_request_id(wire: str, simulator: Any) -> None:
    said = asyncio.run(ask(wire, simulator.url, "sim-large", 40 * "b", system=600 * "a", call_id="plain"))
    assert said.text is not None
    assert "Final answer: " in said.text
    assert said.finish == ENDS[wire]
    assert said.output == (len(said.text) + 3) // 4
    assert said.input == 163
    assert said.cached == 128
    assert said.thinking == 0
    named = {"anthropic": "request-id", "google": "server-timing"}.get(wire, "x-request-id")
    assert named in {name.lower() for name in said.headers}


def test_the_same_request_gets_the_same_answer_on_every_wire(wire: str, simulator: Any) -> None:
    said = run(wire, simulator.url, "sim-small", "answer", call_id="same")
    again = run("openai-chat", simulator.url, "sim-small", "answer", call_id="same")
    other = run(wire, simulator.url, "sim-small", "answer", call_id="another")
    assert said.text == again.text
    assert said.text != other.text


def test_rubric_keeps_the_contract_and_the_key_order(wire: str, simulator: Any) -> None:
    marks = {"answer": fenced("answer", "1. Take 24 - 9 = 15\nFinal answer: 15"), "min_items": "4"}
    said = run(wire, simulator.url, "sim-teacher", "rubric", Rubric, marks=marks)
    rubric = Rubric.model_validate_json(said.text or "")
    assert len(rubric.items) >= 4
    assert list(json.loads(said.text or "")["items"][0])[:3] == ["family", "dimension", "level_0"]


def test_trajectory_keeps_the_contract_and_mends_the_answer(wire: str, simulator: Any) -> None:
    answer = "1. Take the sold ones away: 24 - 9 = 14\nFinal answer: 14"
    item = fenced_item("objective", "Difference in step 1", [f"level {level} it is" for level in range(6)])
    marks = {"answer": fenced("answer", answer), "rubric_item": item}
    said = run(wire, simulator.url, "sim-teacher", "trajectory", Trajectory, marks=marks)
    trajectory = Trajectory.model_validate_json(said.text or "")
    assert list(json.loads(said.text or "")) == ["score", "reason", "suggestion", "refined_answer"]
    assert true_scores(QUESTION, trajectory.refined_answer)["objective"] > true_scores(QUESTION, answer)["objective"]


def test_a_small_limit_cuts_the_answer(wire: str, simulator: Any) -> None:
    said = run(wire, simulator.url, "sim-large", "answer", limit=20)
    assert said.finish == SIZES[wire]
    assert said.output == 20
    assert len(said.text or "") == 80


def test_thinking_counts_towards_the_limit_and_can_use_it_up(wire: str, simulator: Any) -> None:
    said = run(wire, simulator.url, "sim-think", "answer", call_id="thinks")
    assert 40 <= said.thinking < said.output
    spent = run(wire, simulator.url, "sim-think", "answer", limit=20, call_id="thinks")
    assert (spent.text, spent.thinking, spent.output, spent.finish) == (None, 20, 20, SIZES[wire]) or (
        wire == "openai-chat" and spent.text == ""
    )


def test_refusals_and_blocks(wire: str, simulator: Any) -> None:
    simulator.post("knobs", {"fault_refusal.sim-refuses": 1})
    said = [run(wire, simulator.url, "sim-refuses", "answer", call_id=f"refused-{n}") for n in range(6)]
    assert all(one.text is None for one in said)
    kinds = {(one.finish, bool(one.refusal)) for one in said}
    assert (
        kinds
        == {
            "openai": {("completed", True), ("content_filter", False)},
            "openai-chat": {("stop", True), ("content_filter", False)},
            "anthropic": {("refusal", True)},
            "google": {("SAFETY", True), (None, True)},
        }[wire]
    )


def test_empty_answers_end_as_whole_ones(wire: str, simulator: Any) -> None:
    simulator.post("knobs", {"fault_empty.sim-empty": 1})
    said = run(wire, simulator.url, "sim-empty", "answer")
    assert (said.text, said.finish, said.output) == ("" if wire == "openai-chat" else None, ENDS[wire], 0)


def test_a_withheld_text_is_null_and_its_tokens_are_counted(wire: str, simulator: Any) -> None:
    simulator.post("knobs", {"fault_null.sim-null": 1})
    said = run(wire, simulator.url, "sim-null", "answer")
    assert (said.text, said.finish, said.refusal) == (None, ENDS[wire], None)
    assert said.output > 20


@pytest.mark.parametrize("model", ["sim-thought", "sim-thought-think"])
def test_thinking_takes_the_whole_limit(wire: str, model: str, simulator: Any) -> None:
    simulator.post("knobs", {f"fault_thinking.{model}": 1})
    said = run(wire, simulator.url, model, "answer", limit=300)
    assert (said.text or None, said.thinking, said.output, said.finish) == (None, 300, 300, SIZES[wire])


@pytest.mark.parametrize(("fault", "plain"), [("fault_surrogate", "\ud83d"), ("fault_nul", "\0")])
def test_characters_that_no_text_should_hold(wire: str, fault: str, plain: str, simulator: Any) -> None:
    simulator.post("knobs", {f"{fault}.sim-{fault}": 1})
    assert (run(wire, simulator.url, f"sim-{fault}", "answer").text or "").endswith(plain)
    marks = {"answer": fenced("answer", "Final answer: 5"), "rubric_item": fenced_item("objective", "Sum", ["a"] * 6)}
    said = run(wire, simulator.url, f"sim-{fault}", "trajectory", Trajectory, marks=marks)
    assert plain not in (said.text or "")
    assert json.loads(said.text or "")["reason"].endswith(plain)


def test_a_huge_answer_comes_whole_within_the_limit_of_tokens(wire: str, simulator: Any) -> None:
    simulator.post("knobs", {"fault_huge.sim-huge": 1})
    plain = run(wire, simulator.url, "sim-huge", "answer")
    assert len(plain.text or "") > 5_000_000
    assert (plain.output, plain.finish) == (4000, ENDS[wire])
    marks = {"answer": fenced("answer", "Final answer: 5"), "rubric_item": fenced_item("objective", "Sum", ["a"] * 6)}
    said = run(wire, simulator.url, "sim-huge", "trajectory", Trajectory, marks=marks)
    assert len(Trajectory.model_validate_json(said.text or "").reason) > 5_000_000


def test_a_dripping_answer_comes_whole(wire: str, simulator: Any) -> None:
    simulator.post("knobs", {"fault_drip.sim-drips": 1, "drip_s.sim-drips": 0.2})
    began = time.monotonic()
    said = run(wire, simulator.url, "sim-drips", "answer")
    assert time.monotonic() - began >= 0.2
    assert "Final answer: " in (said.text or "")


def test_a_retired_model_is_a_404_in_the_vendors_words(wire: str, simulator: Any) -> None:
    model = f"sim-old-{wire}"
    simulator.post("knobs", {f"retire_after.{model}": 1})
    run(wire, simulator.url, model, "answer")
    status, body, _ = error_of(wire, simulator.url, model)
    assert status == 404
    words = {"anthropic": f'"model: {model}"', "google": "is no longer available"}
    assert words.get(wire, "has been deprecated") in body
    assert model in body


def test_an_empty_purse_is_told_in_the_vendors_words(wire: str, simulator: Any) -> None:
    model = f"sim-poor-{wire}"
    simulator.post("knobs", {f"quota_after.{model}": 1})
    run(wire, simulator.url, model, "answer")
    status, body, headers = error_of(wire, simulator.url, model)
    words = {"anthropic": (400, "credit balance is too low"), "google": (429, "prepayment credits are depleted")}
    assert (status, words.get(wire, (429, "insufficient_quota"))[1] in body) == (
        400 if wire == "anthropic" else 429,
        True,
    )
    assert "retry-after" not in {name.lower() for name in headers}


def test_bad_and_missing_keys(wire: str, simulator: Any) -> None:
    status, body, _ = error_of(wire, simulator.url, "sim-large", key="bad-key")
    words = {"anthropic": "authentication_error", "google": "API_KEY_INVALID"}.get(wire, "invalid_api_key")
    assert words in body
    assert status == (400 if wire == "google" else 401)


def test_unknown_model(wire: str, simulator: Any) -> None:
    status, body, _ = error_of(wire, simulator.url, "gpt-nonesuch")
    assert status == 404
    assert "gpt-nonesuch" in body


def test_rate_limit_names_the_wait_and_lets_the_next_minute_through(wire: str, simulator: Any) -> None:
    model = f"sim-paced-{wire}"
    simulator.post("knobs", {f"requests_per_minute.{model}": 60, f"burst_s.{model}": 1})
    run(wire, simulator.url, model, "answer")
    status, _, headers = error_of(wire, simulator.url, model)
    assert status == 429
    assert {name.lower(): value for name, value in headers.items()}["retry-after"] == "1"


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        ("fault_429", (429, 429)),
        ("fault_429_bare", (429, 429)),
        ("fault_quota", (429, 400)),
        ("fault_500", (500, 500)),
        ("fault_503", (503, 503)),
        ("fault_overloaded", (503, 529)),
    ],
)
def test_vendor_errors(wire: str, fault: str, statuses: tuple[int, int], simulator: Any) -> None:
    simulator.post("knobs", {f"{fault}.sim-{fault}": 1, f"retry_after_s.sim-{fault}": 0.25})
    status, body, headers = error_of(wire, simulator.url, f"sim-{fault}")
    assert status == statuses[wire == "anthropic"]
    assert ("retryDelay" in body) == (wire == "google" and fault == "fault_429")
    waits = {name.lower(): value for name, value in headers.items()}.get("retry-after")
    assert waits == ("0.25" if fault == "fault_429" else None)


@pytest.mark.parametrize("fault", ["fault_reset", "fault_cut_body", "fault_timeout"])
def test_broken_connections(wire: str, fault: str, simulator: Any) -> None:
    simulator.post("knobs", {f"{fault}.sim-{fault}": 1, f"hang_s.sim-{fault}": 0.05})
    before = simulator.get("stats")["served_by_model"].get(f"sim-{fault}", 0)
    with pytest.raises(Exception):  # noqa: B017, PT011 - each SDK has its own
        run(wire, simulator.url, f"sim-{fault}", "answer")
    assert simulator.get("stats")["served_by_model"].get(f"sim-{fault}", 0) == before

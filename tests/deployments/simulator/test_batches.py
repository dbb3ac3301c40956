"""The life and the faults of a batch, for each vendor through its official SDK."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from simulated_batches import APIS, Desk, Told, ended, open_desk
from simulated_wires import ask

from tasks.models.output_schema import schema_for
from tasks.prompts import fenced, fenced_item, load_prompt
from tasks.trajectories import Trajectory

ENDS = {"openai": "completed", "anthropic": "ended", "google": "JOB_STATE_SUCCEEDED"}
QUESTION = "A baker has 24 rolls, sells 9 and bakes 5 trays of 12 more. How many rolls are there?"
ERRORS = {"openai": 500, "anthropic": "api_error", "google": 13}

pytestmark = [
    pytest.mark.parametrize("api", APIS),
    # google-genai subclasses aiohttp's session, which aiohttp discourages.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:aiohttp", "ignore::DeprecationWarning:google"),
]


@pytest.fixture
def desk(api: str, simulator: Any) -> Iterator[Desk]:
    with open_desk(api, simulator.url) as opened:
        yield opened


@pytest.fixture
def model(request: Any, api: str, simulator: Any) -> str:
    """A model name of the test's own, whose batches are quick."""
    name = f"sim-{request.node.name.replace('[', '-').replace(']', '')}"
    simulator.post("knobs", {f"batch_s.{name}": 0.03})
    return name


def ids_of(model: str, number: int = 20) -> list[str]:
    """Custom ids whose calls are the test's own: the simulator, and its counts, are shared."""
    return [f"{model[4:].replace('_', '').replace('-', '')[-40:]}{n:03}-s1" for n in range(number)]


def turn(simulator: Any, model: str, **knobs: float) -> None:
    simulator.post("knobs", {f"{name}.{model}": value for name, value in knobs.items()})


def run(desk: Desk, model: str, ids: list[str], **more: Any) -> tuple[str, list[Told]]:
    """The status at the end, and the results."""
    batch = desk.create(model, ids, **more)
    return ended(desk, batch), desk.results(batch)


def vendor(api: str) -> str:
    return api.removesuffix("-file")


def test_items_are_answered_as_the_same_calls_online(api: str, desk: Desk, model: str, simulator: Any) -> None:
    item = fenced_item("objective", "Difference in step 1", [f"level {level} it is" for level in range(6)])
    answer = fenced("answer", "1. Take the sold ones away: 24 - 9 = 14\nFinal answer: 14")
    system, user = load_prompt("trajectory").render(
        question=fenced("question", QUESTION), answer=answer, rubric_item=item
    )
    schema = schema_for(vendor(api), Trajectory.model_json_schema())
    ids = ids_of(model, 6)
    turn(simulator, model, teacher_noise=0.5)
    status, told = run(desk, model, ids, schema=schema, system=system.text, texts=dict.fromkeys(ids, user.text))
    assert status == ENDS[vendor(api)]
    assert sorted(one.custom_id for one in told) == ids
    assert len({one.text for one in told}) > 1
    for one in told:
        Trajectory.model_validate_json(one.text or "")
        call = one.custom_id.removesuffix("-s1")
        online = asyncio.run(
            ask(vendor(api), simulator.url, model, user.text, system=system.text, schema=schema, call_id=call)
        )
        assert one.text == online.text


def test_items_are_counted_by_the_ids_of_their_calls(api: str, desk: Desk, model: str, simulator: Any) -> None:
    before = simulator.get("stats")["batches"]
    ids = ids_of(model, 4)
    run(desk, model, ids, name="counted")
    stats, served = simulator.get("stats"), simulator.get("served")
    assert [served[one.removesuffix("-s1")] for one in ids] == [1, 1, 1, 1]
    assert (stats["received_by_model"][model], stats["served_by_model"][model]) == (4, 4)
    assert stats["input_tokens_by_model"][model] == 4 * (4 + 3)  # "What is 2 + 40?" and what a turn costs
    assert stats["output_tokens_by_model"][model] > 40
    after = stats["batches"]
    assert {name: after[name] - before[name] for name in ("created", "ended", "completed", "items")} == {
        "created": 1, "ended": 1, "completed": 1, "items": 4,
    }  # fmt: skip


def test_an_item_is_billed_though_nobody_fetches_it(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ended(desk, desk.create(model, ids_of(model, 3)))
    assert simulator.get("stats")["served_by_model"][model] == 3


def test_batches_are_listed_newest_first_over_pages(api: str, desk: Desk, model: str) -> None:
    made = [desk.create(model, [one]) for one in ids_of(model, 5)]
    assert desk.ids()[:5] == made[::-1]


def test_results_are_out_of_order_but_for_google(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    in_order = vendor(api) == "google"
    assert ([one.custom_id for one in run(desk, model, ids)[1]] == ids) is in_order
    turn(simulator, model, batch_shuffle=0)
    assert [one.custom_id for one in run(desk, model, ids)[1]] == ids


def test_swapped_results_keep_their_keys(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    turn(simulator, model, batch_shuffle=0)
    straight = run(desk, model, ids)[1]
    turn(simulator, model, batch_swap=1)
    for number in (2, 20):
        swapped = run(desk, model, ids[:number])[1]
        assert [one.custom_id for one in swapped] != ids[:number]
        assert sorted(swapped, key=lambda one: one.custom_id) == straight[:number]


def test_every_item_can_fail(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_all_fail=1)
    status, told = run(desk, model, ids_of(model))
    assert status == ENDS[vendor(api)]
    assert {(one.kind, one.error) for one in told} == {("errored", ERRORS[vendor(api)])}
    assert len(told) == 20
    assert model not in simulator.get("stats")["served_by_model"]


def test_a_fault_of_an_item_is_in_its_result(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    turn(simulator, model, fault_500=0.4, fault_refusal=0.4, fault_reset=1)
    told = run(desk, model, ids)[1]
    kinds = Counter(one.kind for one in told)
    assert kinds.keys() == {"succeeded", "errored"}
    assert {one.error for one in told if one.kind == "errored"} == {ERRORS[vendor(api)]}
    assert {one.text is None for one in told if one.kind == "succeeded"} == {True, False}
    assert simulator.get("stats")["served_by_model"][model] == kinds["succeeded"]


def test_a_lone_surrogate_comes_through(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, fault_surrogate=1)
    told = run(desk, model, ids_of(model, 2))[1]
    assert len([one for one in told if re.search("[\ud800-\udfff]", one.text or "")]) == 2


def test_a_script_sets_the_fault_of_an_item(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model, 3)
    simulator.post("script", {"script": {ids[1].removesuffix("-s1"): ["fault_500"]}})
    kinds = {one.custom_id: one.kind for one in run(desk, model, ids)[1]}
    assert kinds == {ids[0]: "succeeded", ids[1]: "errored", ids[2]: "succeeded"}


def test_a_result_can_stand_twice(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    turn(simulator, model, batch_duplicate=0.5)
    told = run(desk, model, ids)[1]
    times = Counter(one.custom_id for one in told)
    assert times.keys() == set(ids)
    assert set(times.values()) == {1, 2}
    assert len(set(told)) == 20
    assert simulator.get("stats")["served_by_model"][model] == 20


def test_a_result_of_nobodys_can_be_there(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    turn(simulator, model, batch_unknown=1)
    told = run(desk, model, ids)[1]
    assert len(told) == 21
    (stranger,) = [one for one in told if one.custom_id not in ids]
    assert (stranger.kind, bool(stranger.text)) == ("succeeded", True)


def test_results_can_be_missing(api: str, desk: Desk, model: str, simulator: Any) -> None:
    ids = ids_of(model)
    turn(simulator, model, batch_missing=0.5)
    status, told = run(desk, model, ids)
    assert status == ENDS[vendor(api)]
    assert 0 < len(told) < 20
    assert {one.kind for one in told} == {"succeeded"}
    assert simulator.get("stats")["served_by_model"][model] == len(told)


def test_an_expired_batch_has_what_was_done_in_time(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_expire=1)
    status, told = run(desk, model, ids_of(model))
    assert status == {"openai": "expired", "anthropic": "ended", "google": "JOB_STATE_EXPIRED"}[vendor(api)]
    kinds = Counter(one.kind for one in told)
    assert 4 < kinds["succeeded"] < 16
    assert kinds["expired"] == (0 if vendor(api) == "google" else 20 - kinds["succeeded"])
    assert simulator.get("stats")["served_by_model"][model] == kinds["succeeded"]


def test_a_cancelled_batch_has_what_was_done_so_far(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_s=60)
    batch = desk.create(model, ids_of(model))
    assert not desk.ended(batch)
    desk.cancel(batch)
    status = ended(desk, batch)
    assert status == {"openai": "cancelled", "anthropic": "ended", "google": "JOB_STATE_CANCELLED"}[vendor(api)]
    kinds = Counter(one.kind for one in desk.results(batch))
    assert 4 < kinds["succeeded"] < 16
    assert kinds["cancelled"] == (0 if vendor(api) == "google" else 20 - kinds["succeeded"])
    assert simulator.get("stats")["served_by_model"][model] == kinds["succeeded"]


def test_a_strange_status_stands_for_one_look_after_the_end(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_strange_status=1, batch_s=0.0)
    before = simulator.get("stats")["batches"]["ended"]
    batch = desk.create(model, ids_of(model))
    while simulator.get("stats")["batches"]["ended"] == before:
        pass
    # google-genai warns of a word that it does not know.
    with pytest.warns(match="WAITING_IN_LINE") if vendor(api) == "google" else nullcontext():
        assert "waiting_in_line" in desk.status(batch).lower()
    assert desk.status(batch) == ENDS[vendor(api)]
    assert len(desk.results(batch)) == 20


def test_a_lost_batch_can_be_found(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_lost=1)
    known = set(desk.ids())
    with pytest.raises(Exception):  # noqa: B017, PT011 - each SDK has its own
        desk.create(model, ids_of(model))
    (lost,) = set(desk.ids()) - known
    assert ended(desk, lost) == ENDS[vendor(api)]
    assert len(desk.results(lost)) == 20


def test_only_so_many_tokens_wait_at_once(api: str, desk: Desk, model: str, simulator: Any) -> None:
    turn(simulator, model, batch_s=60, batch_enqueued_tokens=200)
    first = desk.create(model, ids_of(model))
    if api == "openai":
        second = desk.create(model, ids_of(model))
        assert ended(desk, second) == "failed"
        (error,) = desk.sdk.batches.retrieve(second).errors.data
        assert error.code == "token_limit_exceeded"
        assert "Limit: 200 enqueued tokens" in error.message
    else:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each SDK has its own
            desk.create(model, ids_of(model))
        assert getattr(caught.value, "status_code", getattr(caught.value, "code", None)) == 429
    desk.cancel(first)
    ended(desk, first)
    turn(simulator, model, batch_s=0.03)
    assert run(desk, model, ids_of(model))[0] == ENDS[vendor(api)]


def test_a_bad_key_is_refused(api: str, model: str, simulator: Any) -> None:
    with open_desk(api, simulator.url, key="bad-key") as desk:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each SDK has its own
            desk.ids()
        assert getattr(caught.value, "status_code", getattr(caught.value, "code", None)) in (400, 401)

"""What happens to one call: a pure function of its attempts, and a ledger record before each is parsed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from storage.ledger import Record
from tasks.calls import Again, Attempt, Call, Caller, next_step, read_attempt
from tasks.models import Message, Outcome, Reply, Request, Unsent, Usage
from tasks.settings import Model

MODEL = Model(name="openai/sim-x", max_output_tokens=100)
GIVE_UP_AFTER = 20


class Score(BaseModel):
    model_config = {"extra": "forbid", "strict": True}
    score: Annotated[int, Field(ge=0, le=5)]


class Pool:
    """Answers with the given replies, in turn."""

    def __init__(self, *replies: Reply | Unsent) -> None:
        self.replies = list(replies)
        self.asked: list[Request] = []

    async def ask(self, model: Model, request: Request, keep: Callable[[Reply], Awaitable[None]]) -> Reply:
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Unsent):
            raise reply
        await keep(reply)
        return reply


class Purse:
    def __init__(self) -> None:
        self.settled: list[tuple[float, float]] = []

    async def reserve(self, usd: float) -> None: ...

    def settle(self, reserved: float, spent: float) -> None:
        self.settled.append((reserved, spent))


class Records(list[Record]):
    run = "this"

    async def append(self, record: Record) -> None:  # type: ignore[override]
        super().append(record)


class Silent:
    def begin(self, stage: str, wanted: int, done: int) -> None: ...
    def attempt(self, record: Record) -> None: ...
    def ended(self, stage: str, outcome: Outcome | None) -> None: ...


def settle(pool: Pool, purse: Purse | None = None) -> tuple[Outcome | None, Records]:
    records = Records()
    caller = Caller(pool, records, purse or Purse(), Silent(), GIVE_UP_AFTER)

    def request() -> Request:
        return Request("c", (Message("user", "judge"),), MODEL.max_output_tokens, Score.model_json_schema(), "score")

    call = Call(MODEL, request, {"call_id": "c", "stage": "trajectories"}, Score)
    outcome = asyncio.run(caller.settle(call, []))
    return outcome, records


def ok(text: str) -> Reply:
    return Reply(Outcome.OK, text=text, raw=text, usage=Usage(10, 0, 5))


def test_a_good_answer_is_asked_for_once() -> None:
    pool = Pool(ok('{"score": 3}'))
    outcome, records = settle(pool)
    assert (outcome, len(pool.asked), records[0]["attempt"]) == (Outcome.OK, 1, 1)


def test_a_malformed_answer_is_shown_with_its_error_and_asked_again() -> None:
    pool = Pool(ok("no JSON at all"), ok('{"score": 3}'))
    outcome, records = settle(pool)
    assert outcome is Outcome.OK
    assert [message.role for message in pool.asked[1].messages] == ["user", "assistant", "user"]
    assert pool.asked[1].messages[1].text == "no JSON at all"
    assert [record["raw"] for record in records] == ["no JSON at all", '{"score": 3}']


@pytest.mark.parametrize("text", ['{"score": 6}', '{"score": 4.5}', '{"score": "4-5"}', '{"score": null}'])
def test_a_score_outside_the_contract_is_never_clamped_and_fails_after_three(text: str) -> None:
    pool = Pool(ok(text), ok(text), ok(text))
    outcome, records = settle(pool)
    assert outcome is Outcome.OUT_OF_CONTRACT
    assert len(records) == 3


@pytest.mark.parametrize(
    ("reply", "spent"),
    [
        (Reply(Outcome.OK, text='{"score": 3}', cost_usd=0.2, most_usd=0.9), 0.2),
        (Reply(Outcome.OK, text='{"score": 3}', cost_usd=None, most_usd=0.9), 0.9),
        (Reply(Outcome.REFUSED, cost_usd=0.1, most_usd=0.9), 0.1),
        (Reply(Outcome.REJECTED, cost_usd=None, most_usd=0.9), 0.0),
    ],
)
def test_what_an_answer_cost_is_counted_and_where_that_is_not_known_the_most_it_can_have_been(
    reply: Reply, spent: float
) -> None:
    purse = Purse()
    _, (record,) = settle(Pool(reply), purse)
    assert purse.settled == [(0.9, spent)]
    assert (record["cost_usd"] or 0.0) + (record["most_usd"] or 0.0) == spent


def test_a_truncated_answer_is_asked_once_more_with_a_larger_limit() -> None:
    cut = Reply(Outcome.TRUNCATED, text='{"sc')
    pool = Pool(cut, cut)
    outcome, _ = settle(pool)
    assert outcome is Outcome.TRUNCATED
    assert [request.max_output_tokens for request in pool.asked] == [100, 400]


def test_a_stopped_model_leaves_the_call_to_be_done() -> None:
    outcome, records = settle(Pool(Reply(Outcome.QUOTA, raw="{}", error="no money left")))
    assert outcome is None
    assert records[0]["outcome"] == "quota"
    assert settle(Pool(Unsent("quota (no money left)"))) == (None, [])


@pytest.mark.parametrize(
    ("outcomes", "step"),
    [
        ([], Again()),
        (["ok"], Outcome.OK),
        (["refused"], Outcome.REFUSED),
        (["refused", "ok"], Outcome.OK),
        (["too_long"], Outcome.TOO_LONG),
        (["empty"], Again()),
        (["empty", "empty"], Outcome.EMPTY),
        (["server"], Again(backoff_s=1.0)),
        (["server", "server"], Again(backoff_s=2.0)),
        (["server"] * 5, Outcome.SERVER),
        (["truncated", "server"], Again(larger_limit=True, backoff_s=1.0)),
        (["quota"], Again()),
        (["auth", "auth"], Again()),
        (["expired"] * 30, Again()),
        (["missing"], Again()),
        (["missing", "missing"], Outcome.MISSING),
    ],
)
def test_the_next_step_follows_from_the_attempts(outcomes: list[str], step: Again | Outcome) -> None:
    assert next_step([Attempt(Outcome(outcome), "r") for outcome in outcomes], GIVE_UP_AFTER) == step


def test_a_retry_counts_only_its_own_runs_failures() -> None:
    failed = [Attempt(Outcome.REFUSED, "before")]
    assert next_step(failed, 9, of_run="now") == Again()
    assert next_step([*failed, Attempt(Outcome.REFUSED, "now")], 9, of_run="now") is Outcome.REFUSED
    assert next_step([Attempt(Outcome.OK, "before")], 9, of_run="now") is Outcome.OK


def test_a_call_that_failed_often_enough_in_all_its_runs_is_abandoned_until_it_is_named() -> None:
    failed = [Attempt(Outcome.REFUSED, f"run {number}") for number in range(4)]
    assert next_step(failed[:3], 4, of_run="now") == Again()
    assert next_step(failed, 4, of_run="now") is Outcome.ABANDONED
    assert next_step(failed, 4) is Outcome.ABANDONED
    assert next_step(failed, 4, of_run="now", reopened=True) == Again()
    assert next_step([*failed, Attempt(Outcome.OK, "now")], 4) is Outcome.OK
    unsaid = [Attempt(Outcome.QUOTA, "r"), Attempt(Outcome.EXPIRED, "r")] * 4
    assert next_step([*failed[:3], *unsaid], 4, of_run="now") == Again()


def test_an_error_is_still_shown_after_a_fault_of_the_server() -> None:
    malformed = Attempt(Outcome.MALFORMED, "r", text="no", error="not JSON")
    step = next_step([malformed, Attempt(Outcome.SERVER, "r")], GIVE_UP_AFTER)
    assert step == Again(shown=malformed, backoff_s=1.0)


def test_no_call_goes_on_for_ever() -> None:
    mixed = ["server", "timeout", "connection", "malformed", "out_of_contract"] * 4
    attempts = [Attempt(Outcome(outcome), "r") for outcome in mixed]
    assert [isinstance(next_step(attempts[:n], 12), Outcome) for n in (11, 12)] == [False, True]


def test_an_attempt_is_read_from_its_record_alone() -> None:
    record = {
        "outcome": "ok",
        "text": '{"score": 2}',
        "error": None,
        "run": "r",
        "sanitized": False,
        "finish_reason": "stop",
    }
    value = read_attempt(record, Score).value
    assert value is not None
    assert value.value.score == 2

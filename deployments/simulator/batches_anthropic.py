"""Anthropic's message batches: requests in one body in, lines of results out.

    in    {"requests": [{"custom_id": "...", "params": {...}}]}
    line  {"custom_id": "...", "result": {"type": "succeeded", "message": {...}}}
          {"custom_id": "...", "result": {"type": "errored", "error": {"type": "error", "error": {...}}}}

A batch has no name. What is wrong with an item's params is told in its result, as the vendor does.
"""

import re
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from deployments.simulator import wire_anthropic
from deployments.simulator.batches import Batch, Batches, Outcome, Result, State, in_slices, read_item
from deployments.simulator.batches_http import Answer, Api, Route, after, as_object, page_size, read_body, uncollected
from deployments.simulator.exchange import Ask, Json, Problem, VendorError, as_json

MOST_REQUESTS = 100_000
LARGEST_BATCH = 256 * 1024 * 1024
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DAY_S = 24 * 3600
_PATH = "/v1/messages/batches"


def _bad(message: str) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message)


async def create(batches: Batches, request: web.BaseRequest) -> Answer:
    raw = await read_body(request, LARGEST_BATCH)
    with uncollected():
        requests = _requests(raw)

    def read(params: Json) -> Ask:
        return wire_anthropic.read(params, request.headers, _PATH)

    items = [read_item(read, *one) async for one in in_slices(requests.items())]
    model = next((item.model for item in items if item.model), "")
    if batches.strikes("batch_invalid", model, items):
        raise _bad("requests: The batch could not be validated")
    if passed := batches.limit_passed(items):
        raise passed
    batch_id = f"msgbatch_{batches.new_id(24)}"
    about = {"url": f"http://{request.host}{_PATH}/{batch_id}/results"}
    batch = batches.open(batch_id, wire_anthropic.MESSAGES, model, items, read, write, about=about)
    return Answer(describe(batch, hidden=False), lost=batches.strikes("batch_lost", model, items))


def _requests(raw: bytes) -> dict[str, bytes]:
    """Each custom id's params."""
    given = as_object(raw).get("requests")
    if not isinstance(given, list) or not given:
        raise _bad("requests: List should have at least 1 item after validation")
    if len(given) > MOST_REQUESTS:
        raise _bad(f"requests: List should have at most {MOST_REQUESTS} items after validation")
    requests: dict[str, bytes] = {}
    for place, one in enumerate(given):
        custom_id = one.get("custom_id") if isinstance(one, dict) else None
        if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
            raise _bad(f"requests.{place}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if custom_id in requests:
            raise _bad(f"requests.{place}.custom_id: Duplicate custom_id '{custom_id}'; each must be unique in a batch")
        requests[custom_id] = orjson.dumps(one.get("params"))
    return requests


def write(result: Result) -> bytes:
    told: Json = {"type": str(result.outcome)}
    if result.outcome is Outcome.SUCCEEDED and result.body:
        told["message"] = result.body | {"usage": result.body["usage"] | {"service_tier": "batch"}}
    elif result.outcome is Outcome.ERRORED:
        told["error"] = result.body
    elif result.outcome is Outcome.CANCELLED:
        told["type"] = "canceled"
    return as_json({"custom_id": result.item.custom_id, "result": told})


def describe(batch: Batch, *, hidden: bool) -> Json:
    """The batch object. ``hidden``: with a strange status, and as if it still ran."""
    over = batch.is_over and not hidden
    status = "ended" if over else "canceling" if batch.state is State.CANCELLING else "in_progress"
    counts = {"processing": 0 if over else len(batch.items)}
    for outcome in Outcome:
        name = "canceled" if outcome is Outcome.CANCELLED else str(outcome)
        counts[name] = batch.counts[outcome] if over else 0
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "waiting_in_line" if hidden else status,
        "request_counts": {name: batch.count(number) for name, number in counts.items()},
        "created_at": _time(batch.created),
        "expires_at": _time(batch.created + _DAY_S),
        "ended_at": _time(batch.ended) if over else None,
        "archived_at": None,
        "cancel_initiated_at": _time(batch.cancelled),
        "results_url": batch.about["url"] if over else None,
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _batch(batches: Batches, batch_id: str) -> Batch:
    batch = batches.all.get(batch_id)
    if batch is None or batch.vendor != "anthropic":
        raise VendorError(Problem.NO_MODEL, f"Message batch {batch_id} not found")
    return batch


async def retrieve(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    batch = _batch(batches, batch_id)
    return Answer(describe(batch, hidden=batch.hides(looked_at=True)))


async def listing(batches: Batches, request: web.BaseRequest) -> Answer:
    limit = page_size(request, "limit", 20, 1000)
    rows: list[Any] = [describe(batch, hidden=batch.hides(looked_at=False)) for batch in batches.of("anthropic")]
    if before := request.query.get("before_id"):
        rest = list(after(rows[::-1], lambda row: str(row["id"]), before))
        shown = rest[:limit][::-1]
    else:
        rest = list(after(rows, lambda row: str(row["id"]), request.query.get("after_id")))
        shown = rest[:limit]
    ends = {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return Answer({"data": shown, "has_more": len(rest) > limit, **ends})


async def results(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    batch = _batch(batches, batch_id)
    if not batch.is_over:
        raise _bad(f"Message batch {batch_id} has no results yet: it is still being processed")
    return Answer(batch.text(), content_type="application/x-jsonl")


async def cancel(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    batch = _batch(batches, batch_id)
    if batch.is_over:
        raise _bad(f"Message batch {batch_id} has ended and cannot be canceled")
    batches.cancel(batch)
    return Answer(describe(batch, hidden=False))


async def delete(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    if not _batch(batches, batch_id).is_over:
        raise _bad(f"Message batch {batch_id} cannot be deleted while it is being processed")
    del batches.all[batch_id]
    return Answer({"id": batch_id, "type": "message_batch_deleted"})


_ONE = _PATH + "/([^/]+)"
API = Api(
    wire_anthropic.MESSAGES,
    lambda request: request.path.startswith(_PATH),
    (
        Route("POST", re.compile(_PATH), create),
        Route("GET", re.compile(_PATH), listing),
        Route("GET", re.compile(_ONE), retrieve),
        Route("DELETE", re.compile(_ONE), delete),
        Route("GET", re.compile(_ONE + "/results"), results),
        Route("POST", re.compile(_ONE + "/cancel"), cancel),
    ),
    Answer(
        {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, 413
    ),
)

"""OpenAI's files and batches: a file of requests in, a file of answers and a file of errors out.

    line in   {"custom_id": "...", "method": "POST", "url": "/v1/responses", "body": {...}}
    line out  {"custom_id": "...", "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}

An item that errored stands in the error file with its status code; one that never ran, there too, with an error and
no response. A batch whose input is wrong is created all the same, and has failed when it is next looked at.
"""

import re
import time
from typing import Any

import orjson
from aiohttp import web

from deployments.simulator import wire_openai
from deployments.simulator.batches import (
    ENDED,
    Batch,
    Batches,
    Failure,
    File,
    Item,
    Outcome,
    Reader,
    Result,
    State,
    in_slices,
    read_item,
)
from deployments.simulator.batches_http import Answer, Api, Route, after, as_object, page_size, read_body
from deployments.simulator.exchange import Ask, Json, Problem, VendorError, as_json

MOST_LINES = 50_000
LARGEST_BATCH = 200 * 1024 * 1024
LARGEST_FILE = 512 * 1024 * 1024
_SMALL = 1024 * 1024
_ENDPOINTS = {"/v1/responses": wire_openai.RESPONSES, "/v1/chat/completions": wire_openai.CHAT}
_STATUS = {State.NEW: "validating", State.RUNNING: "in_progress"}
_DAY_S = 24 * 3600


def _bad(message: str, param: str | None = None, code: str | None = None) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message, param=param, code=code)


def _absent(message: str, param: str = "id") -> VendorError:
    return VendorError(Problem.NO_MODEL, message, param=param)


async def upload(batches: Batches, request: web.BaseRequest) -> Answer:
    parts = _parts(await read_body(request, LARGEST_FILE), request.headers.get("Content-Type", ""))
    if "file" not in parts or "purpose" not in parts:
        raise _bad("'file' and 'purpose' are required properties", "file", "missing_required_parameter")
    name, data = parts["file"]
    purpose = parts["purpose"][1].decode()
    if purpose == "batch" and not name.endswith(".jsonl"):
        raise _bad("Invalid file format for Batch API. Must be .jsonl", "file")
    return Answer(_keep(batches, name, purpose, data).about)


def _parts(body: bytes, content_type: str) -> dict[str, tuple[str, bytes]]:
    """File name and content of each part of a form, by the part's name."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if boundary is None:
        raise _bad("The request must be multipart/form-data.")
    parts: dict[str, tuple[str, bytes]] = {}
    for part in body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(r'[; ]name="([^"]*)"', head.decode())
        filename = re.search(r'filename="([^"]*)"', head.decode())
        if name is not None:
            parts[name[1]] = (filename[1] if filename else "", content.removesuffix(b"\r\n"))
    return parts


def _keep(batches: Batches, name: str, purpose: str, data: bytes) -> File:
    file_id = f"file-{batches.new_id(22)}"
    about = {
        "id": file_id,
        "object": "file",
        "bytes": len(data),
        "created_at": int(time.time()),
        "expires_at": int(time.time()) + 30 * _DAY_S,
        "filename": name,
        "purpose": purpose,
        "status": "processed",
        "status_details": None,
    }
    batches.files[file_id] = File(file_id, data, about)
    return batches.files[file_id]


def _file(batches: Batches, file_id: str) -> File:
    if file_id not in batches.files:
        raise _absent(f"No such File object: {file_id}")
    return batches.files[file_id]


async def file(batches: Batches, request: web.BaseRequest, file_id: str) -> Answer:
    return Answer(_file(batches, file_id).about)


async def content(batches: Batches, request: web.BaseRequest, file_id: str) -> Answer:
    return Answer(_file(batches, file_id).data, content_type="application/octet-stream")


async def delete(batches: Batches, request: web.BaseRequest, file_id: str) -> Answer:
    del batches.files[_file(batches, file_id).id]
    return Answer({"id": file_id, "object": "file", "deleted": True})


async def files(batches: Batches, request: web.BaseRequest) -> Answer:
    purpose = request.query.get("purpose")
    kept = [kept.about for kept in batches.files.values() if kept.id.startswith("file-")]
    rows = [about for about in kept if purpose in (None, about["purpose"])]
    if request.query.get("order", "desc") == "desc":
        rows.reverse()
    return Answer(_page(rows, request, 10_000, 10_000))


def _page(rows: list[Json], request: web.BaseRequest, default: int, most: int) -> Json:
    limit = page_size(request, "limit", default, most)
    rest = after(rows, lambda row: str(row["id"]), request.query.get("after"))
    shown = list(rest[:limit])
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(rest) > limit,
    }


async def create(batches: Batches, request: web.BaseRequest) -> Answer:
    body = as_object(await read_body(request, _SMALL))
    for name in ("input_file_id", "endpoint", "completion_window"):
        if not isinstance(body.get(name), str):
            raise _bad(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if body["endpoint"] not in _ENDPOINTS:
        raise _bad(f"Invalid value: '{body['endpoint']}'.", "endpoint", "invalid_value")
    if body["completion_window"] != "24h":
        raise _bad(f"Invalid value: '{body['completion_window']}'. Value must be '24h'.", "completion_window")
    given = _file(batches, body["input_file_id"])
    if given.about["purpose"] != "batch":
        raise _bad(f"File '{given.id}' has the wrong purpose: it must be 'batch'.", "input_file_id")
    endpoint, wire = body["endpoint"], _ENDPOINTS[body["endpoint"]]

    def read(one: Json) -> Ask:
        return wire.read(one, request.headers, endpoint)

    items, failure = await _read(given.data, endpoint, read)
    model = next((item.model for item in items if item.model), "")
    if failure is None and batches.strikes("batch_invalid", model, items):
        failure = Failure("invalid_json_line", "This line is not parseable as valid JSON.", line=1)
    if failure is None and (passed := batches.limit_passed(items)) and passed.excess:
        failure = Failure(
            "token_limit_exceeded",
            f"Enqueued token limit reached for {model} in organization org-simulated. Limit: "
            f"{passed.excess.limit:,} enqueued tokens. Please try again once some in_progress batches have been "
            "completed.",
        )
    about = {name: body.get(name) for name in ("input_file_id", "endpoint", "completion_window", "metadata")}
    batch = batches.open(f"batch_{batches.new_id(32)}", wire, model, items, read, write, about=about, failure=failure)
    lost = failure is None and batches.strikes("batch_lost", model, items)
    return Answer(describe(batches, batch, hidden=False), lost=lost)


async def _read(data: bytes, endpoint: str, read: Reader) -> tuple[list[Item], Failure | None]:
    """The file's items, or why it is not a valid input."""
    lines = data.split(b"\n")
    if not data.strip():
        return [], Failure("empty_file", "The input file is empty. Please ensure that the batch contains requests.")
    if len(data) > LARGEST_BATCH:
        return [], Failure("file_too_large", f"The input file is larger than {LARGEST_BATCH} bytes.")
    if sum(1 for line in lines if line.strip()) > MOST_LINES:
        return [], Failure("too_many_tasks", f"The batch input file contains more than {MOST_LINES} requests.")
    items: list[Item] = []
    seen: set[str] = set()
    model = None
    async for number, line in in_slices(enumerate(lines, 1)):
        if not line.strip():
            continue
        task = _task(line, number, endpoint)
        if isinstance(task, Failure):
            return [], task
        custom_id, body = task["custom_id"], task["body"]
        if custom_id in seen:
            message = (
                f"The custom_id '{custom_id}' for this request is a duplicate of another request. The custom_id "
                "parameter must be unique for each request in a batch."
            )
            return [], Failure("duplicate_custom_id", message, number, "custom_id")
        seen.add(custom_id)
        if not isinstance(body.get("model"), str) or not body["model"].startswith("sim-"):
            message = f"The provided model '{body.get('model')}' is not supported by the Batch API."
            return [], Failure("model_not_found", message, number, "body.model")
        model = model or body["model"]
        if body["model"] != model:
            message = (
                f"The model '{body['model']}' for this request does not match the rest of the batch. Each batch must "
                "contain requests for a single model."
            )
            return [], Failure("mismatched_model", message, number, "body.model")
        items.append(read_item(read, custom_id, orjson.dumps(body)))
    return items, None


def _task(line: bytes, number: int, endpoint: str) -> Json | Failure:
    try:
        task = orjson.loads(line)
    except orjson.JSONDecodeError:
        task = None
    if not isinstance(task, dict):
        return Failure("invalid_json_line", "This line is not parseable as valid JSON.", number)
    if not isinstance(task.get("custom_id"), str) or not task["custom_id"]:
        return Failure("missing_required_parameter", "Missing required parameter: 'custom_id'.", number, "custom_id")
    if task.get("method") != "POST":
        return Failure("invalid_method", "The method of this request must be POST.", number, "method")
    if task.get("url") != endpoint:
        message = f"The URL provided for this request does not match the batch endpoint '{endpoint}'."
        return Failure("mismatched_endpoint", message, number, "url")
    if not isinstance(task.get("body"), dict):
        return Failure("missing_required_parameter", "Missing required parameter: 'body'.", number, "body")
    return task


_NEVER_RAN = {
    Outcome.EXPIRED: ("batch_expired", "This request could not be executed before the completion window expired."),
    Outcome.CANCELLED: ("batch_cancelled", "This request was not executed because the batch was cancelled."),
}


def write(result: Result) -> bytes:
    response = error = None
    if result.outcome in _NEVER_RAN:
        error = dict(zip(("code", "message"), _NEVER_RAN[result.outcome], strict=True))
    else:
        response = {"status_code": result.status, "request_id": f"req_{result.request_id}", "body": result.body}
    return as_json(
        {
            "id": f"batch_req_{result.request_id}",
            "custom_id": result.item.custom_id,
            "response": response,
            "error": error,
        }
    )


def describe(batches: Batches, batch: Batch, *, hidden: bool) -> Json:
    """The batch object. ``hidden``: with a strange status, and as if it still ran."""
    over = batch.is_over and not hidden
    if over:
        _keep_results(batches, batch)
    times = dict.fromkeys(("in_progress_at", "finalizing_at", *(f"{state}_at" for state in ENDED), "cancelling_at"))
    if batch.cancelled:
        times["cancelling_at"] = int(batch.cancelled)
    if batch.state is not State.NEW and not batch.failure:
        times["in_progress_at"] = int(batch.created)
    if over and batch.ended:
        times |= {"finalizing_at": times["in_progress_at"] and int(batch.ended), f"{batch.state}_at": int(batch.ended)}
    done, failed = (batch.counts[kind] if over else 0 for kind in (Outcome.SUCCEEDED, Outcome.ERRORED))
    errors = None
    if over and batch.failure:
        failure = batch.failure
        told = {"code": failure.code, "line": failure.line, "message": failure.message, "param": failure.param}
        errors = {"object": "list", "data": [told]}
    total = 0 if batch.failure or batch.state is State.NEW else len(batch.items)
    return {
        "id": batch.id,
        "object": "batch",
        **batch.about,
        "model": batch.model or None,
        "errors": errors,
        "status": "waiting_in_line" if hidden else _STATUS.get(batch.state, str(batch.state)),
        "output_file_id": batch.about.get("output_file_id") if over else None,
        "error_file_id": batch.about.get("error_file_id") if over else None,
        "created_at": int(batch.created),
        "expires_at": int(batch.created) + _DAY_S,
        **times,
        "request_counts": {
            "total": batch.count(total), "completed": batch.count(done), "failed": batch.count(failed)
        },
    }  # fmt: skip


def _keep_results(batches: Batches, batch: Batch) -> None:
    """Makes the output and the error file of an ended batch, those of them that have a line."""
    if "output_file_id" in batch.about:
        return
    for kind, errors in (("output", False), ("error", True)):
        text = batch.text(errors=errors)
        kept = _keep(batches, f"{batch.id}_{kind}.jsonl", "batch_output", text) if text else None
        batch.about[f"{kind}_file_id"] = kept and kept.id


def _batch(batches: Batches, batch_id: str) -> Batch:
    batch = batches.all.get(batch_id)
    if batch is None or batch.vendor != "openai":
        raise _absent(f"No batch found with id '{batch_id}'.")
    return batch


async def retrieve(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    batch = _batch(batches, batch_id)
    return Answer(describe(batches, batch, hidden=batch.hides(looked_at=True)))


async def listing(batches: Batches, request: web.BaseRequest) -> Answer:
    rows = [describe(batches, batch, hidden=batch.hides(looked_at=False)) for batch in batches.of("openai")]
    return Answer(_page(rows, request, 20, 100))


async def cancel(batches: Batches, request: web.BaseRequest, batch_id: str) -> Answer:
    batch = _batch(batches, batch_id)
    if batch.is_over:
        message = f"Cannot cancel a batch with status '{batch.state}'."
        error: dict[str, Any] = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        return Answer({"error": error}, 409)
    batches.cancel(batch)
    return Answer(describe(batches, batch, hidden=False))


_FILE, _BATCH = r"/v1/files/([^/]+)", r"/v1/batches/([^/]+)"
_TOO_LARGE = "The data value transmitted exceeds the capacity limit."
API = Api(
    wire_openai.CHAT,
    lambda request: True,
    (
        Route("POST", re.compile(r"/v1/files"), upload),
        Route("GET", re.compile(r"/v1/files"), files),
        Route("GET", re.compile(_FILE), file),
        Route("DELETE", re.compile(_FILE), delete),
        Route("GET", re.compile(_FILE + "/content"), content),
        Route("POST", re.compile(r"/v1/batches"), create),
        Route("GET", re.compile(r"/v1/batches"), listing),
        Route("GET", re.compile(_BATCH), retrieve),
        Route("POST", re.compile(_BATCH + "/cancel"), cancel),
    ),
    Answer({"error": {"message": _TOO_LARGE, "type": "invalid_request_error", "param": None, "code": None}}, 413),
)

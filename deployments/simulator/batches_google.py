"""Gemini's batches and files: requests in the body or in an uploaded file, results in the batch or in a file.

    in the body  {"batch": {"displayName": "...", "inputConfig": {"requests": {"requests": [
                 {"request": {...}, "metadata": {"key": "..."}}]}}}}
                 answered by {"metadata": {"key": "..."}, "response": {...}} in the batch itself
    in a file    {"key": "...", "request": {...}}
                 answered by a line {"key": "...", "response": {...}} of the file ``files/batch-...``

An item that errored has ``error``, a google.rpc.Status with its own codes, in the place of ``response``; one that
never ran is not there at all. Whole numbers of 64 bits are strings, as protobuf has them.
"""

import base64
import hashlib
import re
import time
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from deployments.simulator import wire_google
from deployments.simulator.batches import (
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
from deployments.simulator.batches_http import Answer, Api, Route, as_object, page_size, read_body, uncollected
from deployments.simulator.exchange import Ask, Json, Problem, VendorError, as_json

LARGEST_BODY = 20 * 1024 * 1024
LARGEST_FILE = 2 * 1024 * 1024 * 1024
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main."
_RPC_CODES = {400: 3, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14}
_STATE = {
    State.NEW: "BATCH_STATE_PENDING",
    State.RUNNING: "BATCH_STATE_RUNNING",
    State.CANCELLING: "BATCH_STATE_RUNNING",
    State.COMPLETED: "BATCH_STATE_SUCCEEDED",
    State.CANCELLED: "BATCH_STATE_CANCELLED",
    State.EXPIRED: "BATCH_STATE_EXPIRED",
    State.FAILED: "BATCH_STATE_FAILED",
}


def _bad(message: str) -> VendorError:
    return VendorError(Problem.BAD_REQUEST, message)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


async def start_upload(batches: Batches, request: web.BaseRequest) -> Answer:
    """The first step of a resumable upload: what the file will be; the answer's header has where it goes."""
    if request.headers.get("X-Goog-Upload-Command") != "start":
        raise _bad("An upload begins with the command 'start'.")
    about = as_object(await read_body(request, LARGEST_BODY)).get("file") or {}
    size = int(request.headers.get("X-Goog-Upload-Header-Content-Length", "0"))
    if size > LARGEST_FILE:
        raise _bad(f"The file is larger than {LARGEST_FILE} bytes.")
    name = about.get("name") or f"files/{batches.new_id(12)}"
    if not re.fullmatch(r"files/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", name):
        raise _bad("The file's id must be at most 40 lowercase letters, digits and dashes, no dash at either end.")
    if name in batches.files:
        error = {"code": 409, "message": "Requested entity already exists.", "status": "ALREADY_EXISTS"}
        return Answer({"error": error}, 409)
    upload_id = batches.new_id(48)
    batches.uploads[upload_id] = (name, about, bytearray())
    url = f"http://{request.host}{request.path}?upload_id={upload_id}&upload_protocol=resumable"
    return Answer(b"", headers={"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"})


async def upload(batches: Batches, request: web.BaseRequest) -> Answer:
    """Either step of an upload; the address of the second names the first."""
    upload_id = request.query.get("upload_id")
    if upload_id is None:
        wire_google.authorize(request.headers)
        return await start_upload(batches, request)
    if upload_id not in batches.uploads:
        raise _absent(f"Upload {upload_id}")
    name, given, data = batches.uploads[upload_id]
    if int(request.headers.get("X-Goog-Upload-Offset", "0")) != len(data):
        raise _bad("The offset does not match what has been received.")
    data += await read_body(request, LARGEST_FILE)
    if "finalize" not in request.headers.get("X-Goog-Upload-Command", ""):
        return Answer(b"", headers={"X-Goog-Upload-Status": "active"})
    del batches.uploads[upload_id]
    now = time.time()
    about = {
        "name": name,
        "displayName": given.get("displayName", given.get("display_name")),
        "mimeType": given.get("mimeType", given.get("mime_type")),
        "sizeBytes": str(len(data)),
        "createTime": _time(now),
        "updateTime": _time(now),
        "expirationTime": _time(now + 48 * 3600),
        "sha256Hash": base64.b64encode(hashlib.sha256(data).digest()).decode(),
        "uri": f"https://generativelanguage.googleapis.com/v1beta/{name}",
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    about = {field: value for field, value in about.items() if value is not None}
    batches.files[name] = File(name, bytes(data), about)
    return Answer({"file": about}, headers={"X-Goog-Upload-Status": "final"})


def _absent(name: str) -> VendorError:
    """The vendor does not tell what is not there from what is not yours."""
    return VendorError(Problem.NO_KEY, f"You do not have permission to access {name} or it may not exist.")


def _file(batches: Batches, name: str) -> File:
    if name not in batches.files:
        raise _absent(f"the File {name.removeprefix('files/')}")
    return batches.files[name]


async def file(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    return Answer(_file(batches, name).about)


async def files(batches: Batches, request: web.BaseRequest) -> Answer:
    kept = [kept.about for kept in reversed(batches.files.values()) if kept.id.startswith("files/")]
    return Answer(_page("files", kept, request))


async def delete_file(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    del batches.files[_file(batches, name).id]
    return Answer({})


async def download(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    """Only what a batch made can be downloaded."""
    batch = batches.all.get(name.replace("files/batch-", "batches/"))
    if batch is None or not batch.is_over:
        _file(batches, name)
        raise _bad("Only generated files can be downloaded.")
    return Answer(batch.text(), content_type="application/octet-stream")


async def create(batches: Batches, request: web.BaseRequest, model: str) -> Answer:
    if not model.startswith("sim-"):
        raise VendorError(Problem.NO_MODEL, f"models/{model} is not found, or is not supported for batches.")
    raw = await read_body(request, LARGEST_BODY)
    with uncollected():
        given = as_object(raw).get("batch")
        config = given.pop("inputConfig", None) if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(config, dict):
            raise _bad("* BatchGenerateContentRequest.batch.input_config: input_config is not specified\n")
        name, requests = config.get("fileName"), _requests(config.pop("requests", None))

    def read(one: Json) -> Ask:
        return wire_google.read(one, request.headers, f"/v1beta/models/{model}:generateContent")

    if name is not None:
        items, failure = await _read_file(_file(batches, name), read)
    else:
        items, failure = [read_item(read, *one) async for one in in_slices(requests)], None
    if not items and failure is None:
        raise _bad("* BatchGenerateContentRequest.batch.input_config: there are no requests\n")
    if failure is None and batches.strikes("batch_invalid", model, items):
        failure = Failure("invalid", "The requests of the batch could not be read.")
    if failure is None and (passed := batches.limit_passed(items)):
        raise passed
    about = {"displayName": given.get("displayName"), "fileName": name}
    batch_id, write = f"batches/{batches.new_id(36)}", write_inline if name is None else write_line
    batch = batches.open(batch_id, wire_google.GENERATE, model, items, read, write, about=about, failure=failure)
    lost = failure is None and batches.strikes("batch_lost", model, items)
    return Answer(describe(batch, hidden=False), lost=lost)


async def _read_file(kept: File, read: Reader) -> tuple[list[Item], Failure | None]:
    items: list[Item] = []
    async for number, line in in_slices(enumerate(kept.data.split(b"\n"), 1)):
        if not line.strip():
            continue
        try:
            one = orjson.loads(line)
        except orjson.JSONDecodeError:
            one = None
        if not isinstance(one, dict) or not isinstance(one.get("key", ""), str):
            return [], Failure("invalid", f"Line {number} of {kept.id} is not a request.")
        items.append(read_item(read, one.get("key", ""), orjson.dumps(one.get("request"))))
    return items, None if items else Failure("empty", f"{kept.id} has no requests.")


def _requests(given: Any) -> list[tuple[str, bytes, Any]]:
    """The key, the request and the metadata of each of the body's requests."""
    requests = given.get("requests") if isinstance(given, dict) else None
    told: list[tuple[str, bytes, Any]] = []
    for one in requests if isinstance(requests, list) else []:
        metadata = one.get("metadata") if isinstance(one, dict) else None
        key = metadata.get("key") if isinstance(metadata, dict) else None
        body = one.get("request") if isinstance(one, dict) else None
        told.append((key if isinstance(key, str) else "", orjson.dumps(body), metadata))
    return told


def _told(result: Result) -> Json | None:
    """Response or error; None where the item never ran."""
    if result.outcome is Outcome.SUCCEEDED:
        return {"response": result.body}
    if result.outcome is Outcome.ERRORED and result.body:
        return {"error": {"code": _RPC_CODES.get(result.status, 2), "message": result.body["error"]["message"]}}
    return None


def write_inline(result: Result) -> bytes | None:
    told, metadata = _told(result), result.item.sent
    if told is None:
        return None
    return as_json(told | ({"metadata": metadata | {"key": result.item.custom_id}} if metadata else {}))


def write_line(result: Result) -> bytes | None:
    told = _told(result)
    return as_json(told | {"key": result.item.custom_id}) if told else None


def describe(batch: Batch, *, hidden: bool, results: bool = True) -> Json:
    """The batch as an operation. ``hidden``: with a strange status, and as if it still ran."""
    over = batch.is_over and not hidden
    counts = {
        "requestCount": len(batch.items),
        "pendingRequestCount": 0 if over else len(batch.items),
        "successfulRequestCount": batch.counts[Outcome.SUCCEEDED] if over else 0,
        "failedRequestCount": batch.counts[Outcome.ERRORED] if over else 0,
    }
    metadata: Json = {
        "@type": _TYPE + "GenerateContentBatch",
        "model": f"models/{batch.model}",
        "createTime": _time(batch.created),
        "updateTime": _time(batch.ended if over and batch.ended else batch.created),
        "batchStats": {name: str(number) for name, number in counts.items() if number},
        "state": "BATCH_STATE_WAITING_IN_LINE" if hidden else _STATE[batch.state],
        "name": batch.id,
    }
    if batch.about["displayName"] is not None:
        metadata["displayName"] = batch.about["displayName"]
    if batch.about["fileName"] is not None:
        metadata["inputConfig"] = {"fileName": batch.about["fileName"]}
    told: Json = {"name": batch.id, "metadata": metadata}
    if not over or batch.ended is None:
        return told
    told["done"], metadata["endTime"] = True, _time(batch.ended)
    if batch.failure:
        return told | {"error": {"code": 3, "message": batch.failure.message}}
    if batch.about["fileName"] is not None:
        metadata["output"] = {"responsesFile": batch.id.replace("batches/", "files/batch-")}
    elif results:
        metadata["output"] = {
            "inlinedResponses": {"inlinedResponses": orjson.Fragment(b"[" + b",".join(batch.texts()) + b"]")}
        }
    if "output" in metadata:
        told["response"] = {"@type": _TYPE + "GenerateContentBatchOutput", **metadata["output"]}
    return told


def _batch(batches: Batches, name: str) -> Batch:
    if name not in batches.all:
        raise VendorError(Problem.NO_MODEL, f"Batch job not found: {name}.")
    return batches.all[name]


async def retrieve(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    batch = _batch(batches, name)
    return Answer(describe(batch, hidden=batch.hides(looked_at=True)))


async def listing(batches: Batches, request: web.BaseRequest) -> Answer:
    """Without the results that stand in the batches themselves."""
    rows = [describe(one, hidden=one.hides(looked_at=False), results=False) for one in batches.of("google")]
    return Answer(_page("operations", rows, request))


def _page(name: str, rows: list[Json], request: web.BaseRequest) -> Json:
    """A page's token is the number of rows before it."""
    size, token = page_size(request, "pageSize", 50, 1000), request.query.get("pageToken", "0")
    start = int(token) if token.isdecimal() else 0
    page: Json = {name: rows[start : start + size]} if rows[start:] else {}
    return page | ({"nextPageToken": str(start + size)} if rows[start + size :] else {})


async def cancel(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    batches.cancel(_batch(batches, name))
    return Answer({})


async def delete(batches: Batches, request: web.BaseRequest, name: str) -> Answer:
    """A batch that still runs goes on, unseen."""
    del batches.all[_batch(batches, name).id]
    return Answer({})


def _owns(request: web.BaseRequest) -> bool:
    return "x-goog-api-key" in request.headers or request.path.startswith(("/v1beta/", "/upload/", "/download/"))


_VERSION = r"/v1(?:beta)?"
_FILE, _BATCH = _VERSION + r"/(files/[^/:]+)", _VERSION + r"/(batches/[^/:]+)"
_TOO_LARGE = f"Request payload size exceeds the limit: {LARGEST_BODY} bytes."
API = Api(
    wire_google.GENERATE,
    _owns,
    (
        Route("POST", re.compile("/upload" + _VERSION + "/files"), upload, keyless=True),
        Route("GET", re.compile(_VERSION + "/files"), files),
        Route("GET", re.compile(_FILE), file),
        Route("DELETE", re.compile(_FILE), delete_file),
        Route("GET", re.compile("(?:/download)?" + _FILE + ":download"), download),
        Route("POST", re.compile(_VERSION + r"/models/([^/:]+):batchGenerateContent"), create),
        Route("GET", re.compile(_VERSION + "/batches"), listing),
        Route("GET", re.compile(_BATCH), retrieve),
        Route("DELETE", re.compile(_BATCH), delete),
        Route("POST", re.compile(_BATCH + ":cancel"), cancel),
    ),
    Answer({"error": {"code": 400, "message": _TOO_LARGE, "status": "INVALID_ARGUMENT"}}, 400),
)

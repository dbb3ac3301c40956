"""The HTTP server: finds the wire, reads the request, lets the model answer, plays the fault, writes and counts.

Beside the vendors' paths: ``GET /_sim/health``, ``/_sim/stats``, ``/_sim/served`` ({id: times answered 2xx}) and
``/_sim/knobs``; ``POST /_sim/reset`` (counts and scripts, not knobs), ``/_sim/knobs`` (a JSON object of some knobs)
and ``/_sim/script`` ({"script": {call id or model: [fault or "ok", ...]}}: what the next such requests get).
"""

import asyncio
import time
from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from deployments.simulator import (
    batches_anthropic,
    batches_google,
    batches_openai,
    wire_anthropic,
    wire_google,
    wire_openai,
)
from deployments.simulator.accounts import Accounts
from deployments.simulator.answering import complete
from deployments.simulator.batches import Batches
from deployments.simulator.batches_http import handle as handle_batches
from deployments.simulator.behaviour import say
from deployments.simulator.breaking import break_off, drip
from deployments.simulator.dice import Dice, digest, share
from deployments.simulator.exchange import UNLIMITED, Ask, Json, Problem, VendorError, Wire, as_json, as_seconds
from deployments.simulator.faults import CONNECTION, ERROR, Fault, active, draw, error_of, fits
from deployments.simulator.knobs import KnobError, Knobs
from deployments.simulator.pacing import Limits
from deployments.simulator.scripts import ScriptError, Scripts

CALL_ID = "X-Client-Request-Id"
MODELS = (
    "sim-tiny", "sim-small", "sim-medium", "sim-large", "sim-think",
    "sim-teacher", "sim-teacher-think", "sim-judge-a", "sim-judge-b",
)  # fmt: skip
WIRES = {
    "/v1/responses": wire_openai.RESPONSES,
    "/v1/chat/completions": wire_openai.CHAT,
    "/v1/messages": wire_anthropic.MESSAGES,
}
BATCH_APIS = (batches_anthropic.API, batches_google.API, batches_openai.API)
_REFUSED = {Problem.RATE: "rate_limited", Problem.QUOTA: "quota", Problem.RETIRED: "retired"}
_LARGEST_BODY = 64 * 1024 * 1024
_Model = tuple[Knobs, tuple[tuple[Fault, float], ...], Limits | None]


class Simulator:
    """One running simulator: its knobs, its counts, and what it remembers of each model's pace."""

    def __init__(self, knobs: Knobs) -> None:
        self.accounts = Accounts()
        self.scripts = Scripts()
        self.batches = Batches(self.accounts, self.scripts, lambda: self.knobs)
        self._requests = 0
        self._turn(knobs)

    def _turn(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self._turned_at = time.monotonic()
        self._by_model: dict[str, _Model] = {}

    def _model(self, model: str) -> _Model:
        found = self._by_model.get(model)
        if found is None:
            knobs = self.knobs.for_model(model)
            found = (knobs, active(knobs), Limits.of(model, knobs, self._turned_at))
            self._by_model[model] = found
        return found

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.startswith("/_sim/"):
            return await self._own(request, path)
        wire = WIRES.get(path)
        if wire is None and path.endswith(":generateContent"):
            wire = wire_google.GENERATE
        if wire is not None and request.method == "POST":
            try:
                return await self._call(request, wire, path)
            except ConnectionResetError:
                self.accounts.abandoned += 1
                return web.Response()
        answer = await handle_batches(self.batches, request, BATCH_APIS)
        return self._lists(request, path) if answer is None else answer

    async def _call(self, request: web.BaseRequest, wire: Wire, path: str) -> web.StreamResponse:
        request_id = self._next_id()
        try:
            wire.authorize(request.headers)
            ask = wire.read(_body(await request.read()), request.headers, path)
            knobs, _, limits = self._model(ask.model)
            call_id = request.headers.get(CALL_ID)
            call = call_id or f"{digest(ask.model, ask.system, *[text for _, text in ask.turns]):x}"
            self._admit(ask, call_id, knobs, limits)
            saying = say(ask, call, knobs)
            self._receive(ask, saying.kind, call_id)
            times = self.accounts.asked[call]
            self.accounts.asked[call] += 1
            fault = self._fault(ask.model, call, times, saying.value)
            done = complete(ask, saying, call, fault, Dice("fault", knobs.seed, call, times))
            fails = fault is not None and fault.where is ERROR
            if limits is not None and not fails:
                limits.charge(done.output)
            if knobs.latency_s or knobs.latency_jitter_s:
                jitter = share("latency", knobs.seed, call, times) if knobs.latency_jitter_s else 0.0
                await asyncio.sleep(knobs.latency_s + knobs.latency_jitter_s * jitter)
            pace = UNLIMITED if limits is None else limits.pace()
            if fault is not None and fails:
                raise error_of(fault, ask.model, pace, knobs.retry_after_s)
        except VendorError as error:
            return self._refuse(wire, error, request_id)
        body, headers = as_json(wire.write(ask, done, request_id, time.time())), wire.headers(request_id, pace)
        response: web.StreamResponse
        if fault is not None and fault.name == "fault_drip":
            response = await drip(request, headers, body, knobs.drip_s)
        elif fault is not None and fault.where is CONNECTION:
            self.accounts.break_off(ask.model, done)
            return await break_off(request, fault, body, knobs)
        else:
            response = web.Response(body=body, headers=headers, content_type="application/json")
            await response.prepare(request)
            await response.write_eof()
        if request.transport is None or request.transport.is_closing():
            self.accounts.abandoned += 1
        else:
            self.accounts.statuses[200] += 1
            self.accounts.serve(ask.model, saying.kind, call_id, done)
        return response

    def _admit(self, ask: Ask, call_id: str | None, knobs: Knobs, limits: Limits | None) -> None:
        """Raises the ``VendorError`` of a retired model, of an empty purse, or of a limit."""
        try:
            self._check_retired(ask.model, knobs)
            if knobs.quota_after and self.accounts.served[ask.model] >= knobs.quota_after:
                raise VendorError(Problem.QUOTA)
            if limits is not None:
                limits.admit(ask.input_tokens)
        except VendorError as error:
            self._receive(ask, _REFUSED[error.problem], call_id)
            raise

    def _check_retired(self, model: str, knobs: Knobs) -> None:
        if knobs.retire_after and self.accounts.served[model] >= knobs.retire_after:
            raise VendorError(Problem.RETIRED, model=model)

    def _fault(self, model: str, call: str, times: int, value: Any) -> Fault | None:
        """The fault that a script sets or else the rates draw; counted."""
        knobs, faults, _ = self._model(model)
        named, fault = self.scripts.next(call, model) if self.scripts else (False, None)
        if fault is not None and not fits(fault, value):
            fault = None
        if faults and not named:
            fault = draw(faults, knobs.seed, call, times, value)
        if fault is not None:
            self.accounts.faults[fault.name] += 1
        return fault

    def _receive(self, ask: Ask, kind: str, call_id: str | None) -> None:
        self.accounts.received[ask.model] += 1
        self.accounts.received_by_kind[kind] += 1
        if call_id is not None:
            self.accounts.ids.add(call_id)

    def _refuse(self, wire: Wire, error: VendorError, request_id: str) -> web.Response:
        status, body = wire.write_error(error, request_id)
        headers = wire.headers(request_id, error.pace)
        if error.retry_after is not None:
            headers["retry-after"] = as_seconds(error.retry_after)
        self.accounts.statuses[status] += 1
        return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type="application/json")

    def _next_id(self) -> str:
        self._requests += 1
        return f"{digest('request', self.knobs.seed, self._requests, id(self)):x}"[:24]

    def _lists(self, request: web.BaseRequest, path: str) -> web.Response:
        """The lists of models, and 404 for every other path, each in the manner of the vendor who asks."""
        version, _, rest = path.lstrip("/").partition("/")
        google = version == "v1beta" or "x-goog-api-key" in request.headers
        anthropic = not google and "anthropic-version" in request.headers
        wire = wire_google.GENERATE if google else wire_anthropic.MESSAGES if anthropic else wire_openai.CHAT
        try:
            wire.authorize(request.headers)
            name = rest.removeprefix("models/") if rest.startswith("models/") else ""
            if request.method != "GET" or version not in ("v1", "v1beta") or not (rest == "models" or name):
                raise VendorError(Problem.NO_ROUTE, f"{request.method} {path}")
            if name and not name.startswith("sim-"):
                raise VendorError(Problem.NO_MODEL, f"The model `{name}` does not exist", code="model_not_found")
            if name:
                self._check_retired(name, self._model(name)[0])
            if google:
                body = wire_google.model(name) if name else wire_google.models(MODELS)
            else:
                listed = (wire_anthropic if anthropic else wire_openai).models((name,) if name else MODELS)
                body = listed["data"][0] if name else listed
        except VendorError as error:
            return self._refuse(wire, error, self._next_id())
        headers = wire.headers(self._next_id(), UNLIMITED)
        return web.Response(body=orjson.dumps(body), headers=headers, content_type="application/json")

    async def _own(self, request: web.BaseRequest, path: str) -> web.Response:
        status = 200
        body: Json = {"ok": True}
        match request.method, path:
            case "GET", "/_sim/health":
                pass
            case "GET", "/_sim/stats":
                body = self.accounts.stats() | {"batches": self.batches.stats}
            case "GET", "/_sim/served":
                body = dict(self.accounts.answers)
            case "POST", "/_sim/reset":
                self.accounts.reset()
                self.batches.forget()
                self.scripts.clear()
            case "POST", "/_sim/script":
                try:
                    self.scripts.add(_body(await request.read()))
                except (ScriptError, VendorError) as error:
                    status, body = 400, {"error": str(error)}
            case "GET", "/_sim/knobs":
                body = asdict(self.knobs)
            case "POST", "/_sim/knobs":
                try:
                    self._turn(self.knobs.turned(_body(await request.read())))
                    body = asdict(self.knobs)
                except (KnobError, VendorError) as error:
                    status, body = 400, {"error": str(error)}
            case _:
                status, body = 404, {"error": f"no {request.method} {path} here"}
        return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


def _body(raw: bytes) -> Json:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise VendorError(Problem.BAD_REQUEST, f"We could not parse the JSON body of your request. ({error})") from None
    if not isinstance(body, dict):
        raise VendorError(Problem.BAD_REQUEST, "The JSON body of your request is not an object.")
    return body


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """aiohttp's own request, for bodies of up to 64 MB."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


async def start(knobs: Knobs, port: int) -> tuple[web.ServerRunner, str]:
    """A listening simulator and its address; port 0 takes any free one. ``await runner.cleanup()`` ends it."""
    simulator = Simulator(knobs)
    runner = web.ServerRunner(
        web.Server(simulator.handle, request_factory=_request), access_log=None, shutdown_timeout=0.5
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    host, taken = runner.addresses[0][:2]
    return runner, f"http://{host}:{taken}"

"""The HTTP server: finds the wire, reads the request, lets the model answer, plays the fault, writes and counts.

Beside the vendors' paths: ``GET /_sim/health``, ``/_sim/stats``, ``/_sim/served`` ({id: times answered 2xx}) and
``/_sim/knobs``; ``POST /_sim/reset`` (counts, not knobs) and ``/_sim/knobs`` (a JSON object of some knobs).
"""

import asyncio
import time
from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from deployments.simulator import wire_anthropic, wire_google, wire_openai
from deployments.simulator.accounts import Accounts
from deployments.simulator.behaviour import Saying, say
from deployments.simulator.dice import Dice, digest, share
from deployments.simulator.exchange import (
    Ask,
    Completion,
    Finish,
    Json,
    Pace,
    Problem,
    VendorError,
    Wire,
    as_seconds,
    tokens,
)
from deployments.simulator.faults import CONNECTION, JSON, Fault, active, draw, spoil
from deployments.simulator.knobs import KnobError, Knobs

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
_UNLIMITED = Pace(10_000, 9_999, 0.006)
_LARGEST_BODY = 64 * 1024 * 1024
_CACHE_BLOCK = 128


class Bucket:
    """A model's request limit: a token bucket that holds ``burst_s`` seconds' worth of requests, at least one."""

    def __init__(self, per_minute: int, burst_s: float) -> None:
        self.per_minute = per_minute
        self._room = max(1.0, per_minute * burst_s / 60)
        self._left = self._room
        self._at = time.monotonic()

    def take(self) -> tuple[bool, Pace]:
        """Whether a request may pass, and the limit as headers tell it."""
        now = time.monotonic()
        rate = self.per_minute / 60
        self._left = min(self._room, self._left + (now - self._at) * rate)
        self._at = now
        passes = self._left >= 1
        if passes:
            self._left -= 1
        wait = max(0.0, 1 - self._left) / rate
        return passes, Pace(self.per_minute, int(self._left), wait)


class Simulator:
    """One running simulator: its knobs, its counts, and what it remembers of each model's pace."""

    def __init__(self, knobs: Knobs) -> None:
        self.accounts = Accounts()
        self._requests = 0
        self._turn(knobs)

    def _turn(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self._by_model: dict[str, tuple[Knobs, tuple[tuple[Fault, float], ...], Bucket | None]] = {}

    def _model(self, model: str) -> tuple[Knobs, tuple[tuple[Fault, float], ...], Bucket | None]:
        found = self._by_model.get(model)
        if found is None:
            knobs = self.knobs.for_model(model)
            limit = knobs.requests_per_minute
            found = (knobs, active(knobs), Bucket(limit, knobs.burst_s) if limit else None)
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
        return self._lists(request, path)

    async def _call(self, request: web.BaseRequest, wire: Wire, path: str) -> web.StreamResponse:
        request_id = self._next_id()
        pace = _UNLIMITED
        try:
            wire.authorize(request.headers)
            ask = wire.read(_body(await request.read()), request.headers, path)
            knobs, faults, bucket = self._model(ask.model)
            call_id = request.headers.get(CALL_ID)
            call = call_id or f"{digest(ask.model, ask.system, *[text for _, text in ask.turns]):x}"
            if bucket is not None:
                passes, pace = bucket.take()
                if not passes:
                    self._receive(ask, "rate_limited", call_id)
                    raise VendorError(Problem.RATE, param=ask.model, retry_after=max(1.0, -(-pace.reset_s // 1)))
            saying = say(ask, call, knobs)
            self._receive(ask, saying.kind, call_id)
            times = self.accounts.asked[call] if faults else 0
            self.accounts.asked[call] += 1
            fault = draw(faults, knobs.seed, call, times, saying.value) if faults else None
            if knobs.latency_s or knobs.latency_jitter_s:
                jitter = share("latency", knobs.seed, call, times) if knobs.latency_jitter_s else 0.0
                await asyncio.sleep(knobs.latency_s + knobs.latency_jitter_s * jitter)
            if fault is not None:
                self.accounts.faults[fault.name] += 1
                self._raise(fault, ask, knobs)
            dice = Dice("fault", knobs.seed, call, times)
            done = _complete(ask, saying, call, fault, dice)
        except VendorError as error:
            return self._refuse(wire, error, request_id, pace)
        body = orjson.dumps(wire.write(ask, done, request_id, time.time()))
        if fault is not None and fault.where is CONNECTION:
            return await _break(request, fault, body, knobs)
        response = web.Response(body=body, headers=wire.headers(request_id, pace), content_type="application/json")
        await response.prepare(request)
        await response.write_eof()
        if request.transport is not None and not request.transport.is_closing():
            self.accounts.statuses[200] += 1
            self.accounts.serve(ask.model, saying.kind, call_id, (done.input, done.output))
        return response

    def _receive(self, ask: Ask, kind: str, call_id: str | None) -> None:
        self.accounts.received[ask.model] += 1
        self.accounts.received_by_kind[kind] += 1
        if call_id is not None:
            self.accounts.ids.add(call_id)

    def _raise(self, fault: Fault, ask: Ask, knobs: Knobs) -> None:
        if fault.name == "fault_429":
            raise VendorError(Problem.RATE, param=ask.model, retry_after=knobs.retry_after_s)
        if fault.name == "fault_500":
            raise VendorError(Problem.SERVER)
        if fault.name == "fault_overloaded":
            raise VendorError(Problem.OVERLOADED)

    def _refuse(self, wire: Wire, error: VendorError, request_id: str, pace: Pace) -> web.Response:
        status, body = wire.write_error(error, request_id)
        headers = wire.headers(request_id, pace)
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
            if google:
                body = wire_google.model(name) if name else wire_google.models(MODELS)
            else:
                listed = (wire_anthropic if anthropic else wire_openai).models((name,) if name else MODELS)
                body = listed["data"][0] if name else listed
        except VendorError as error:
            return self._refuse(wire, error, self._next_id(), _UNLIMITED)
        headers = wire.headers(self._next_id(), _UNLIMITED)
        return web.Response(body=orjson.dumps(body), headers=headers, content_type="application/json")

    async def _own(self, request: web.BaseRequest, path: str) -> web.Response:
        status = 200
        body: Json = {"ok": True}
        match request.method, path:
            case "GET", "/_sim/health":
                pass
            case "GET", "/_sim/stats":
                body = self.accounts.stats()
            case "GET", "/_sim/served":
                body = dict(self.accounts.answers)
            case "POST", "/_sim/reset":
                self.accounts.reset()
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


def _complete(ask: Ask, saying: Saying, call: str, fault: Fault | None, dice: Dice) -> Completion:
    """The model's answer within its output limit; thinking comes first and counts towards the limit."""
    text = orjson.dumps(saying.value).decode() if ask.schema is not None else saying.text
    finish = Finish.STOP
    name = fault.name if fault else ""
    if fault is not None and fault.where is JSON:
        text = spoil(name, saying.value, dice)
    elif name == "fault_refusal":
        text, finish = "", dice.pick((Finish.REFUSAL, Finish.BLOCKED))
    elif name == "fault_empty":
        text, finish = "", Finish.EMPTY
    elif name == "fault_truncate":
        text, finish = text[: len(text) // 2], Finish.LENGTH
    thinking = 40 + digest("thinking", ask.model, call) % 200 if "think" in ask.model else 0
    written = tokens(text)
    if ask.max_tokens is not None and thinking + written > ask.max_tokens and finish in (Finish.STOP, Finish.LENGTH):
        finish = Finish.LENGTH
        thinking = min(thinking, ask.max_tokens)
        written = ask.max_tokens - thinking
        text = text[: 4 * written]
    cached = tokens(ask.system) // _CACHE_BLOCK * _CACHE_BLOCK
    return Completion(text, finish, ask.input_tokens, cached, thinking + written, thinking)


async def _break(request: web.BaseRequest, fault: Fault, body: bytes, knobs: Knobs) -> web.StreamResponse:
    """Hang, drop the connection, or drop it in the middle of the body."""
    response = web.StreamResponse()
    if fault.name == "fault_timeout":
        await asyncio.sleep(knobs.hang_s)
    elif fault.name == "fault_cut_body":
        response.content_type = "application/json"
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
    if request.transport is not None:
        if fault.name == "fault_cut_body":
            request.transport.close()
        else:
            request.transport.abort()
    return response


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

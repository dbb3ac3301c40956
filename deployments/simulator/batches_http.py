"""The HTTP of the vendors' Batch APIs: finds the route, checks the key, answers or refuses in the vendor's words."""

import gc
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from aiohttp import web

from deployments.simulator.batches import Batches
from deployments.simulator.exchange import UNLIMITED, Json, Problem, VendorError, Wire, as_json, as_seconds

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What is sent back; with ``lost`` the connection is dropped instead."""

    body: Any
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False


class TooLarge(Exception):
    """The body is larger than the vendor takes."""


@dataclass(frozen=True)
class Route:
    """``answer`` gets the groups of the path's pattern. ``keyless``: its address is secret enough."""

    method: str
    path: re.Pattern[str]
    answer: Callable[..., Awaitable[Answer]]
    keyless: bool = False


@dataclass(frozen=True)
class Api:
    """One vendor's Batch API. ``owns`` tells its requests from the other vendors'; ``too_large`` is its refusal."""

    wire: Wire
    owns: Callable[[web.BaseRequest], bool]
    routes: Sequence[Route]
    too_large: Answer


async def handle(batches: Batches, request: web.BaseRequest, apis: Sequence[Api]) -> web.StreamResponse | None:
    """The answer of the Batch API that has this route, or None."""
    api = next((api for api in apis if api.owns(request)), None)
    for route in api.routes if api else ():
        match = route.path.fullmatch(request.path)
        if api is not None and match is not None and route.method == request.method:
            return await _respond(batches, request, api, route, match.groups())
    return None


async def _respond(
    batches: Batches, request: web.BaseRequest, api: Api, route: Route, groups: tuple[str, ...]
) -> web.StreamResponse:
    request_id = batches.new_id(24)
    headers = api.wire.headers(request_id, UNLIMITED)
    try:
        if not route.keyless:
            api.wire.authorize(request.headers)
        answer = await route.answer(batches, request, *groups)
    except TooLarge:
        answer = api.too_large
    except VendorError as error:
        status, body = api.wire.write_error(error, request_id)
        answer = Answer(body, status)
        headers = api.wire.headers(request_id, error.pace)
        if error.retry_after is not None:
            headers["retry-after"] = as_seconds(error.retry_after)
    if answer.lost and request.transport is not None:
        request.transport.abort()
    if answer.status >= 400:
        batches.refused(answer.status)
    sent = answer.body if isinstance(answer.body, bytes) else as_json(answer.body)
    return web.Response(
        body=sent, status=answer.status, headers=headers | dict(answer.headers), content_type=answer.content_type
    )


async def read_body(request: web.BaseRequest, most: int) -> bytes:
    """Raises ``TooLarge`` beyond ``most`` bytes."""
    try:
        return await request.clone(client_max_size=most).read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge from None


def as_object(raw: bytes) -> Json:
    """The JSON object of a body. Raises ``VendorError``."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise VendorError(Problem.BAD_REQUEST, f"We could not parse the JSON body of your request. ({error})") from None
    if not isinstance(value, dict):
        raise VendorError(Problem.BAD_REQUEST, "The JSON body of your request is not an object.")
    return value


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: while a large body is parsed it takes several times as long as the parser."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def page_size(request: web.BaseRequest, name: str, default: int, most: int) -> int:
    """A list's page size, as the query has it. Raises ``VendorError``."""
    given = request.query.get(name, str(default))
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise VendorError(Problem.BAD_REQUEST, f"{name}: must be from 1 to {most}", param=name)
    return int(given)


def after(things: Sequence[T], key: Callable[[T], str], cursor: str | None) -> Sequence[T]:
    """The things that follow the one with this key; all of them without a cursor. Raises ``VendorError``."""
    if not cursor:
        return things
    for place, thing in enumerate(things):
        if key(thing) == cursor:
            return things[place + 1 :]
    raise VendorError(Problem.BAD_REQUEST, f"{cursor}: there is no such object to continue from")

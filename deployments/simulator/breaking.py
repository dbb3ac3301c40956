"""Answers that do not come through as they should: never, in part, or slowly."""

import asyncio

from aiohttp import web

from deployments.simulator.faults import Fault
from deployments.simulator.knobs import Knobs

_PIECES = 25


async def break_off(request: web.BaseRequest, fault: Fault, body: bytes, knobs: Knobs) -> web.StreamResponse:
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


async def drip(request: web.BaseRequest, headers: dict[str, str], body: bytes, seconds: float) -> web.StreamResponse:
    """The whole body in small pieces, evenly over so many seconds. Raises ``ConnectionResetError``."""
    response = web.StreamResponse(headers=headers)
    response.content_type = "application/json"
    response.content_length = len(body)
    await response.prepare(request)
    size = len(body) // _PIECES + 1
    for start in range(0, len(body), size):
        await asyncio.sleep(seconds / _PIECES)
        await response.write(body[start : start + size])
    await response.write_eof()
    return response

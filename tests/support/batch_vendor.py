"""A server that says what a test wants said, and the clients of its Batch API: for tests of the clients."""

import asyncio
import atexit
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from aiohttp import web

from tasks.models.batch import BatchClient, BatchFailure, Result
from tasks.settings import Endpoint

APIS = ["openai", "openai-chat", "anthropic", "google"]
VENDORS = ["openai", "anthropic", "google"]
KEY = "sk-test-0123456789abcdef"
# The path of the batch "batches/b".
ONE = {
    "openai": "/v1/batches/batches/b",
    "openai-chat": "/v1/batches/batches/b",
    "anthropic": "/v1/messages/batches/batches/b",
    "google": "/v1/batches/b",
}
_PREFIX = {"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": ""}


@dataclass
class Vendor:
    """``says``: what is answered to a path: a body, with a status, with headers; or a function of the request."""

    says: dict[str, Any]
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, await request.read()))
        said = self.says.get(request.path_qs, self.says.get(request.path, (404, {"error": {"message": "not here"}})))
        if callable(said):
            said = await said(request)
            if isinstance(said, web.StreamResponse):
                return said
        status, body, headers = (*said, {})[:3] if isinstance(said, tuple) else (200, said, {})
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, headers=headers)


class House:
    """One loop and one port for all tests; each test puts its own vendor there."""

    def __init__(self) -> None:
        self.loop = asyncio.Runner()
        self.vendor = Vendor({})
        self._clients: dict[tuple[str, float], BatchClient] = {}
        self.loop.run(self._open())

    async def _open(self) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await self.vendor.answer(request)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", answer)
        self._web = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._web.setup()
        await web.TCPSite(self._web, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._web.addresses[0][1]}"

    def client(self, api: str, timeout_s: float) -> BatchClient:
        """Only inside the loop."""
        if (api, timeout_s) not in self._clients:
            self._clients[api, timeout_s] = connect(api, self.url, timeout_s)
        return self._clients[api, timeout_s]

    def close(self) -> None:
        self.loop.run(self._close())
        self.loop.close()

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        await self._web.cleanup()


@cache
def _house() -> House:
    house = House()
    atexit.register(house.close)
    return house


def connect(api: str, url: str, timeout_s: float = 20.0) -> BatchClient:
    """The real client of an api, with a key, at this server."""
    endpoint = Endpoint(api=api, base_url=url + _PREFIX[api], timeout_s=timeout_s)  # type: ignore[arg-type]
    client: BatchClient = import_module(f"tasks.models.batch_{api.removesuffix('-chat')}").connect_batches(
        endpoint, KEY
    )
    return client


def through(
    api: str, says: dict[str, Any], use: Callable[[BatchClient], Awaitable[Any]], *, timeout_s: float = 20.0
) -> tuple[Any, Vendor]:
    """What ``use`` makes of a client at a server that says this; and the server."""

    async def run() -> Any:
        return await use(_house().client(api, timeout_s))

    vendor = _house().vendor = Vendor(says)
    return _house().loop.run(run()), vendor


async def everything(client: BatchClient, batch: str = "batches/b") -> list[Result]:
    return [result async for result in client.results(batch)]


def failure(api: str, says: dict[str, Any], use: Callable[[BatchClient], Awaitable[Any]], **how: Any) -> BatchFailure:
    """The failure that ``use`` ends in."""

    async def run(client: BatchClient) -> BatchFailure:
        with pytest.raises(BatchFailure) as caught:
            await use(client)
        return caught.value

    failed: BatchFailure = through(api, says, run, **how)[0]
    return failed

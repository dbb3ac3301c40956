"""One vendor's server in miniature: it gives one canned answer and remembers what it was asked."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
from aiohttp import web

from tasks.models import Message, Reply, Request
from tasks.settings import Endpoint

KEY = "sk-test-0123456789abcdef"
PREFIX = {"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": ""}


@dataclass
class Server:
    """``body``: text, bytes, or anything that becomes JSON. ``behave`` may take the place of the whole answer."""

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    behave: Callable[[web.Request], Any] | None = None
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        posted = json.loads(await request.read())
        self.seen.append({"path": request.path, "headers": request.headers, "posted": posted})
        if self.behave is not None:
            response: web.StreamResponse = await self.behave(request)
            return response
        text = self.body if isinstance(self.body, str | bytes) else json.dumps(self.body)
        body = text.encode() if isinstance(text, str) else text
        return web.Response(status=self.status, body=body, headers={"Content-Type": "application/json", **self.headers})


class Vendors:
    """One port and one event loop for all tests; each test puts its own server there."""

    def __init__(self) -> None:
        self.loop = asyncio.Runner()
        self.server = Server()
        self._clients: dict[tuple[str, float], Any] = {}
        self.loop.run(self._start())

    async def _start(self) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await self.server.answer(request)

        app = web.Application()
        app.router.add_post("/{path:.*}", answer)
        self._web = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._web.setup()
        await web.TCPSite(self._web, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._web.addresses[0][1]}"

    def client(self, api: str, timeout_s: float = 20.0) -> Any:
        """The real client of an api, with a key, at our server. Only inside the loop."""
        if (api, timeout_s) not in self._clients:
            endpoint = Endpoint(api=api, base_url=self.url + PREFIX[api], timeout_s=timeout_s)  # type: ignore[arg-type]
            module = import_module(f"tasks.models.{api.replace('-', '_')}")
            self._clients[api, timeout_s] = module.connect(endpoint, KEY, 8)
        return self._clients[api, timeout_s]

    async def _stop(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        await self._web.cleanup()

    def close(self) -> None:
        self.loop.run(self._stop())
        self.loop.close()


@pytest.fixture(scope="session")
def vendors() -> Iterator[Vendors]:
    vendors = Vendors()
    yield vendors
    vendors.close()


@pytest.fixture
def server() -> type[Server]:
    return Server


@pytest.fixture
def request_of() -> Callable[..., Request]:
    def make(**changes: Any) -> Request:
        messages = (Message("system", "Be brief."), Message("user", "What is 2 + 2?"))
        return Request(**{"call_id": "c0ffee", "messages": messages, "max_output_tokens": 64, **changes})

    return make


@pytest.fixture
def ask(vendors: Vendors, request_of: Callable[..., Request]) -> Callable[..., Reply]:
    """Ask a server once through the real SDK."""

    def one(api: str, server: Server, *, timeout_s: float = 20.0, **changes: Any) -> Reply:
        async def run() -> Reply:
            reply: Reply = await vendors.client(api, timeout_s).ask("some-model", request_of(**changes))
            return reply

        vendors.server = server
        return vendors.loop.run(run())

    return one

"""A simulator in a thread of the test process, for the whole session; each test uses model names of its own."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.simulator import Knobs, start


class Running:
    """A simulator's address, and its own routes."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/_sim/{path}") as response:
            return json.loads(response.read())

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(f"{self.url}/_sim/{path}", json.dumps(body or {}).encode(), method="POST")
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())


@pytest.fixture(scope="session")
def simulator() -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, url = asyncio.run_coroutine_threadsafe(start(Knobs(), 0), loop).result()
    yield Running(url)
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()

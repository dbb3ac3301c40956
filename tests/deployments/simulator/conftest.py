"""A simulator in a thread of the test process, for the whole session; each test uses model names of its own."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from deployments.simulator import Knobs, start

QUESTION = "A baker has 24 rolls, sells 9 and bakes 5 trays of 12 more. How many rolls are there?"
SCORED = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]}, "reason": {"type": "string"}},
    "required": ["score", "reason"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Answer:
    """``headers`` have lower-case names."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def content(self) -> Any:
        """The text of a chat completion."""
        return self.body["choices"][0]["message"]["content"]


class Running:
    """A simulator's address, its own routes, and one call of each vendor as plain HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/_sim/{path}") as response:
            return json.loads(response.read())

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(f"{self.url}/_sim/{path}", json.dumps(body or {}).encode(), method="POST")
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())

    def chat(self, model: str, call: str | None = None, *, schema: Any = None, **more: Any) -> Answer:
        form = {"type": "json_schema", "json_schema": {"name": "output", "strict": True, "schema": schema}}
        body = {"model": model, "messages": [{"role": "user", "content": QUESTION}], **more}
        sent = {"Authorization": "Bearer key", **({"X-Client-Request-Id": call} if call else {})}
        return self.send("/v1/chat/completions", body | ({"response_format": form} if schema else {}), sent)

    def messages(self, model: str, **more: Any) -> Answer:
        body = {"model": model, "max_tokens": 4000, "messages": [{"role": "user", "content": QUESTION}], **more}
        return self.send("/v1/messages", body, {"x-api-key": "key", "anthropic-version": "2023-06-01"})

    def gemini(self, model: str) -> Answer:
        body = {"contents": [{"parts": [{"text": QUESTION}]}]}
        return self.send(f"/v1beta/models/{model}:generateContent", body, {"x-goog-api-key": "key"})

    def send(self, path: str, body: Any, headers: dict[str, str]) -> Answer:
        """A GET without a body. Raises ``OSError`` or ``HTTPException`` where the connection breaks."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        try:
            response = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            told = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, told, json.loads(response.read()))


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


@pytest.fixture
def scored() -> dict[str, Any]:
    """A small schema whose answer has a score."""
    return SCORED

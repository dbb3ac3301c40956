"""The worst vendor for a secret: a proxy of the simulator that quotes the API key wherever an answer has room for it.

In texts, errors, ids, headers, reason phrases and redirects, in what is no JSON and no HTTP; plain, as JSON escapes
it, and as URLs do.
"""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web

# What the protocol needs as it is.
KEPT = {
    *("type", "object", "role", "family", "model", "modelVersion", "created_at", "endpoint", "url", "method"),
    *("status", "finish_reason", "stop_reason", "finishReason", "processing_status", "state", "code"),
    *("id", "name", "custom_id", "key", "results_url", "uri", "mimeType", "purpose"),
    *("input_file_id", "output_file_id", "error_file_id", "responsesFile", "file_name", "displayName", "criticgen"),
}
WORDS = {"type", "status", "finish_reason", "stop_reason", "finishReason", "processing_status", "state", "id", "name"}

# (status, what the error says) of each error that stops a model, fails a call, or is tried again.
STOPS = {
    "auth": (401, "Incorrect API key provided: KEY. You can find your API key in your account."),
    "forbidden": (403, "KEY may not use this model"),
    "quota": (429, "insufficient_quota: KEY exceeded your current quota, please check your plan and billing"),
    "billing": (402, "KEY has no credit balance"),
    "model_gone": (404, "model_not_found: the model KEY has been deprecated"),
}
FAILS = {
    "rejected": (400, "KEY is not a parameter"),
    "too_long": (413, "KEY context length"),
    "refused": (400, "content_policy_violation KEY"),
}
AGAIN = {
    "server": (500, "KEY failed"),
    "overloaded": (529, "KEY is overloaded"),
    "conflict": (409, "KEY"),
    "rate_limited": (429, "Rate limit reached for KEY"),
}
ODD = (
    *("html", "long_page", "no_json", "no_object", "strange_words", "reason_phrase", "not_http", "bad_header", "cut"),
    *("redirect", "ftp_redirect", "bad_redirect", "bad_cookie", "bad_charset", "bad_encoding", "hang", "reset"),
)


def forms(key: str) -> list[str]:
    """How a key can stand in a text."""
    escaped = quote(key, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), escaped)
    in_json = [key.replace("/", r"\/"), "".join(rf"\u{ord(character):04x}" for character in key)]
    twice = [form.replace("\\", r"\\") for form in in_json]
    return list(dict.fromkeys([key, escaped, lower, "%" + "%".join(key.encode().hex(" ").split()), *in_json, *twice]))


def quoting(value: Any, key: str, kept: set[str] = KEPT) -> Any:
    """The JSON value with the key in all its texts, those that are JSON themselves too."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            inner = None
        if isinstance(inner, dict | list):
            return json.dumps(_within(inner, key))
        return " ".join([value, *forms(key)])
    if isinstance(value, list):
        return [quoting(item, key, kept) for item in value]
    if isinstance(value, dict):
        quoted = {name: item if name in kept else quoting(item, key, kept) for name, item in value.items()}
        return quoted | {f"echo {key}": key}
    return value


def _within(value: Any, key: str) -> Any:
    """The same of a structured output, which still has to keep to its schema."""
    if isinstance(value, list):
        return [_within(item, key) for item in value]
    if isinstance(value, dict):
        return {name: item if name in KEPT else _within(item, key) for name, item in value.items()}
    return " ".join([value, *forms(key)]) if isinstance(value, str) else value


class QuotingVendor:
    """``trouble``: what requests get in place of an answer, each call id in its turn; "ok" is an answer.

    ``seen`` counts what was done; ``keys`` are the keys that came.
    """

    def __init__(self, simulator: str) -> None:
        self.url = ""
        self.trouble: tuple[str, ...] = ("ok",)
        self.seen: Counter[str] = Counter()
        self.keys: set[str] = set()
        self._simulator = simulator
        self._times: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        key = request.headers.get("x-goog-api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.keys.add(key)
        call = request.headers.get("X-Client-Request-Id") or request.method + request.path
        self._times[call] += 1
        trouble = self.trouble[(sum(call.encode()) + self._times[call]) % len(self.trouble)]
        if request.method == "GET" and trouble in ("ok", "strange_words"):
            trouble = "ok"
        self.seen[trouble] += 1
        headers = {
            "x-request-id": key,
            "request-id": f"req {key}",
            "openai-organization": key,
            "x-echo-" + re.sub(r"[^\w-]", "-", key): key,  # no name of a header has a slash in it
        }
        if (error := (STOPS | FAILS | AGAIN).get(trouble)) is not None:
            return self._error(*error, key, headers)
        if trouble in ("ok", "strange_words"):
            return await self._forwarded(request, body, key, headers, KEPT - WORDS if trouble != "ok" else KEPT)
        return await self._odd(request, trouble, key, headers)

    def _error(self, status: int, says: str, key: str, headers: dict[str, str]) -> web.Response:
        message = " ".join(says.replace("KEY", form) for form in forms(key))
        error = {"message": message, "type": f"type {key}", "code": key, "status": key, "param": key}
        value = {"type": "error", "error": error, "request_id": key, f"echo {key}": key}
        body = json.dumps(value).replace("/", "\\/")
        return web.Response(status=status, text=body, headers=headers | {"retry-after-ms": "20"}, reason=f"No {key}")

    async def _forwarded(
        self, request: web.BaseRequest, body: bytes, key: str, headers: dict[str, str], kept: set[str]
    ) -> web.Response:
        """The simulator's own answer, with the key in each of its texts."""
        sent = {
            name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")
        }
        sent["Accept-Encoding"] = "identity"
        url = self._simulator + request.path_qs
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=body, headers=sent) as answer,
        ):
            lines = (await answer.read()).decode().splitlines()
            passed = {name: value for name, value in answer.headers.items() if name.lower().startswith(("x-", "retry"))}
            status = answer.status
        passed = {name: value.replace(self._simulator, self.url) for name, value in passed.items()}
        quoted = [json.dumps(quoting(json.loads(line), key, kept)) for line in lines if line]
        text = "\n".join(quoted).replace(self._simulator, self.url)
        return web.Response(text=text, status=status, headers=passed | headers, content_type="application/json")

    async def _odd(
        self, request: web.BaseRequest, trouble: str, key: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        assert request.transport is not None
        if trouble in ("hang", "reset"):
            await asyncio.sleep(1.2 if trouble == "hang" else 0.0)
            request.transport.abort()
            return web.Response()
        if trouble in ("not_http", "bad_header"):
            line = f"{key}" if trouble == "not_http" else f"HTTP/1.1 200 OK\r\n{key} {key}: \x00"
            request.transport.write(f"{line}\r\n\r\n".encode())
            request.transport.close()
            return web.Response()
        if trouble == "cut":
            cut = web.StreamResponse(headers=headers | {"Content-Length": "5000"})
            await cut.prepare(request)
            await cut.write(f'{{"id": "{key}", "text": "{key} {key[:-1]}'.encode())
            request.transport.close()
            return cut
        status, text = 200, key
        match trouble:
            case "html":
                status, text = 502, f"<html><title>{key}</title>{key}</html>"
            case "long_page":  # the key stands where the page is cut to its beginning
                status, text = 503, "x" * (300 - len(key) // 2) + key * 99
            case "no_object":
                text = json.dumps([key, {"error": key}])
            case "reason_phrase":
                status = 500
            case "redirect" | "ftp_redirect" | "bad_redirect":
                status = 307
                start = {"redirect": "http://127.0.0.1:9", "ftp_redirect": "ftp://x", "bad_redirect": "http://["}[
                    trouble
                ]
                headers["Location"] = f"{start}/{quote(key, safe='')}?key={key}"
            case "bad_cookie":
                headers["Set-Cookie"] = f"bad[{key}]={key}; {key}"
            case "bad_charset":
                headers["Content-Type"] = f"application/json; charset={key}"
            case "bad_encoding":
                headers["Content-Encoding"] = "gzip"
        return web.Response(status=status, body=text.encode(), headers=headers, reason=f"Reason {key}")


@contextmanager
def quoting_vendor(simulator: str) -> Iterator[QuotingVendor]:
    """Serve in a thread of its own."""
    vendor, loop = QuotingVendor(simulator), asyncio.new_event_loop()

    async def begin() -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(vendor.answer), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        vendor.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    runner = loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield vendor
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

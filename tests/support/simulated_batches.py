"""The three vendors' Batch APIs through their official SDKs, used in one way: for tests that hold for each of them."""

import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

APIS = ("openai", "anthropic", "google", "google-file")


@dataclass(frozen=True)
class Told:
    """One result: ``kind`` is succeeded, errored, expired or cancelled; ``error`` the vendor's word or code for it."""

    custom_id: str
    kind: str
    text: str | None = None
    error: Any = None


class Desk(Protocol):
    """One vendor's batches. ``sdk`` is its client; SDK exceptions pass through."""

    sdk: Any

    def create(self, model: str, custom_ids: Sequence[str], **more: Any) -> str:
        """``more``: ``schema``, ``system``, ``texts`` by custom id, ``name``."""
        ...

    def status(self, batch: str) -> str: ...
    def ended(self, batch: str) -> bool: ...
    def results(self, batch: str) -> list[Told]: ...
    def cancel(self, batch: str) -> None: ...
    def ids(self) -> list[str]:
        """All batches that the vendor lists, newest first."""
        ...


def ended(desk: Desk, batch: str, seconds: float = 10.0) -> str:
    """The status of the batch once it has ended."""
    until = time.monotonic() + seconds
    while not desk.ended(batch):
        assert time.monotonic() < until, f"{batch} has not ended"
        time.sleep(0.02)
    return desk.status(batch)


@contextmanager
def open_desk(api: str, url: str, key: str = "test-key") -> Iterator[Desk]:
    if api == "openai":
        from openai import OpenAI

        with OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0) as client:
            yield OpenAIDesk(client)
    elif api == "anthropic":
        from anthropic import Anthropic

        with Anthropic(api_key=key, base_url=url, max_retries=0) as anthropic:
            yield AnthropicDesk(anthropic)
    else:
        from google import genai
        from google.genai import types

        # Once the chunks of a file, and once with the other version of the API.
        version = "v1beta" if api == "google-file" else None
        options = types.HttpOptions(base_url=url, api_version=version, retry_options=types.HttpRetryOptions(attempts=1))
        with genai.Client(api_key=key, vertexai=False, http_options=options) as google:
            yield GoogleDesk(google, in_file=api == "google-file")


def _text(custom_id: str, texts: Mapping[str, str] | None) -> str:
    return (texts or {}).get(custom_id, f"What is 2 + {len(custom_id)}?")


class OpenAIDesk:
    def __init__(self, sdk: Any) -> None:
        self.sdk = sdk

    def create(
        self, model: str, custom_ids: Sequence[str], *, schema: Any = None, system: str = "", texts: Any = None,
        name: str = "sub-1",
    ) -> str:  # fmt: skip
        lines = [openai_line(model, one, _text(one, texts), schema, system) for one in custom_ids]
        return self.submit(lines, name)

    def submit(self, lines: Sequence[str], name: str = "sub-1", endpoint: str = "/v1/responses") -> str:
        data = "\n".join(lines).encode()
        file = self.sdk.files.create(file=(f"{name}.jsonl", data), purpose="batch")
        batch = self.sdk.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"submission": name}
        )
        assert batch.status == "validating"
        return str(batch.id)

    def status(self, batch: str) -> str:
        return str(self.sdk.batches.retrieve(batch).status)

    def ended(self, batch: str) -> bool:
        return self.status(batch) in ("completed", "failed", "expired", "cancelled")

    def lines(self, batch: str, kind: str) -> list[dict[str, Any]]:
        file = getattr(self.sdk.batches.retrieve(batch), f"{kind}_file_id")
        return [json.loads(line) for line in self.sdk.files.content(file).text.split("\n")[:-1]] if file else []

    def results(self, batch: str) -> list[Told]:
        told = []
        for line in self.lines(batch, "output"):
            assert line["response"]["status_code"] == 200
            assert line["error"] is None
            told.append(Told(line["custom_id"], "succeeded", _output_text(line["response"]["body"])))
        for line in self.lines(batch, "error"):
            if line["error"]:
                code = line["error"]["code"]
                told.append(Told(line["custom_id"], code.removeprefix("batch_"), error=code))
            else:
                told.append(Told(line["custom_id"], "errored", error=line["response"]["status_code"]))
        return told

    def cancel(self, batch: str) -> None:
        assert self.sdk.batches.cancel(batch).status == "cancelling"

    def ids(self) -> list[str]:
        return [batch.id for batch in self.sdk.batches.list(limit=2)]


def openai_line(model: str, custom_id: str, text: str, schema: Any = None, system: str = "") -> str:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    body: dict[str, Any] = {"model": model, "input": messages, "max_output_tokens": 4000}
    if schema:
        body["text"] = {"format": {"type": "json_schema", "name": "output", "strict": True, "schema": schema}}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/responses", "body": body})


def _output_text(body: dict[str, Any]) -> str | None:
    from openai.types.responses import Response

    return Response.model_validate(body).output_text or None


class AnthropicDesk:
    def __init__(self, sdk: Any) -> None:
        self.sdk = sdk

    def create(
        self, model: str, custom_ids: Sequence[str], *, schema: Any = None, system: str = "", texts: Any = None,
        name: str = "",
    ) -> str:  # fmt: skip
        params: dict[str, Any] = {"model": model, "max_tokens": 4000}
        if system:
            params["system"] = system
        if schema:
            params["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        requests = [
            {"custom_id": one, "params": {**params, "messages": [{"role": "user", "content": _text(one, texts)}]}}
            for one in custom_ids
        ]
        batch = self.sdk.messages.batches.create(requests=requests)
        assert batch.request_counts.processing == len(custom_ids)
        return str(batch.id)

    def status(self, batch: str) -> str:
        return str(self.sdk.messages.batches.retrieve(batch).processing_status)

    def ended(self, batch: str) -> bool:
        return self.status(batch) == "ended"

    def results(self, batch: str) -> list[Told]:
        told = []
        for line in self.sdk.messages.batches.results(batch):
            result = line.result
            text = error = None
            if result.type == "succeeded":
                text = "".join(block.text for block in result.message.content if block.type == "text") or None
            elif result.type == "errored":
                error = result.error.error.type
            told.append(Told(line.custom_id, result.type.replace("canceled", "cancelled"), text, error))
        return told

    def cancel(self, batch: str) -> None:
        assert self.sdk.messages.batches.cancel(batch).processing_status == "canceling"

    def ids(self) -> list[str]:
        return [batch.id for batch in self.sdk.messages.batches.list(limit=2)]


class GoogleDesk:
    def __init__(self, sdk: Any, *, in_file: bool) -> None:
        self.sdk = sdk
        self.in_file = in_file

    def create(
        self, model: str, custom_ids: Sequence[str], *, schema: Any = None, system: str = "", texts: Any = None,
        name: str = "sub-1",
    ) -> str:  # fmt: skip
        from google.genai import types

        if self.in_file:
            lines = [self.line(one, _text(one, texts), schema, system) for one in custom_ids]
            source: Any = self.upload("\n".join(lines).encode(), name)
        else:
            structured: Any = {"response_mime_type": "application/json", "response_json_schema": schema}
            config = types.GenerateContentConfig(
                system_instruction=system or None, max_output_tokens=4000, **(structured if schema else {})
            )
            source = [
                types.InlinedRequest(contents=_text(one, texts), metadata={"key": one}, config=config)
                for one in custom_ids
            ]
        batch = self.sdk.batches.create(model=model, src=source, config={"display_name": name})
        assert batch.state.value == "JOB_STATE_PENDING"
        return str(batch.name)

    def line(self, key: str, text: str, schema: Any = None, system: str = "") -> str:
        config: dict[str, Any] = {"max_output_tokens": 4000}
        if schema:
            config |= {"response_mime_type": "application/json", "response_json_schema": schema}
        request = {"contents": [{"role": "user", "parts": [{"text": text}]}], "generation_config": config}
        if system:
            request["system_instruction"] = {"parts": [{"text": system}]}
        return json.dumps({"key": key, "request": request})

    def upload(self, data: bytes, name: str) -> str:
        config = {"mime_type": "application/jsonl", "display_name": name}
        file = self.sdk.files.upload(file=io.BytesIO(data), config=config)
        assert (file.size_bytes, file.display_name) == (len(data), name)
        return str(file.name)

    def status(self, batch: str) -> str:
        return str(self.sdk.batches.get(name=batch).state.value)

    def ended(self, batch: str) -> bool:
        return bool(self.sdk.batches.get(name=batch).done)

    def results(self, batch: str) -> list[Told]:
        from google.genai import types

        dest = self.sdk.batches.get(name=batch).dest
        if not self.in_file:
            return [
                self._told((one.metadata or {}).get("key", ""), one.response, one.error and one.error.code)
                for one in dest.inlined_responses or []
            ]
        told = []
        for line in self.sdk.files.download(file=dest.file_name).split(b"\n")[:-1]:
            one = json.loads(line)
            response = one.get("response")
            answer = types.GenerateContentResponse.model_validate(response) if response else None
            told.append(self._told(one["key"], answer, one.get("error", {}).get("code")))
        return told

    def _told(self, key: str, response: Any, error: Any) -> Told:
        return Told(key, "succeeded", response.text) if response else Told(key, "errored", error=error)

    def cancel(self, batch: str) -> None:
        self.sdk.batches.cancel(name=batch)

    def ids(self) -> list[str]:
        return [batch.name for batch in self.sdk.batches.list(config={"page_size": 2})]

"""The four wires through the vendors' own SDKs, asked in one way: for tests that hold for each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WIRES = ("openai", "openai-chat", "anthropic", "google")


@dataclass(frozen=True)
class Said:
    """What an SDK made of an answer. ``output`` includes ``thinking``, ``input`` includes ``cached``."""

    text: str | None
    finish: str | None
    refusal: str | None
    input: int
    cached: int
    output: int
    thinking: int
    headers: Mapping[str, str] = field(default_factory=dict)


async def ask(
    wire: str,
    url: str,
    model: str,
    user: str,
    *,
    system: str = "",
    schema: dict[str, Any] | None = None,
    call_id: str | None = None,
    key: str = "test-key",
    limit: int = 4000,
) -> Said:
    """One call through the wire's async SDK client without retries; SDK exceptions pass through."""
    sent = {"X-Client-Request-Id": call_id} if call_id else {}
    if wire == "anthropic":
        return await _anthropic(url, model, user, system, schema, sent, key, limit)
    if wire == "google":
        return await _google(url, model, user, system, schema, sent, key, limit)
    return await _openai(wire, url, model, user, system, schema, sent, key, limit)


async def _openai(
    wire: str,
    url: str,
    model: str,
    user: str,
    system: str,
    schema: dict[str, Any] | None,
    sent: dict[str, str],
    key: str,
    limit: int,
) -> Said:
    from openai import AsyncOpenAI

    messages: list[Any] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": user})
    form: Any = {"type": "json_schema", "name": "output", "strict": True, "schema": schema}
    async with AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0) as client:
        if wire == "openai":
            options: Any = {"text": {"format": form}} if schema else {}
            raw = await client.responses.with_raw_response.create(
                model=model, input=messages, max_output_tokens=limit, extra_headers=sent, **options
            )
            response = raw.parse()
            content = [part for item in response.output if item.type == "message" for part in item.content]
            refusals = [part.refusal for part in content if part.type == "refusal"]
            usage = response.usage
            assert usage is not None
            return Said(
                response.output_text or None,
                response.incomplete_details.reason if response.incomplete_details else response.status,
                refusals[0] if refusals else None,
                usage.input_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.output_tokens,
                usage.output_tokens_details.reasoning_tokens,
                dict(raw.headers),
            )
        form = {"type": "json_schema", "json_schema": {"name": "output", "strict": True, "schema": schema}}
        options = {"response_format": form} if schema else {}
        raw_chat = await client.chat.completions.with_raw_response.create(
            model=model, messages=messages, max_completion_tokens=limit, extra_headers=sent, **options
        )
        completion = raw_chat.parse()
        choice, spent = completion.choices[0], completion.usage
        assert spent is not None
        assert spent.prompt_tokens_details is not None
        assert spent.completion_tokens_details is not None
        return Said(
            choice.message.content,
            choice.finish_reason,
            choice.message.refusal,
            spent.prompt_tokens,
            spent.prompt_tokens_details.cached_tokens or 0,
            spent.completion_tokens,
            spent.completion_tokens_details.reasoning_tokens or 0,
            dict(raw_chat.headers),
        )


async def _anthropic(
    url: str,
    model: str,
    user: str,
    system: str,
    schema: dict[str, Any] | None,
    sent: dict[str, str],
    key: str,
    limit: int,
) -> Said:
    from anthropic import AsyncAnthropic

    options: Any = {"output_config": {"format": {"type": "json_schema", "schema": schema}}} if schema else {}
    if system:
        options["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    async with AsyncAnthropic(api_key=key, base_url=url, max_retries=0) as client:
        raw = await client.messages.with_raw_response.create(
            model=model,
            max_tokens=limit,
            messages=[{"role": "user", "content": user}],
            extra_headers=sent,
            **options,
        )
        message = await raw.parse()
    usage = message.usage
    cached = usage.cache_read_input_tokens or 0
    text = "".join(block.text for block in message.content if block.type == "text")
    return Said(
        text or None,
        message.stop_reason,
        "refused" if message.stop_reason == "refusal" else None,
        usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0),
        cached,
        usage.output_tokens,
        usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0,
        dict(raw.headers),
    )


async def _google(
    url: str,
    model: str,
    user: str,
    system: str,
    schema: dict[str, Any] | None,
    sent: dict[str, str],
    key: str,
    limit: int,
) -> Said:
    from google import genai
    from google.genai import types

    structured: Any = {"response_mime_type": "application/json", "response_json_schema": schema} if schema else {}
    options = types.HttpOptions(base_url=url, headers=sent, retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key=key, vertexai=False, http_options=options)
    try:
        config = types.GenerateContentConfig(system_instruction=system or None, max_output_tokens=limit, **structured)
        response = await client.aio.models.generate_content(model=model, contents=user, config=config)
    finally:
        await client.aio.aclose()
        client.close()
    candidate = response.candidates[0] if response.candidates else None
    blocked = response.prompt_feedback.block_reason if response.prompt_feedback else None
    finish = candidate.finish_reason.value if candidate and candidate.finish_reason else None
    usage = response.usage_metadata
    assert usage is not None
    return Said(
        response.text if candidate else None,
        finish,
        str(blocked.value if blocked else finish) if blocked or finish == "SAFETY" else None,
        usage.prompt_token_count or 0,
        usage.cached_content_token_count or 0,
        (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        usage.thoughts_token_count or 0,
        dict(response.sdk_http_response.headers or {}) if response.sdk_http_response else {},
    )

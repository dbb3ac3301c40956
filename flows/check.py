"""``criticgen check``: is a config usable, before anything is paid for?"""

import asyncio
from pathlib import Path
from typing import Any

from flows.simulator import with_simulator
from storage.errors import UserError
from tasks.config import Config, load_config
from tasks.models import Outcome
from tasks.models.pool import ModelPool, missing_keys, ping
from tasks.sources import source_fingerprint

# Dates that the vendors' own SDKs give for models of the paper.
ENDS = {"openai/gpt-5": "2026-12-11", "openai/gpt-5-mini": "2026-12-11", "anthropic/claude-sonnet-4-5": "2026-11-30"}


def check(path: Path, overrides: list[str], limit: int | None, *, ping: bool) -> dict[str, Any]:
    """``config``, ``good``, and ``findings``: each a level (ok, warning, error) and a message.

    A config that does not validate raises ``ConfigError``.
    """
    config = load_config(path, overrides, limit)
    findings = [_finding("ok", f"{len(config.sources)} sources, {len(config.models)} models")]
    missing = missing_keys(config)
    findings += [_finding("error", f"environment variable {name} is not set") for name in missing]
    for source in config.sources:
        try:
            source_fingerprint(source)
        except UserError as error:
            findings.append(_finding("error", str(error)))
    names = {model.name for model in config.models}
    findings += [
        _finding("warning", f"{name}: its vendor ends it on {ENDS[name]}") for name in sorted(names & set(ENDS))
    ]
    if ping and not missing:
        findings += asyncio.run(_ping_all(config))
    return {"config": str(path), "good": all(f["level"] != "error" for f in findings), "findings": findings}


async def _ping_all(config: Config) -> list[dict[str, str]]:
    with with_simulator(config) as served:
        async with ModelPool(served) as pool:
            models = {model.name: model for model in served.models}
            replies = await asyncio.gather(*(ping(model, pool) for model in models.values()))
    return [
        _finding("ok", f"{name} answers")
        if reply.outcome in (Outcome.OK, Outcome.TRUNCATED)
        else _finding("error", f"{name}: {reply.outcome.value}: {reply.error or 'no more is known'}")
        for name, reply in zip(models, replies, strict=True)
    ]


def _finding(level: str, message: str) -> dict[str, str]:
    return {"level": level, "message": message}

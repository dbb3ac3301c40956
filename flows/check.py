"""``criticgen check``: is a config usable, before anything is paid for?"""

import asyncio
from pathlib import Path
from typing import Any

from flows.simulator import with_simulator
from storage.errors import UserError
from tasks.config import Config, Source, load_config
from tasks.models import Outcome
from tasks.models.pool import ModelPool, missing_keys, ping
from tasks.models.prices import check_prices
from tasks.settings import ConfigError
from tasks.sources import load_source, source_fingerprint

# Dates that the vendors' own SDKs give for models of the paper.
ENDS = {"openai/gpt-5": "2026-12-11", "openai/gpt-5-mini": "2026-12-11", "anthropic/claude-sonnet-4-5": "2026-11-30"}


def check(path: Path, overrides: list[str], limit: int | None, *, ping: bool) -> dict[str, Any]:
    """``config``, ``good``, and ``findings``: each a level (ok, warning, error) and a message.

    A config that does not validate raises ``ConfigError``.
    """
    config = load_config(path, overrides, limit)
    findings = [_finding("ok", f"models: {', '.join(dict.fromkeys(model.name for model in config.models))}")]
    missing = missing_keys(config)
    unset = "is not set, or holds what no key can be"
    findings += [_finding("error", f"environment variable {name} {unset}") for name in missing]
    try:
        check_prices(config)
    except ConfigError as error:
        findings.append(_finding("error", str(error)))
    findings += [_source(config, source) for source in config.sources]
    names = {model.name for model in config.models}
    findings += [
        _finding("warning", f"{name}: its vendor ends it on {ENDS[name]}") for name in sorted(names & set(ENDS))
    ]
    if ping and not missing:
        findings += asyncio.run(_ping_all(config))
    return {"config": str(path), "good": all(f["level"] != "error" for f in findings), "findings": findings}


def _source(config: Config, source: Source) -> dict[str, str]:
    """A file is read as a run would read it; a hub data set is looked up."""
    try:
        if source.path is None:
            source_fingerprint(source)
            return _finding("ok", f"source {source.name}: {source.hub} is on the hub")
        limit = config.questions.max_characters
        found = load_source(source, limit=config.limit, max_characters=limit, skip_bad_rows=False)
    except UserError as error:
        return _finding("error", str(error))
    dropped = "".join(f", {reason} {number}" for reason, number in found.dropped.items())
    return _finding("ok", f"source {source.name}: {len(found.questions)} questions{dropped}")


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

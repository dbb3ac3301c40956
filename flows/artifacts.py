"""What Prefect shows of a run beside its states: per stage a table of counts and costs, and sample rows; the funnel."""

import os
import re
from typing import Any

import polars as pl
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact

from flows.plan import STAGES
from storage.workspace import Workspace
from tasks.batches import Batch, Manifest
from tasks.status import counts, funnel

MAX_ROWS = 200  # the list call returns artifacts whole
SAMPLES = 3
SAMPLE_CHARACTERS = 400


async def publish(workspace: Workspace) -> None:
    """Write each stage's artifacts from its manifests and tables, and the whole build's."""
    for name, stage in STAGES.items():
        manifests = workspace.manifests(name)
        if not manifests:
            continue
        await acreate_table_artifact(
            key=key_of(workspace, name, "counts"),
            table=[_row(m) for m in manifests[:MAX_ROWS]],
            description=f"{name}: counts and costs",
        )
        first = Batch(name, manifests[0]["shard"], manifests[0]["part"])
        rows = pl.read_parquet(workspace.table_path(stage.writes, *stage.file(first)), n_rows=SAMPLES)
        await acreate_markdown_artifact(key=key_of(workspace, name, "samples"), markdown=_markdown(rows))
    steps = [
        {"step": step.name, "in": step.entered, "out": step.left, **step.dropped} for step in funnel(counts(workspace))
    ]
    await acreate_table_artifact(
        key=key_of(workspace, "funnel"), table=steps, description="The funnel, with drop reasons"
    )
    if dashboard := os.environ.get("CRITICGEN_DASHBOARD_URL"):
        await acreate_link_artifact(dashboard, "The dashboard", key=key_of(workspace, "dashboard"))


def key_of(workspace: Workspace, *parts: str) -> str:
    """An artifact's key: lower case, digits and dashes."""
    return re.sub("[^a-z0-9]+", "-", "-".join([str(workspace.info["name"]), *parts]).lower())


def _row(manifest: Manifest) -> dict[str, Any]:
    failed = ", ".join(f"{outcome} {number}" for outcome, number in manifest["failed"].items())
    names = ("shard", "part", "wanted", "ok", "todo", "input_tokens", "output_tokens", "cost_usd")
    return {name: manifest[name] for name in names} | {"failed": failed}


def _markdown(rows: pl.DataFrame) -> str:
    """Rows as fenced text, so that nothing in a model's text is taken for markup."""
    blocks = []
    for row in rows.to_dicts():
        lines = [f"{name}: {str(value)[:SAMPLE_CHARACTERS]}" for name, value in row.items()]
        blocks.append("\n".join("    " + part for line in lines for part in line.splitlines()))
    return "\n\n---\n\n".join(blocks) or "no rows"

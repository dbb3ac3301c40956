"""What Prefect shows of a run beside its states: per stage a table of counts and costs, progress, sample rows."""

from typing import Any

import polars as pl
from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, acreate_table_artifact

from flows.plan import STAGES
from storage.workspace import Workspace
from tasks.batches import Batch, Manifest

MAX_ROWS = 200  # the list call returns artifacts whole
SAMPLES = 3
SAMPLE_CHARACTERS = 400


async def publish(workspace: Workspace) -> None:
    """Write each stage's artifacts from its manifests and tables."""
    for name, stage in STAGES.items():
        manifests = workspace.manifests(name)
        if not manifests:
            continue
        key = f"{workspace.info['name']}-{name}".lower().replace("_", "-").replace(".", "-")
        wanted = sum(manifest["wanted"] for manifest in manifests)
        ended = sum(manifest["wanted"] - manifest["todo"] for manifest in manifests)
        await acreate_table_artifact(
            key=f"{key}-counts", table=[_row(m) for m in manifests[:MAX_ROWS]], description=f"{name}: counts and costs"
        )
        await acreate_progress_artifact(
            progress=100.0 * ended / wanted if wanted else 100.0,
            key=f"{key}-progress",
            description=f"{name}: calls ended",
        )
        first = Batch(name, manifests[0]["shard"], manifests[0]["part"])
        rows = pl.read_parquet(workspace.table_path(stage.writes, *stage.file(first)), n_rows=SAMPLES)
        await acreate_markdown_artifact(key=f"{key}-samples", markdown=_markdown(rows))


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

"""The export of a large made workspace: seconds, rows per second, peak memory, and whether twice gives the same bytes.

python -m tests.benchmarks.export FOLDER      # of made_workspace; it is made there if it is not
"""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl

from storage.workspace import Workspace
from tasks.config import load_config
from tasks.export import export
from tests.benchmarks.made_workspace import make


def once(folder: Path, out: Path) -> None:
    """Export, in a process of its own, and print the rows, the seconds and the peak of memory as JSON."""
    began = time.perf_counter()
    counts = export(Workspace(folder), load_config(Path("deployments/configs/demo.yaml")), out)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"rows": counts, "seconds": time.perf_counter() - began, "peak_bytes": peak}))


def main(folder: Path) -> None:
    if not (folder / "workspace.json").exists():
        make(folder)
    out = folder.with_name(f"{folder.name}-export")
    versions = []
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "tests.benchmarks.export", "--once", str(folder), str(out)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows = sum(sum(splits.values()) for splits in found["rows"].values())
        size = sum(path.stat().st_size for path in out.rglob("*.*"))
        versions.append(json.loads((out / "version.json").read_text())["version"])
        print(
            f"{rows:,} rows, {size / 1e9:.2f} GB: {found['seconds']:.1f} s, {rows / found['seconds']:,.0f} rows/s, "
            f"peak {found['peak_bytes'] / 1e9:.2f} GB, version {versions[-1]}",
            flush=True,
        )
    print("the same bytes" if len(set(versions)) == 1 else "NOT the same bytes")
    print(pl.read_parquet(out / "refine_data" / "test.parquet").shape)


if __name__ == "__main__":
    if sys.argv[1] == "--once":
        once(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]))

"""Near-duplicates from Parquet to decisions, beside datasketch: ``python -m tests.benchmarks.lexical FOLDER ROWS``.

FOLDER holds ``part-*.parquet`` with rubric, reason, suggestion and refined. Each method runs in a process of its own;
CPU seconds leave out imports and compiling. Mode ``ws``, threshold 0.75, rows in the order of the files.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

FIELDS = ["rubric", "reason", "suggestion", "refined"]


def ours(file: Path, rows: int) -> int:
    from tasks.text_file_filter import filter_file

    warm = pl.scan_parquet(file).head(50).collect()
    warm.write_parquet(file.parent / "warm.parquet")
    settings = {"order": "input", "mode": "ws"}
    filter_file(file.parent / "warm.parquet", FIELDS, file.parent / "warm-out.parquet", **settings)  # type: ignore[arg-type]
    start()
    return int(filter_file(file, FIELDS, file.parent / "out.parquet", **settings)["dropped"])  # type: ignore[arg-type]


def datasketch(file: Path, rows: int) -> int:
    """As documented (128 permutations, threshold 0.75), then the exact Jaccard and the same walk."""
    from datasketch import MinHash, MinHashLSH

    start()
    lsh, sets, dropped = MinHashLSH(threshold=0.75, num_perm=128), list[set[str]](), 0
    for row, text in enumerate(pl.read_parquet(file).select(pl.concat_str(FIELDS, separator=" ")).to_series()):
        words = text.lower().split()
        own = {" ".join(words[at : at + 4]) for at in range(len(words) - 3)}
        sets.append(own)
        hashed = MinHash(num_perm=128)
        for gram in own:
            hashed.update(gram.encode())
        if any(4 * len(own & sets[other]) > 3 * len(own | sets[other]) for other in lsh.query(hashed)):
            dropped += 1
        else:
            lsh.insert(row, hashed)
    return dropped


_started = 0.0


def start() -> None:
    global _started
    _started = time.process_time()


def main() -> None:
    if sys.argv[1] == "--one":
        dropped = {"ours": ours, "datasketch": datasketch}[sys.argv[2]](Path(sys.argv[3]), int(sys.argv[4]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"cpu": time.process_time() - _started, "peak_mb": peak, "dropped": dropped}))
        return
    folder, rows = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "rows.parquet")
        pl.scan_parquet(f"{folder}/part-*.parquet").select(FIELDS).head(rows).sink_parquet(file)
        found = {}
        for name in ("ours", "datasketch"):
            command = [sys.executable, "-m", "tests.benchmarks.lexical", "--one", name, str(file), str(rows)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(name, found[name], flush=True)
        print(f"{rows:,} rows: datasketch takes {found['datasketch']['cpu'] / found['ours']['cpu']:.0f} x the CPU time")


if __name__ == "__main__":
    main()

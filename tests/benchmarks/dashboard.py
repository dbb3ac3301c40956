"""The dashboard over a large made workspace: seconds of each page over HTTP, and the server's memory.

    python -m tests.benchmarks.dashboard FOLDER      # of made_workspace; it is made there if it is not

A page is asked for until the whole answer is there, the second time (warm); each filter is asked for once, so that
nothing of it is kept from before.
"""

import re
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

from flows.processes import python_module
from storage.queries import query
from storage.workspace import Workspace
from tests.benchmarks.made_workspace import make

PAGES = ("/", "/batches", "/rows", "/agreement", "/coverage", "/diversity", "/models", "/sql")
FILTERS = (
    "/batches?state=failures",
    "/rows?family=objective&fate=disagreement",
    "/rows?source=limo&generator=openai/sim-tiny&score=3",
    "/rows?sort=teacher_score&down=1&fate=train",
    "/rows?offset=1000000",
    "/rows?q=zzqxj",
    "/rows?table=trajectories&source=limo&model=google/sim-judge-b",
    "/rows?table=trajectories&q=zzqxj",
    "/rows?table=trajectories&role=judge&sort=score",
    "/rows?table=calls&outcome=refused&sort=latency_s&down=1",
    "/rows?table=calls&stage=judges&q=made",
    "/agreement?source=limo&family=objective",
    "/coverage?source=limo",
)


def seconds(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        answer.read()
    return time.perf_counter() - began


def main(folder: Path) -> None:
    place = Workspace(folder) if (folder / "workspace.json").exists() else make(folder)
    counts = query(place, "SELECT (SELECT count(*) FROM answers) AS a, (SELECT count(*) FROM rubrics) AS r").row(0)
    some = query(place, "SELECT item_id FROM rubrics LIMIT 3 OFFSET 1000")["item_id"].to_list()
    with python_module("deployments.dashboard", "--workspace", str(folder), "--port", "0") as server:
        assert server.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", server.stdout.readline().decode())
        assert found
        base = found[0]
        print(f"{counts[0]:,} answers, {counts[1]:,} rubric items; opened in {seconds(base):.1f} s")
        for page in PAGES:
            first, warm = seconds(base + page), seconds(base + page)
            print(f"page    {page:<70} first {first:6.3f} s   warm {warm:6.3f} s")
        for asked in (*FILTERS, *(f"/row/{item}" for item in some)):
            print(f"filter  {asked:<70}       {seconds(base + quote(asked, safe='/?=&%')):6.3f} s")
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        peaks = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{child}/status").read_text()) for child in children]
        print(f"memory of the server at its peak: {max(int(peak[1]) for peak in peaks if peak) // 1024:,} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

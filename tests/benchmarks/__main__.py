"""The benchmarks: ratios measured side by side in one run. ``make bench``, or ``python -m tests.benchmarks``.

engine    calls per second of an annotation batch against a bare loop over the same SDK and server
overlap   a whole run's time against its slowest model's share of the work
pace      successes a minute against a server's limit, and the requests that it answers 429

The lexical filters: ``python -m tests.benchmarks.lexical FOLDER ROWS``.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CALLS = 2_000
ROUNDS = 3


def measure(which: str, port: int, concurrency: int) -> tuple[float, float]:
    command = [sys.executable, str(HERE / "client.py"), which, str(port), str(CALLS), str(concurrency)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return found["wall_s"], found["cpu_s"]


def engine() -> None:
    print(f"engine against a bare loop: {CALLS:,} structured calls, medians of {ROUNDS} interleaved rounds")
    print("latency  concurrency  bare calls/s  engine calls/s  rate ratio  bare CPU s  engine CPU s  CPU ratio")
    for latency in (0.2, 0.0):
        command = [sys.executable, str(HERE / "canned_server.py"), str(latency)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            port = int(server.stdout.readline())
            for concurrency in (64, 256):
                times: dict[str, list[tuple[float, float]]] = {"bare": [], "engine": []}
                for _ in range(ROUNDS):
                    for which, found in times.items():
                        found.append(measure(which, port, concurrency))
                wall, cpu = (
                    {which: statistics.median(pair[part] for pair in found) for which, found in times.items()}
                    for part in (0, 1)
                )
                print(
                    f"{latency:7.1f}  {concurrency:11}  {CALLS / wall['bare']:12.0f}  {CALLS / wall['engine']:14.0f}"
                    f"  {wall['bare'] / wall['engine']:10.2f}  {cpu['bare']:10.2f}  {cpu['engine']:12.2f}"
                    f"  {cpu['engine'] / cpu['bare']:9.2f}",
                    flush=True,
                )
            server.stdin.close()


LATENCY_S, CONCURRENCY, QUESTIONS = 0.4, 16, 96


def overlap() -> None:
    from flows.processes import python_module
    from storage.workspace import Workspace
    from tasks.config import Config
    from tests.support.pipeline import build_without_prefect

    with (
        tempfile.TemporaryDirectory() as folder,
        python_module("deployments.simulator", "--port", "0", "--latency-s", str(LATENCY_S)) as process,
    ):
        assert process.stdout is not None
        source = Path(folder, "questions.jsonl")
        texts = [
            f"Crew {n} loads {n + 3} crates of {2 * n + 4} bolts, returns {n + 2}. Left?" for n in range(QUESTIONS)
        ]
        source.write_text("".join(json.dumps({"question": text}) + "\n" for text in texts))
        config = Config.model_validate(
            {
                "name": "overlap",
                "sources": [{"name": "made", "path": str(source)}],
                "shard_size": 6,
                "simulator": {"url": json.loads(process.stdout.readline())["url"]},
                "limits": {"default": {"max_concurrency": CONCURRENCY}},
                "answers": {"generators": ["openai/sim-tiny", "google/sim-medium"]},
                "teacher": "openai/sim-teacher",
                "judges": ["anthropic/sim-judge-a", "google/sim-judge-b"],
            }
        )
        began = time.perf_counter()
        place: Workspace = build_without_prefect(config, Path(folder, "w"))
        wall = time.perf_counter() - began
        calls = place.read_table("calls", columns=["model", "latency_s"]).group_by("model").sum()
    share = {model: seconds / CONCURRENCY for model, seconds in calls.iter_rows()}
    slowest = max(share, key=lambda model: share[model])
    print(
        f"overlap of stages: {QUESTIONS} questions, latency {LATENCY_S} s, concurrency {CONCURRENCY}: "
        f"run {wall:.1f} s; slowest model ({slowest}) alone {share[slowest]:.1f} s, ratio {wall / share[slowest]:.2f}; "
        f"all models one after the other {sum(share.values()):.1f} s"
    )


if __name__ == "__main__":
    from tests.benchmarks.pace import pace

    engine()
    overlap()
    pace()

"""One way of making N structured calls, in a process of its own: ``client.py engine|bare PORT CALLS CONCURRENCY``.

Prints the seconds of wall and of CPU from the first call to the last answer parsed, as JSON. ``bare`` is the
least that anybody would write: gather over the typed call of the same SDK, and pydantic over its text; it keeps
nothing. ``engine`` is an annotation batch: ids, limiter, ledger with fsync, parse, tables, manifest.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from flows.asking import open_run
from flows.progress import Progress
from storage.workspace import Workspace
from tasks.batches import Batch, Stage, run_batch
from tasks.config import Config
from tasks.models import Message, Request
from tasks.prompts import fenced, load_prompt
from tasks.trajectories import TRAJECTORIES, Trajectory, messages

MODEL = "openai/sim-bench"
TEXT = "Ann packs pears into 3 crates of 5 and gives 4 away. How many are left? " * 5
LEVELS = {f"level_{level}": f"The answer states {level} of the five quantities." for level in range(6)}


def config_of(port: int, concurrency: int) -> Config:
    return Config.model_validate(
        {
            "name": "bench",
            "sources": [{"name": "none", "path": "none.jsonl"}],
            "simulator": {"url": f"http://127.0.0.1:{port}"},
            "limits": {"default": {"max_concurrency": concurrency}},
            "answers": {"generators": [MODEL]},
            "teacher": MODEL,
            "judges": [MODEL],
        }
    )


def rows_of(calls: int) -> pl.DataFrame:
    shared = {"question": TEXT, "answer": TEXT, "family": "objective", "dimension": "Product in step 1", **LEVELS}
    ids = {"question_id": "q", "answer_id": "a", "shard": "s", "sample": 0}
    return pl.DataFrame({"item_id": [f"item-{number}" for number in range(calls)]}).with_columns(
        pl.lit(value).alias(name) for name, value in (shared | ids).items()
    )


async def engine(config: Config, rows: pl.DataFrame, folder: Path) -> tuple[float, float]:
    place = Workspace(folder)
    place.claim(config.name, simulated=True)
    stage = Stage(**TRAJECTORIES.__dict__ | {"inputs": lambda *_: rows, "before": lambda *_: []})
    async with open_run(config, place, config, Progress("bench"), lambda batch: stage) as run:
        assert run.caller.pool is not None
        await run.caller.pool.ask(config.teacher, Request("warm", (Message("user", "up"),), 16))  # imports the SDK
        began = time.perf_counter(), time.process_time()
        await run_batch(run, stage, Batch("trajectories", "s", "pool"))
        return time.perf_counter() - began[0], time.process_time() - began[1]


async def bare(config: Config, rows: pl.DataFrame, port: int, concurrency: int) -> tuple[float, float]:
    from openai import AsyncOpenAI, DefaultAioHttpClient

    limit = asyncio.Semaphore(concurrency)
    schema = Trajectory.model_json_schema() | {"additionalProperties": False}
    written = {"format": {"type": "json_schema", "name": "trajectory", "strict": True, "schema": schema}}
    async with DefaultAioHttpClient() as http:
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sim", max_retries=0, http_client=http)

        async def one(row: dict[str, str]) -> Trajectory:
            async with limit:
                system, user = messages(config, row)
                response = await client.responses.create(
                    model="sim-bench",
                    instructions=system.text,
                    input=user.text,
                    max_output_tokens=16_384,
                    text=written,  # type: ignore[arg-type]
                )
                return Trajectory.model_validate_json(response.output_text)

        await client.responses.create(model="sim-bench", input="up", max_output_tokens=16)
        began = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(one, rows.to_dicts()))
        return time.perf_counter() - began[0], time.process_time() - began[1]


def main() -> None:
    which, port, calls, concurrency = sys.argv[1], *map(int, sys.argv[2:])
    config, rows = config_of(port, concurrency), rows_of(calls)
    load_prompt("trajectory"), fenced("warm", "up")
    if which == "bare":
        wall, cpu = asyncio.run(bare(config, rows, port, concurrency))
    else:
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = asyncio.run(engine(config, rows, Path(folder)))
    print(json.dumps({"wall_s": wall, "cpu_s": cpu}))


if __name__ == "__main__":
    main()

"""The pace of one model against a server's limit that no config tells. ``python -m tests.benchmarks.pace``.

Twice at the same time, each with a server of its own: with the vendor's rate-limit headers, and without, as of a
server that says no more than 429 with Retry-After.
"""

import asyncio
import json
import subprocess
import sys
import time
from unittest.mock import patch

CALLS, PER_MINUTE, BURST_S, LATENCY_S = 1_200, 600, 6.0, 0.3
MODEL = "openai/sim-tiny"


async def ask_all(url: str) -> tuple[float, int]:
    """Seconds from the first call to the last answer, and how many requests were answered 429."""
    from tasks.config import Config
    from tasks.models import Message, Outcome, Request
    from tasks.models.limiter import Limiter
    from tasks.models.pool import ModelPool
    from tasks.settings import Model

    config = Config.model_validate(
        {
            "name": "pace",
            "sources": [{"name": "none", "path": "none.jsonl"}],
            "simulator": {"url": url},
            "answers": {"generators": [MODEL]},
            "teacher": MODEL,
            "judges": [MODEL],
        }
    )
    refused = 0
    slow_down = Limiter.rate_limited

    def counted(limiter: Limiter, retry_after: float | None, began: float) -> None:
        nonlocal refused
        refused += 1
        slow_down(limiter, retry_after, began)

    async with ModelPool(config) as pool:

        async def one(number: int) -> None:
            message = Message("user", f"A crate holds {number} pears and {number + 3} more come. How many are there?")
            reply = await pool.ask(Model(name=MODEL), Request(f"pace-{number}", (message,), 256))
            assert reply.outcome in (Outcome.OK, Outcome.TRUNCATED), reply

        await one(0)  # imports the SDK
        began = time.perf_counter()
        with patch.object(Limiter, "rate_limited", counted):
            await asyncio.gather(*map(one, range(1, CALLS + 1)))
        return time.perf_counter() - began, refused


def against_a_server(headers: bool) -> None:
    from flows.processes import python_module

    options = {"requests_per_minute": PER_MINUTE, "burst_s": BURST_S, "latency_s": LATENCY_S}
    flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    with python_module("deployments.simulator", "--port", "0", *flags) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        if headers:
            seconds, refused = asyncio.run(ask_all(url))
        else:
            with patch("tasks.models.client.pace_of", lambda *_: None):
                seconds, refused = asyncio.run(ask_all(url))
    allowed = PER_MINUTE * (BURST_S + seconds) / 60
    print(
        f"{'yes' if headers else 'no':7}  {seconds:7.1f}  {60 * CALLS / seconds:17.0f}  {allowed:7.0f}"
        f"  {CALLS / allowed:15.1%}  {refused:8}  {refused / (CALLS + refused):11.1%}",
        flush=True,
    )


def pace() -> None:
    print(
        f"pace: {CALLS:,} calls of {LATENCY_S} s, a server's limit of {PER_MINUTE} requests a minute, none configured"
    )
    at_once = PER_MINUTE * BURST_S / 60
    print(f"allowed: the {at_once:.0f} that the server lets through at once, and its limit over the time")
    print("headers  seconds  successes a minute  allowed  used of allowed  were 429  share of 429")
    command = [sys.executable, "-m", "tests.benchmarks.pace"]
    running = [subprocess.Popen([*command, which], stdout=subprocess.PIPE, text=True) for which in ("yes", "no")]
    for process in running:
        print(process.communicate()[0], end="", flush=True)
        if process.returncode:
            sys.exit(process.returncode)


if __name__ == "__main__":
    if sys.argv[1:]:
        against_a_server(sys.argv[1] == "yes")
    else:
        pace()

"""``python -m deployments.simulator --port 0 --latency-s 0.2``: serve until SIGTERM or SIGINT.

Once listening, one line of JSON goes to standard output: {"url": "http://127.0.0.1:40123", "pid": 4711}.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import orjson

from deployments.simulator.knobs import KNOBS, KnobError, Knobs
from deployments.simulator.server import start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="criticgen simulate",
        description="Simulated OpenAI, Anthropic and Gemini models (any name that begins with sim-) on 127.0.0.1.",
        epilog="Any knob can be set for one model: --judge-noise.sim-judge-b 0.3",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes any free one (default)")
    for name, knob in KNOBS.items():
        meaning = f"{knob.metadata['help']} (default {knob.default})".replace("%", "%%")
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="N", help=meaning)
    known, rest = parser.parse_known_args(arguments)
    options = {name: value for name in KNOBS if (value := getattr(known, name)) is not None}
    try:
        knobs = Knobs.of(options | _for_models(rest))
    except KnobError as error:
        parser.error(str(error))
    try:
        asyncio.run(_serve(knobs, known.port))
    except (OSError, OverflowError) as error:
        parser.exit(1, f"port {known.port}: cannot listen ({getattr(error, 'strerror', None) or error})\n")
    return 0


def _for_models(rest: Sequence[str]) -> dict[str, str]:
    """``["--judge-noise.sim-judge-b", "0.3"]`` as ``{"judge-noise.sim-judge-b": "0.3"}``."""
    words = [part for word in rest for part in (word.split("=", 1) if word.startswith("--") else (word,))]
    options: dict[str, str] = {}
    while words:
        word, *words = words
        if not word.startswith("--") or "." not in word:
            raise KnobError(f"{word}: no such option")
        if not words:
            raise KnobError(f"{word}: a value is missing")
        options[word[2:]], *words = words
    return options


async def _serve(knobs: Knobs, port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    runner, url = await start(knobs, port)
    sys.stdout.write(orjson.dumps({"url": url, "pid": os.getpid()}).decode() + "\n")
    sys.stdout.flush()
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())

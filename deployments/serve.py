"""``criticgen serve``: a Prefect server, its deployments, a worker and the dashboard on this machine, until Ctrl-C.

    python -m deployments.serve [--port 4200] [--dashboard-port 8501] [--workers 1] [--workspace workspaces/demo]

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


def serve(port: int, dashboard_port: int, workers: int, workspace: Path) -> None:
    """Start everything, print the addresses, and wait. Raises ``UserError`` where a part does not start or ends.

    The dashboard starts once there is a workspace to show.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("CRITICGEN_DASHBOARD_URL", f"http://127.0.0.1:{dashboard_port}")
    os.environ |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    print("Starting ...", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        url = stack.enter_context(own_server(FOLDER, port))
        deploy()
        processes = {}

        def begin(name: str, *arguments: str) -> None:
            log = stack.enter_context((FOLDER / f"{name}.log").open("wb"))
            processes[name] = stack.enter_context(python_module(*arguments, log=log))

        for name in (f"worker-{number}" for number in range(workers)):
            begin(name, "prefect", "worker", "start", "--pool", POOL, "--name", name, "--install-policy", "never")
        print(f"Prefect:   {url.removesuffix('/api')}")
        print(f"Dashboard: {os.environ['CRITICGEN_DASHBOARD_URL']} of {workspace}, from its first run on")
        print(f"For commands in other terminals: export PREFECT_API_URL={url}")
        print("Ctrl-C ends them all.", flush=True)
        while all(process.poll() is None for process in processes.values()):
            if "dashboard" not in processes and (workspace / "workspace.json").exists():
                arguments = ["--workspace", str(workspace), "--port", str(dashboard_port)]
                begin("dashboard", "deployments.dashboard", *arguments)
            time.sleep(0.5)
        ended = [name for name, process in processes.items() if process.poll() is not None]
    raise UserError(f"{' and '.join(ended)} ended; the logs are in {FOLDER}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="criticgen serve", description="Prefect, its worker and the dashboard.")
    parser.add_argument("--port", type=int, default=4200, help="of Prefect (4200)")
    parser.add_argument("--dashboard-port", type=int, default=8501, help="of the dashboard (8501)")
    parser.add_argument("--workers", type=int, default=1, help="how many; more than one wants PostgreSQL (1)")
    parser.add_argument(
        "--workspace", type=Path, default=Path("workspaces/demo"), help="the dashboard's (workspaces/demo)"
    )
    asked = parser.parse_args()
    try:
        serve(asked.port, asked.dashboard_port, asked.workers, asked.workspace)
    except UserError as error:
        print(f"criticgen: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)


if __name__ == "__main__":
    main()

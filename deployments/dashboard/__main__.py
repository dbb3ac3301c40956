"""``python -m deployments.dashboard``: serve one workspace's dashboard."""

import argparse
import os
import sys
import threading
from pathlib import Path

import uvicorn

from deployments.dashboard.app import Board, application
from deployments.dashboard.prefect_api import Prefect
from deployments.dashboard.reader import Reader
from storage.errors import UserError
from storage.workspace import Workspace

PASSWORD = "CRITICGEN_DASHBOARD_PASSWORD"


def main() -> None:
    parser = argparse.ArgumentParser(prog="criticgen dashboard", description="Look at a workspace in the browser.")
    parser.add_argument("--workspace", type=Path, required=True, help="the workspace's folder")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8501, help="0 takes a free one")
    asked = parser.parse_args()
    workspace = Workspace(asked.workspace, create=False)
    password = os.environ.get(PASSWORD) or None
    loopback = asked.host in ("127.0.0.1", "localhost", "::1")
    if not loopback and password is None:
        raise UserError(f"--host {asked.host} opens the dashboard to others: set {PASSWORD}")
    reader = Reader(workspace)
    board = Board(workspace, reader, Prefect(workspace), password, only_loopback=loopback)
    # What takes long over a large workspace begins before the first page is asked for.
    threading.Thread(target=reader.rows, args=("SELECT 1",), daemon=True).start()
    server = uvicorn.Server(
        uvicorn.Config(application(board), host=asked.host, port=asked.port, log_level="warning", server_header=False)
    )
    socket = server.config.bind_socket()
    socket.listen()  # who reads the address below finds it open
    port = socket.getsockname()[1]
    print(f"Dashboard of {workspace.root}: http://{asked.host}:{port} (Ctrl-C ends it)", flush=True)
    server.run(sockets=[socket])


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"criticgen: {error}")
    except KeyboardInterrupt:
        sys.exit(130)

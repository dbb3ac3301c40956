"""``python tests/support/postgres.py COMMAND ...``: the command with a PostgreSQL of its own as Prefect's database."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        sys.exit("no PostgreSQL here: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    root = os.geteuid() == 0  # as which PostgreSQL refuses to run
    if root:
        shutil.chown(folder, "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [*(["runuser", "-u", "postgres", "--"] if root else []), str(programs[-1] / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)

    data = str(folder / "data")
    run("initdb", "--pgdata", data, "--auth", "trust", "--username", "prefect")
    run("pg_ctl", "start", "--wait", "--pgdata", data, "--log", str(folder / "log"),
        "--options", f"-p {port} -h 127.0.0.1 -k {folder}")  # fmt: skip
    try:
        run("createdb", "--host", "127.0.0.1", "--port", str(port), "--username", "prefect", "prefect")
        url = f"postgresql+asyncpg://prefect@127.0.0.1:{port}/prefect"
        env = os.environ | {"PREFECT_API_DATABASE_CONNECTION_URL": url}
        return subprocess.run(sys.argv[1:], env=env, check=False).returncode
    finally:
        run("pg_ctl", "stop", "--wait", "--mode", "fast", "--pgdata", data)
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

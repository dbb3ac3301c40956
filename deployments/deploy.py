"""The work pool, the deployments of ``prefect.yaml`` and the automations, under the server that PREFECT_API_URL names.

    python -m deployments.deploy

Done again, it changes what is there to what ``prefect.yaml`` says.
"""

import os
import subprocess
import sys
from pathlib import Path

from storage.errors import UserError

POOL = "criticgen"
YAML = Path(__file__).parent / "prefect.yaml"


def deploy() -> None:
    """Flow runs will work in the folder that CRITICGEN_HOME names, or in this one. Raises ``UserError``."""
    os.environ.setdefault("CRITICGEN_HOME", str(Path.cwd()))
    _module("prefect", "--no-prompt", "work-pool", "create", POOL, "--type", "process", "--overwrite")
    _module("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(YAML))
    _module("deployments.automations")


def _module(*arguments: str) -> None:
    command = [sys.executable, "-m", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode:
        raise UserError(f"`{' '.join(arguments)}` failed:\n{ended.stdout}")


if __name__ == "__main__":
    try:
        deploy()
    except UserError as error:
        sys.exit(f"criticgen: {error}")

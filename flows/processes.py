"""Child processes that end with their parent, however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

# The shell ends with the child, and the child with the shell's standard input, which a parent that is killed closes.
_KEEPER = (
    'exec 3<&0; "$@" </dev/null 3<&- & child=$!; '
    "(cat <&3 >/dev/null; kill $child) >/dev/null 2>&1 & "
    "exec 3<&-; wait $child; code=$?; kill $! 2>/dev/null; exit $code"
)


@contextmanager
def python_module(
    *arguments: str, env: Mapping[str, str] | None = None, log: IO[bytes] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """``python -m ARGUMENTS`` while the context is open. What it prints goes to ``log``, or is a pipe to be read."""
    process = subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=log or subprocess.PIPE,
        stderr=log or subprocess.DEVNULL,
        env=env,
        start_new_session=True,  # Ctrl-C is for the run; it ends its children in its own time
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

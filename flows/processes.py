"""Child processes that end with their parent, however it ends."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

# The shell holds the child's life to its own standard input: a parent that is killed closes it.
_KEEPER = '"$@" </dev/null & child=$!; cat >/dev/null; kill $child 2>/dev/null; wait $child'


@contextmanager
def python_module(
    *arguments: str, env: Mapping[str, str] | None = None, stderr: int | IO[bytes] = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    """``python -m ARGUMENTS`` while the context is open; its standard output is a pipe."""
    process = subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
        start_new_session=True,  # Ctrl-C is for the run; it ends its children in its own time
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()

"""Runs that are killed: each a process forked from one that has imported everything, so that a start costs little."""

import inspect
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline import Simulator

KILLED = -signal.SIGKILL
# What a run imports when it first needs it.
_LATE = (
    "openai", "anthropic", "google.genai", "tasks.models.openai", "tasks.models.anthropic", "tasks.models.google",
    "tasks.models.batch_openai", "tasks.models.batch_anthropic", "tasks.models.batch_google", "tasks.clusters",
    "tasks.consensus", "tasks.coverage", "tasks.near_duplicates", "tasks.diversity", "tasks.split", "tasks.export",
    "tasks.card", "genai_prices",
)  # fmt: skip


@dataclass(frozen=True)
class Fall:
    """Where a run kills itself: before or after the ``number``-th call of ``target`` (``module:name.name``).

    Counted once the run has kept so many answers.
    """

    target: str
    number: int = 1
    after: bool = False
    kept: int = 0

    def arm(self) -> None:
        kept = itertools.count(1)
        calls = itertools.count(1)
        counting = self.kept == 0

        def begin() -> None:
            nonlocal counting
            counting = counting or next(kept) >= self.kept

        def meet() -> bool:
            """Whether this is the last call."""
            last = counting and next(calls) == self.number
            if last and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            return last

        def end(last: bool) -> None:
            if last:
                os.kill(os.getpid(), signal.SIGKILL)

        _wrap("tasks.calls:Caller.keep", lambda: None, lambda _: begin())
        _wrap(self.target, meet, end)


def _wrap(target: str, before: Callable[[], Any], after: Callable[[Any], None]) -> None:
    """Have a function call these two, however it ends; ``after`` with what ``before`` gave."""
    module, _, path = target.partition(":")
    *way, name = path.split(".")
    owner: Any = import_module(module)
    for part in way:
        owner = getattr(owner, part)
    function = getattr(owner, name)

    async def awaited(*arguments: Any, **named: Any) -> Any:
        found = before()
        try:
            return await function(*arguments, **named)
        finally:
            after(found)

    def called(*arguments: Any, **named: Any) -> Any:
        found = before()
        try:
            return function(*arguments, **named)
        finally:
            after(found)

    setattr(owner, name, awaited if inspect.iscoroutinefunction(function) else called)


@dataclass(frozen=True)
class Seen:
    """From outside: ``seconds`` after the simulator has answered or made so many more."""

    calls: int = 0
    batches: int = 0
    seconds: float = 0.0

    def watch(self, simulator: Simulator) -> Callable[[], bool]:
        """Whether it has come to that since now."""

        def made() -> tuple[int, int]:
            stats = simulator.get("stats")
            return stats["served"], stats["batches"]["created"]

        calls, batches = made()

        def reached() -> bool:
            more_calls, more_batches = made()
            if more_calls < calls + self.calls or more_batches < batches + self.batches:
                return False
            time.sleep(self.seconds)
            return True

        return reached


class Runs:
    """One run at a time, without Prefect. Its output is in ``log``."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self.log = log

    def start(
        self, config: Path, root: Path, *overrides: str, fall: Fall | None = None, file_bytes: int | None = None
    ) -> None:
        """``file_bytes``: how large no file of the run may grow."""
        run: dict[str, Any] = {"config": str(config), "root": str(root), "overrides": overrides}
        run |= {"log": str(self.log), "file_bytes": file_bytes}
        self._ask("start", run=run, fall=None if fall is None else asdict(fall))

    def live(
        self, config: Path, root: Path, simulator: Simulator, fall: Fall | None, seen: Seen | None, *overrides: str
    ) -> int | None:
        """A run to its end, or to what comes first of these; its exit status."""
        reached = seen.watch(simulator) if seen else None
        self.start(config, root, *overrides, fall=fall)
        while reached and self.ended() is None and not reached():
            time.sleep(0.002)
        return self.kill() if reached else self.wait()

    def ended(self) -> int | None:
        """The exit status, None while it runs: ``KILLED``, 0, or 1 where the build failed."""
        return self._ask("ended")

    def kill(self) -> int | None:
        return self._ask("kill")

    def wait(self) -> int | None:
        return self._ask("wait")

    def _ask(self, command: str, **more: Any) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"command": command, **more}) + "\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def runs(folder: Path) -> Iterator[Runs]:
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    with subprocess.Popen(
        [sys.executable, "-c", "import killing; killing.serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        yield Runs(process, folder / "runs.log")
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    """Do as the lines of standard input say, and end with it. Nothing may run here beside the loop: it forks."""
    for name in ("pipeline", *_LATE):
        import_module(name)
    child, status = 0, None

    def wait(options: int = 0) -> int | None:
        nonlocal child, status
        if child:
            pid, code = os.waitpid(child, options)
            if pid:
                child, status = 0, os.waitstatus_to_exitcode(code)
        return status

    for line in sys.stdin:
        asked = json.loads(line)
        match asked["command"]:
            case "start":
                status, child = None, os.fork()
                if child == 0:
                    os._exit(_run(fall=asked["fall"], **asked["run"]))
            case "ended":
                wait(os.WNOHANG)
            case "kill":
                if wait(os.WNOHANG) is None:
                    os.kill(child, signal.SIGKILL)
                    wait()
            case "wait":
                wait()
        print(json.dumps(status), flush=True)
    if child:
        os.kill(child, signal.SIGKILL)


def _run(
    config: str, root: str, overrides: list[str], log: str, file_bytes: int | None, fall: dict[str, Any] | None
) -> int:
    from pipeline import build_without_prefect, load

    import tasks.vendor_batches

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    tasks.vendor_batches.QUIET_S = 0.05
    if fall is not None:
        Fall(**fall).arm()
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    try:
        build_without_prefect(load(Path(config), *overrides), Path(root))
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0

"""The vendor simulator beside a run that asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import orjson

from flows.processes import python_module
from storage.errors import UserError
from tasks.settings import Asking

C = TypeVar("C", bound=Asking)


class SimulatorError(UserError):
    """The simulator did not start."""


def as_options(knobs: dict[str, float | int | str]) -> list[str]:
    """``{"judge_noise.sim-b": 0.1}`` as ``["--judge-noise.sim-b", "0.1"]``."""
    options = []
    for name, value in knobs.items():
        knob, dot, model = name.partition(".")
        options += [f"--{knob.replace('_', '-')}{dot}{model}", str(value)]
    return options


@contextmanager
def with_simulator(config: C) -> Iterator[C]:
    """The config with its simulator's address: the one it names, or one started here and ended with the context."""
    if config.simulator is None or config.simulator.url is not None:
        yield config
        return
    with python_module("deployments.simulator", "--port", "0", *as_options(config.simulator.options)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SimulatorError("the simulator did not start; `criticgen simulate` shows why")
        url = orjson.loads(line)["url"]
        yield config.model_copy(update={"simulator": config.simulator.model_copy(update={"url": url})})

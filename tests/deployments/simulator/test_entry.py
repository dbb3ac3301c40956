import json
import signal
import subprocess
import sys
import urllib.request

import pytest


def launch(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "deployments.simulator", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def first_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_cleanly(number: int) -> None:
    with launch("--port", "0", "--latency-s", "0.01", "--judge-noise.sim-judge-b", "0.3") as process:
        said = first_line(process)
        assert said["pid"] == process.pid
        with urllib.request.urlopen(f"{said['url']}/_sim/knobs") as response:
            knobs = json.loads(response.read())
        assert (knobs["latency_s"], knobs["by_model"]) == (0.01, {"sim-judge-b": {"judge_noise": 0.3}})
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.communicate() == ("", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fault-500", "2"], "fault_500: 2 is out of range (from 0 to 1)"),
        (["--judge-noise.sim-judge-b"], "a value is missing"),
        (["--speed", "9"], "--speed: no such option"),
    ],
)
def test_wrong_options_are_named(options: list[str], words: str) -> None:
    with launch(*options) as process:
        _, errors = process.communicate()
    assert process.returncode == 2
    assert words in errors
    assert "Traceback" not in errors

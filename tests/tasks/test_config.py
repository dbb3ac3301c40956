"""The config: what is wrong is named with its place."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.config import load_config
from tasks.settings import ConfigError

GOOD: dict[str, Any] = {
    "name": "mine",
    "sources": [{"name": "mine", "path": "q.jsonl"}],
    "answers": {"generators": ["openai/gpt-5-mini"]},
    "teacher": "openai/gpt-5",
    "judges": ["anthropic/claude-sonnet-4-5"],
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(GOOD | changes))
    return path


def test_defaults_are_the_papers(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert (config.near_duplicates.threshold, config.near_duplicates.n) == (0.75, 4)
    assert (config.split.rubric_ratio, config.split.refine_ratio) == (5, 50)
    assert (config.coverage.rounds, config.consensus.tolerance, config.consensus.quorum) == (1, 0, "all")


def test_a_path_is_relative_to_the_config(tmp_path: Path) -> None:
    assert load_config(written(tmp_path)).sources[0].path == str(tmp_path / "q.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge": []}, "judge: unknown key"),
        ({"split": {"ratio": 5}}, "split.ratio: unknown key"),
        ({"teacher": "gpt-5"}, "teacher.name: 'gpt-5' is not of the form vendor/model"),
        ({"teacher": "mistral/large"}, "model mistral/large: no endpoint 'mistral'"),
        ({"teacher": "openai/sim-x"}, "simulated .* and real models do not mix"),
        ({"judges": ["openai/a", "openai/a"]}, "judges: a model is named twice"),
        ({"consensus": {"quorum": 2}}, "quorum 2 with 1 judges"),
        ({"sources": []}, "sources: List should have at least 1 item"),
        ({"sources": [{"name": "x"}]}, "source x: give either path or hub"),
        ({"simulator": {}}, "goes with models named sim-"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("just text", "expected keys and values"),
        ("name: a\nlimits:\n  default: {max_concurrency: 1, max_concurrency: 2}\n", "'max_concurrency' stands twice"),
    ],
)
def test_what_is_no_config_is_said(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(path)
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.yaml")


def test_overrides_reach_into_the_config(tmp_path: Path) -> None:
    overrides = ["near_duplicates.threshold=0.8", "sources.0.path=other.jsonl", "judges=[google/gemini-3-pro]"]
    config = load_config(written(tmp_path), overrides)
    assert config.near_duplicates.threshold == 0.8
    assert config.sources[0].path == "other.jsonl"
    assert config.judges[0].name == "google/gemini-3-pro"


@pytest.mark.parametrize("override", ["threshold", "name.x.y=1", "sources.7.path=x", "split=[1"])
def test_an_override_that_has_no_place_is_named(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_config(written(tmp_path), [override])


def test_a_servers_loopback_port_does_not_decide_an_answer_but_its_host_does(tmp_path: Path) -> None:
    def key(url: str) -> str:
        config = load_config(written(tmp_path, endpoints={"mine": {"api": "openai-chat", "base_url": url}}))
        return config.model_key(config.teacher.model_copy(update={"name": "mine/model"}))

    assert key("http://127.0.0.1:8000/v1") == key("http://localhost:9000/v1")
    assert key("http://127.0.0.1:8000/v1") != key("http://gpu.example/v1")

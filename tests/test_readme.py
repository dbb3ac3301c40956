"""The README names what there is, and all of it."""

import re
from pathlib import Path

import yaml
from typer.main import get_command

from flows.cli import app
from tasks.config import Config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = set(get_command(app).commands)  # type: ignore[attr-defined]


def test_every_command_is_shown_and_every_shown_command_exists() -> None:
    assert set(re.findall(r"criticgen ([a-z]+(?:-[a-z]+)*)", README)) == COMMANDS


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets


def test_its_config_is_valid() -> None:
    (config,) = [block for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) if block.startswith("name:")]
    assert Config.model_validate(yaml.safe_load(config)).name == "mine"

"""The exports as their users load them."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from pipeline import criticgen

from storage.schemas import LEVEL_COLUMNS
from storage.workspace import Workspace
from tasks.config import Export
from tasks.export import EXPORTS
from tasks.lengths import BYTES_PER_TOKEN, TOKENS_PER_MESSAGE
from tasks.status import reconciles, status
from tasks.targets import parse_target, target_of

LOADED = """
import sys
from datasets import load_dataset
for name in ("rubric_data", "refine_data"):
    found = load_dataset(sys.argv[1], name)
    print(name, *(found[split].num_rows for split in ("train", "test")))
    files = load_dataset("parquet", data_files=f"{sys.argv[1]}/{name}/test.parquet", split="train")
    chats = load_dataset("json", data_files=f"{sys.argv[1]}/{name}/test.jsonl", split="train")
    assert files.num_rows == chats.num_rows == found["test"].num_rows
    assert [turn["role"] for turn in chats[0]["messages"]] == ["system", "user", "assistant"]
"""


@pytest.mark.slow
def test_datasets_loads_both_with_their_splits(finished: Path, tmp_path: Path) -> None:
    exports = finished / "exports"
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED, str(exports)], env=env, capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr
    rows = {
        name: [pl.read_parquet(exports / name / f"{split}.parquet").height for split in ("train", "test")]
        for name in EXPORTS
    }
    assert loaded.stdout.split("\n")[:2] == [f"{name} {train} {test}" for name, (train, test) in rows.items()]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_column_is_documented_in_the_card_and_the_file(finished: Path, name: str) -> None:
    card = (finished / "exports" / "README.md").read_text()
    assert card.split("---\n\n", 1)[1].startswith("**SIMULATED")
    for column in pl.read_parquet(finished / "exports" / name / "train.parquet").columns:
        assert f"| `{column}` |" in card


def test_the_target_parses_back_to_the_row_in_the_papers_order(finished: Path) -> None:
    folder = finished / "exports" / "refine_data"
    rows = pl.read_parquet(folder / "train.parquet")
    with (folder / "train.jsonl").open() as file:
        for row, line in zip(rows.iter_rows(named=True), file, strict=True):
            chat = json.loads(line)
            target = json.loads(chat["messages"][-1]["content"])
            assert chat["id"] == row["instance_id"]
            assert list(target) == ["score", "reason", "suggestion", "refined_answer"]
            assert target == {key: row[key] for key in target}
            assert row["answer"] in chat["messages"][1]["content"]


def test_a_row_carries_its_passport(finished: Path) -> None:
    place = Workspace(finished)
    calls = set(place.read_table("calls")["call_id"])
    rows = pl.read_parquet(finished / "exports" / "refine_data" / "train.parquet")
    assert rows["call_ids"].list.len().unique().to_list() == [5]
    assert set(rows["call_ids"].explode()) <= calls
    assert rows["simulated"].all()
    assert rows["prompt_ids"].list.len().min() >= 3  # type: ignore[operator]
    assert {len(votes) for votes in rows["votes"]} == {2}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def rows_of(folder: Path, name: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(folder / name / f"{split}.parquet") for split in ("train", "test")])


@pytest.mark.parametrize("name", EXPORTS)
def test_every_format_holds_the_same_rows_and_their_targets_parse_back(finished: Path, name: str) -> None:
    folder = finished / "exports" / name
    for split in ("train", "test"):
        rows = pl.read_parquet(folder / f"{split}.parquet").to_dicts()
        chats, apart = (lines_of(folder / f"{split}{kind}.jsonl") for kind in ("", ".prompt_completion"))
        assert pl.read_parquet(folder / f"{split}.verl.parquet").to_dicts() == chats
        assert [chat["id"] for chat in chats] == [row["instance_id"] for row in rows]
        assert [one["prompt"] + one["completion"] for one in apart] == [chat["messages"] for chat in chats]
        for row, one in zip(rows, apart, strict=True):
            parsed = parse_target(name, one["completion"][0]["content"])
            assert parsed == {key: row[key] for key in parsed}


def test_the_same_workspace_gives_the_same_bytes_and_other_settings_another_version(
    finished: Path, tmp_path: Path
) -> None:
    def made(*options: str) -> tuple[dict[str, Any], str]:
        ended = criticgen("export", "--workspace", finished, "--out", tmp_path / "again", *options)
        assert (ended.returncode, ended.stderr) == (0, "")
        again = tmp_path / "again"
        return json.loads((again / "version.json").read_text()), (again / "README.md").read_text()

    first = json.loads((finished / "exports" / "version.json").read_text())
    assert set(first["sha256"]) >= {"dataset_info.json", "rubric_data/train.parquet", "refine_data/test.jsonl"}
    for path, digest in first["sha256"].items():
        assert hashlib.sha256((finished / "exports" / path).read_bytes()).hexdigest() == digest
    assert made() == (first, (finished / "exports" / "README.md").read_text())
    assert f"Version `{first['version']}`" in made()[1]
    shorter, card = made("--without", "reason", "--format", "messages")
    assert shorter["version"] != first["version"]
    assert "score, suggestion, refined_answer out" in card
    assert not (tmp_path / "again" / "rubric_data" / "train.verl.parquet").exists()
    chat = lines_of(tmp_path / "again" / "refine_data" / "train.jsonl")[0]
    assert list(json.loads(chat["messages"][-1]["content"])) == ["score", "suggestion", "refined_answer"]
    assert json.loads((finished / "exports" / "version.json").read_text()) == first
    assert json.loads((finished / "config.json").read_text())["export"]["without"] == []


def test_rows_that_are_too_long_are_listed_and_in_no_file(finished: Path) -> None:
    before = rows_of(finished / "exports", "refine_data")
    lengths = [
        sum(-(-len(message["content"].encode()) // BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE for message in chat)
        for split in ("train", "test")
        for chat in pl.read_parquet(finished / "exports" / "refine_data" / f"{split}.verl.parquet")["messages"]
    ]
    limit = sorted(lengths)[len(lengths) // 2]
    ended = criticgen("export", "--workspace", finished, "--max-tokens", str(limit), "--json")
    counts = json.loads(ended.stdout)["rows"]["refine_data"]
    listed = pl.read_parquet(finished / "exports" / "refine_data" / "too_long.parquet")
    expected = {row: length for row, length in zip(before["instance_id"], lengths, strict=True) if length > limit}
    assert dict(listed.select("instance_id", "tokens").iter_rows()) == expected
    assert counts["too_long"] == len(listed) > 0
    after = rows_of(finished / "exports", "refine_data")
    assert set(after["instance_id"]) == set(before["instance_id"]) - set(expected)
    assert reconciles(status(Workspace(finished)))
    assert f"{len(listed):,} of RefineData" in (finished / "exports" / "README.md").read_text()


def test_lengths_are_counted_by_a_tokenizer_from_a_folder(finished: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    made = criticgen("export", "--workspace", finished, "--tokenizer", tmp_path, "--max-tokens", "1")
    assert made.returncode == 0
    listed = pl.read_parquet(finished / "exports" / "rubric_data" / "too_long.parquet")
    chat = dict(listed.select("instance_id", "tokens").iter_rows())
    again = criticgen("export", "--workspace", finished, "--max-tokens", "100000")
    assert again.returncode == 0
    for row in lines_of(finished / "exports" / "rubric_data" / "train.jsonl"):
        expected = sum(len(message["content"].split()) + TOKENS_PER_MESSAGE for message in row["messages"])
        assert chat[row["id"]] == expected


def test_what_cannot_be_exported_is_said_and_the_old_export_stays(finished: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (finished / "exports").rglob("*.*")}
    for options, said in (
        (["--tokenizer", tmp_path / "none"], "cannot be loaded"),
        (["--rewrite-only", "--without", "reason"], "give either without or rewrite_only"),
        (["--out", "/proc/none"], "cannot be written"),
    ):
        ended = criticgen("export", "--workspace", finished, *options, env={"HF_HUB_OFFLINE": "1"})
        assert ended.returncode == 1
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert {path: path.read_bytes() for path in (finished / "exports").rglob("*.*")} == before


def test_a_push_replaces_what_the_hub_has_and_a_dry_run_sends_nothing(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    class Hub:
        def create_repo(self, name: str, **options: Any) -> None:
            asked.append((name, options))

        def upload_folder(self, **options: Any) -> SimpleNamespace:
            asked.append((options.pop("repo_id"), options))
            return SimpleNamespace(commit_url="https://example.org/commit/1")

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    dry = criticgen("export", "--workspace", finished, "--push", "me/critic", "--dry-run")
    assert dry.returncode == 0
    assert asked == []
    for path in (finished / "exports").rglob("*.*"):
        assert f"{path.stat().st_size:>14,}  {path.relative_to(finished / 'exports')}\n" in dry.stdout
    sent = criticgen("export", "--workspace", finished, "--push", "me/critic")
    assert sent.stdout.endswith("pushed: https://example.org/commit/1\n")
    (made, visibility), (name, options) = asked
    assert (made, name) == ("me/critic", "me/critic")
    assert visibility == {"repo_type": "dataset", "private": True, "exist_ok": True}
    assert options["delete_patterns"] == "*"
    assert options["folder_path"] == finished / "exports"


def test_a_hub_that_is_not_reached_is_one_line(finished: Path) -> None:
    code = "from flows.cli import main; main()"
    env = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_TOKEN": "hf_" + "x" * 34}
    arguments = ["export", "--workspace", str(finished), "--push", "me/critic"]
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("criticgen: me/critic: not pushed (")
    assert ended.stderr.count("\n") == 1
    assert env["HF_TOKEN"] not in ended.stdout + ended.stderr


LATEX = st.text(alphabet=st.sampled_from('\\frac{\u2028}\n\r\t"\u0085漢字🙂é$^_ 0aZ/'), max_size=40)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(("family", "dimension", *LEVEL_COLUMNS), LATEX)), max_size=3))
def test_any_rubric_makes_the_round_trip(items: list[dict[str, str]]) -> None:
    text = target_of("rubric_data", {"rubric": items}, Export())
    assert "\n" not in text
    assert parse_target("rubric_data", text) == {"rubric": items}


@given(st.integers(0, 5), LATEX, LATEX, LATEX)
def test_any_trajectory_makes_the_round_trip(score: int, reason: str, suggestion: str, refined: str) -> None:
    row = {"score": score, "reason": reason, "suggestion": suggestion, "refined_answer": refined}
    assert parse_target("refine_data", target_of("refine_data", row, Export())) == row

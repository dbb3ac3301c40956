"""The exports as their users load them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from storage.workspace import Workspace
from tasks.export import EXPORTS

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

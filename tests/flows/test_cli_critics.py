"""``criticgen evaluate``, ``rate`` and ``traces`` as they are typed."""

import json
from pathlib import Path

import polars as pl
from pipeline import criticgen

from storage.schemas import LEVEL_COLUMNS


def test_evaluate_prints_the_table_and_writes_the_report(tmp_path: Path) -> None:
    rows = [{"item_id": str(n), "score": n, "family": "objective", "reason": f"Point {n}."} for n in range(6)]
    pl.DataFrame(rows).write_parquet(tmp_path / "reference.parquet")
    pl.DataFrame(rows).with_columns(score=pl.lit(3)).write_ndjson(tmp_path / "critic.jsonl")
    files = ("--predictions", tmp_path / "critic.jsonl", "--reference", tmp_path / "reference.parquet")
    ended = criticgen("evaluate", *files, "--embedder", "none", "--out", tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    assert "| Pearson | 6 | none: every predicted score is 3: no correlation is defined |" in ended.stdout
    assert "Not measured: reason: no embedder." in ended.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "report.json", "report.md"]
    found = json.loads(criticgen("evaluate", *files, "--embedder", "none", "--json").stdout)
    assert found["scores"][0]["figures"]["exact_agreement"]["value"] == 1 / 6


def test_evaluate_says_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"item_id": 1, "score": 2}\n{"item_id": \n')
    (tmp_path / "r.jsonl").write_text('{"item_id": 1, "score": 2}\n')
    files = ("--predictions", tmp_path / "p.jsonl", "--reference", tmp_path / "r.jsonl")
    assert "p.jsonl:2: not JSON" in criticgen("evaluate", *files).stderr
    missing = criticgen("evaluate", "--predictions", tmp_path / "none.csv", "--reference", tmp_path / "r.jsonl")
    assert (missing.returncode, "none.csv: no such file" in missing.stderr) == (1, True)
    assert "expected LOW-HIGH" in criticgen("evaluate", *files, "--scale", "5").stderr
    assert "the low end comes first" in criticgen("evaluate", *files, "--scale", "5-1").stderr
    assert "expected SIDE.FIELD=NAME" in criticgen("evaluate", *files, "--column", "score").stderr


def test_rubrics_go_out_blind_and_come_back_as_figures(tmp_path: Path) -> None:
    item = {"family": "objective", "dimension": "Units", **dict.fromkeys(LEVEL_COLUMNS, "as said")}
    rows = [
        {
            "instance_id": str(n),
            "question": "q",
            "answer": "a",
            "rubric": [item],
            "source": "gsm8k" if n < 8 else "limo",
        }
        for n in range(10)
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "test.parquet")
    out = criticgen("rate", "export", "--rubrics", tmp_path / "test.parquet", "--out", tmp_path / "r", "--sample", "4")
    assert out.returncode == 0, out.stderr
    sheet = pl.read_csv(tmp_path / "r/sheets/rater_1.csv")
    assert len(sheet) == 4
    ids = [int(pair["id"]) for pair in json.loads((tmp_path / "r/key.json").read_text())["pairs"]]
    assert sum(name >= 8 for name in ids) == 2
    filled = sheet.with_columns(
        pl.col(f"{name}_{rubric}").fill_null(4) for name in ("relevance", "coverage") for rubric in "ab"
    )
    for rater in ("rater_1", "rater_2"):
        filled.write_csv(tmp_path / f"r/sheets/{rater}.csv")
    back = criticgen("rate", "import", tmp_path / "r")
    assert "4 pairs, 0 to adjudicate: 0.0%" in back.stdout
    assert "static: relevance 4.000, coverage 4.000" in back.stdout
    assert "both gave 4 to every item" in back.stdout
    assert (
        "may be with the raters"
        in criticgen("rate", "export", "--rubrics", tmp_path / "test.parquet", "--out", tmp_path / "r").stderr
    )


def test_traces_prints_the_figures_and_why_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"label": "wrong", "said": {"v": "Incorrect"}}\n{"label": "wrong", "said": {"v": "unsure"}}\n')
    ended = criticgen("traces", path, "--verdict", "said.v")
    assert ended.returncode == 0, ended.stderr
    assert "specificity: 1.0000\n" in ended.stdout
    assert "unread: 1\n" in ended.stdout
    assert "balanced_accuracy: none (no correct trace)\n" in ended.stdout
    assert json.loads(criticgen("traces", path, "--verdict", "said.v", "--json").stdout)["tn"] == 1
    assert "no column 'verdict'" in criticgen("traces", path).stderr
    assert "name a results file" in criticgen("traces").stderr

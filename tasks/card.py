"""The data set's card: README.md of the export, with the hub's YAML header. Every figure is read from the tables."""

from typing import Any

import polars as pl
import yaml

from storage.schemas import LEVELS, Table
from storage.workspace import Workspace
from tasks.config import Config
from tasks.coverage import quality
from tasks.export import EXPORTS
from tasks.export_files import BINS
from tasks.instances import DATA_SETS, retained_instances
from tasks.status import counts as counted, funnel, spent
from tasks.targets import target_fields

NAMES = {"rubric_data": "RubricData", "refine_data": "RefineData"}
Counts = dict[str, dict[str, int]]


def card(
    workspace: Workspace, config: Config, counts: Counts, histograms: dict[str, dict[int, int]], version: str
) -> str:
    """The whole card.

    ``counts`` are the exported rows by data set and split, ``histograms`` rows by data set and upper end of
    ``BINS`` (0: over all).
    """
    simulated = "**SIMULATED: made by the vendor simulator, not by real models. Not for training.**\n\n"
    parts = [
        (simulated if workspace.info["simulated"] else "") + f"# {config.name}: RubricData and RefineData",
        _what(config),
        f"Version `{version}`: the hash of the files, which `version.json` lists.",
        _sizes(counts),
        _lengths(config, counts, histograms),
        _funnel(workspace),
        _scores(workspace),
        _agreement(workspace),
        _diversity(workspace),
        _certificate(workspace, config),
        _licences(workspace),
        _models(workspace, config),
        *(_columns(EXPORTS[name]) for name in DATA_SETS),
    ]
    return f"---\n{_header(workspace, config)}---\n\n" + "\n\n".join(parts) + "\n"


def _header(workspace: Workspace, config: Config) -> str:
    configs = [
        {
            "config_name": name,
            "data_files": [{"split": split, "path": f"{name}/{split}.parquet"} for split in ("train", "test")],
        }
        for name in DATA_SETS
    ]
    tags = ["critic", "rubric"] + (["simulated"] if workspace.info["simulated"] else [])
    header = {"pretty_name": config.name, "tags": tags, "configs": configs}
    text: str = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return text


def _what(config: Config) -> str:
    fields = ", ".join(target_fields(config.export))
    return (
        "Two supervised data sets for LLM critics, after the CriticGen paper. RubricData: a question and an answer in, "
        "the rubric for that answer out. RefineData: a question, an answer and one rubric item in; "
        f"{fields} out, in this order.\n\n"
        "`{train,test}.parquet` holds the columns below. The same rows as chats, whose last message is the target as "
        "JSON: `*.jsonl` (`messages`: TRL, Axolotl's `chat_template`, and LLaMA-Factory by `dataset_info.json`), "
        "`*.prompt_completion.jsonl` (`prompt` and `completion`: TRL, which then learns the completion alone), "
        "`*.verl.parquet` (`messages`: verl)."
    )


def _sizes(counts: Counts) -> str:
    rows = [[NAMES[name], f"{counts[name]['train']:,}", f"{counts[name]['test']:,}"] for name in DATA_SETS]
    return "## Size\n\n" + table(["data set", "train", "test"], rows)


def _lengths(config: Config, counts: Counts, histograms: dict[str, dict[int, int]]) -> str:
    options = config.export
    left_out = {name: counts[name].get("too_long", 0) for name in DATA_SETS}
    by = f"the tokenizer `{options.tokenizer}`" if options.tokenizer else "an estimate of 4 bytes a token"
    rows = []
    for low, high in zip((0, *BINS), (*BINS, 0), strict=True):
        numbers = [histograms[name].get(high, 0) for name in DATA_SETS]
        if any(numbers):
            ends = f"{low + 1:,} to {high:,}" if high else f"over {low:,}"
            rows.append([ends, *(f"{number:,}" for number in numbers)])
    return (
        f"## Lengths\n\nTokens of a row's chat, prompt and target, by {by}. Rows over {options.max_tokens:,} are left "
        f"out and listed in `too_long.parquet`: {left_out['rubric_data']:,} of RubricData, "
        f"{left_out['refine_data']:,} of RefineData.\n\n"
        + table(["tokens", *(NAMES[name] for name in DATA_SETS)], rows)
    )


def _funnel(workspace: Workspace) -> str:
    rows = [
        [step.name, f"{step.entered:,}", f"{step.left:,}", ", ".join(f"{k} {v:,}" for k, v in step.dropped.items())]
        for step in funnel(counted(workspace))
    ]
    return "## Funnel\n\n" + table(["step", "in", "out", "dropped, by reason"], rows)


def _scores(workspace: Workspace) -> str:
    origins = workspace.read_table("answers", columns=["answer_id", "origin"])
    scores = workspace.read_table("trajectories", columns=["answer_id", "role", "score"]).filter(role="teacher")
    answers = quality(scores).join(origins, on="answer_id")
    rows = []
    for level in LEVELS:
        at_level = answers.filter(quality=level)
        rows.append([str(level), f"{at_level.filter(origin='pool').height:,}", f"{at_level.height:,}"])
    coverage = workspace.read_table("coverage")
    asked = coverage.filter(pl.col("answer_id").is_not_null())
    hits = int(asked["hit"].fill_null(False).sum())
    last = coverage.filter(pl.col("round") == pl.col("round").max())
    short = last.filter(~pl.col("covered_after")).height
    completed = (
        ""
        if coverage.is_empty()
        else (
            f"\n\nSynthesized answers that scored their target: {hits:,} of {len(asked):,}. "
            f"Levels of a question still without an answer: {short:,}."
        )
    )
    return (
        "## Answers by quality\n\nAn answer's quality is the mean of the teacher's scores of its items, rounded half "
        "up.\n\n" + table(["quality", "pool", "with coverage completion"], rows) + completed
    )


def _agreement(workspace: Workspace) -> str:
    from tasks.agreement import agreement_report

    consensus = workspace.read_table("consensus")
    items = workspace.read_table("rubrics", columns=["item_id", "answer_id", "question_id", "family"])
    generators = workspace.read_table("answers", columns=["answer_id", "model"]).rename({"model": "generator"})
    sources = workspace.read_table("questions", columns=["question_id", "source"])
    groups = items.join(generators, on="answer_id").join(sources, on="question_id")
    report = agreement_report(consensus, groups.select("item_id", "family", "source", "generator"))
    shown = ["items", "kept", "alpha", "first", "second", "equal", "kappa"]
    rows = [
        [row["grouping"] if row["group"] is None else f"{row['grouping']} {row['group']}"]
        + [_cell(row[name]) for name in shown]
        for row in report.to_dicts()
    ]
    matrices = [
        f"Scores of {row['first']} (down) against {row['second']} (across):\n\n"
        + table(["", *map(str, LEVELS)], [[str(level), *map(str, row["matrix"][level])] for level in LEVELS])
        for row in report.filter(grouping="overall").to_dicts()
    ]
    return "\n\n".join(
        [
            "## Agreement",
            "Per pair of raters the share of equal scores and the quadratic weighted kappa; per group Krippendorff's "
            "ordinal alpha over all raters. Empty: not defined.",
            table(["group", *shown], rows),
            *matrices,
        ]
    )


def _diversity(workspace: Workspace) -> str:
    figures = workspace.read_table("diversity")
    wide = figures.pivot("n", index=["data_set", "field", "step", "counted"], values="distinct")
    rows = [[_cell(value) for value in row] for row in wide.iter_rows()]
    names = [f"Distinct-{name}" if name.isdigit() else name for name in wide.columns]
    return (
        "## Lexical diversity\n\nDistinct-n is the share of different n-grams. A question or an answer stands in "
        "many rows: `distinct` counts each once, `rows` once per row.\n\n" + table(names, rows)
    )


def _certificate(workspace: Workspace, config: Config) -> str:
    from tasks.split import certificate

    found = certificate(
        retained_instances(workspace),
        workspace.read_table("splits"),
        rubric_ratio=config.split.rubric_ratio,
        refine_ratio=config.split.refine_ratio,
        threshold=config.near_duplicates.threshold,
        n=config.near_duplicates.n,
        mode=config.text_mode,
    )
    return "## Split certificate\n\n" + "\n".join(f"- {line}" for line in found["lines"])


def _licences(workspace: Workspace) -> str:
    questions = workspace.read_table("questions", columns=["source", "licence"])
    rows = [
        [source, licence or "not known", f"{number:,}"]
        for source, licence, number in questions.group_by("source", "licence")
        .len()
        .sort("source", "licence")
        .iter_rows()
    ]
    return "## Sources and licences\n\n" + table(["source", "licence", "questions"], rows)


def _models(workspace: Workspace, config: Config) -> str:
    parts = [("generator", model) for model in config.answers.generators]
    parts += [("teacher", config.teacher), *(("judge", model) for model in config.judges)]
    rows = [[part, f"`{model.name}`", str(model.params or "")] for part, model in parts]
    total = spent(workspace)
    cost = "not known" if total["cost_usd"] is None else f"{total['cost_usd']:.2f} US dollars"
    return (
        "## Models\n\n"
        + table(["part", "model", "parameters"], rows)
        + f"\n\n{total['calls']:,} calls, {total['input_tokens']:,} tokens in, "
        f"{total['output_tokens']:,} out; cost {cost}."
    )


def _columns(columns: Table) -> str:
    rows = [[f"`{name}`", str(type_), meaning] for name, (type_, meaning) in columns.columns.items()]
    return f"## Columns of {NAMES[columns.name]}\n\nA row is {columns.row}.\n\n" + table(
        ["column", "type", "meaning"], rows
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)

"""The commands about critics: ``evaluate``, ``rate`` and ``traces``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from storage.errors import UserError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

rate = typer.Typer(help="Rubrics rated by people, blind: sheets out, figures in.", no_args_is_help=True)


class SheetKind(StrEnum):
    """What spreadsheet programs open."""

    csv = "csv"
    xlsx = "xlsx"


def evaluate(
    predictions: Annotated[Path, typer.Option(help="What the critic said: JSONL, JSON, CSV or Parquet.")],
    reference: Annotated[Path, typer.Option(help="What it is held against, as exports/refine_data/test.parquet.")],
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, report.md and report.json.")] = None,
    key: Annotated[str | None, typer.Option(help="Column to join by; item_id or instance_id when not given.")] = None,
    in_order: Annotated[bool, typer.Option("--in-order", help="Join the rows by their order.")] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="SIDE.FIELD=NAME", help="A column of another name: predictions.score=rating."),
    ] = None,
    scale: Annotated[str | None, typer.Option(metavar="LOW-HIGH", help="0-5, or 1-5 for Feedback Bench.")] = None,
    embedder: Annotated[
        str | None,
        typer.Option(help="minilm; sentence-transformers:NAME; openai#MODEL; http://HOST/v1#MODEL; or none."),
    ] = None,
    key_env: Annotated[str, typer.Option(help="Variable that holds the embedding server's key.")] = "OPENAI_API_KEY",
    json: Json = False,
) -> None:
    """Hold a critic's scores, reasons, suggestions and refined answers against references. No model is asked."""
    from tasks.evaluation.compare import evaluate_files
    from tasks.evaluation.report import markdown, write_report

    found = evaluate_files(
        predictions,
        reference,
        columns=dict(_assignment(text) for text in column or []),
        key=key,
        in_order=in_order,
        scale=_scale(scale),
        embedder=embedder,
        key_env=key_env,
    )
    written = write_report(found, out) if out is not None else []
    if json:
        print_json(found)
        return
    print(markdown(found))
    for path in written:
        print(path)


@rate.command("export")
def export_rubrics(
    rubrics: Annotated[Path, typer.Option(help="Rubrics to rate, as exports/rubric_data/test.parquet.")],
    out: Annotated[Path, typer.Option(help="Folder for the raters' sheets and the key.")],
    against: Annotated[str, typer.Option(help="Another such file, or `static`: the nine fixed dimensions.")] = "static",
    sample: Annotated[int | None, typer.Option(min=1, help="Answers in all, spread over the sources.")] = None,
    kind: Annotated[SheetKind, typer.Option(help="Of the sheets.")] = SheetKind.csv,
    seed: Annotated[int, typer.Option(help="Of the sample and of which rubric is A.")] = 0,
) -> None:
    """Write blinded A/B sheets for two raters."""
    from tasks.evaluation.ratings import export_sheets
    from tasks.evaluation.rubric_pairs import read_rubric_pairs

    pairs, systems = read_rubric_pairs(rubrics, against, sample=sample, seed=seed)
    for path in export_sheets(pairs, systems, out, kind=kind.value, seed=seed):
        print(path)
    print(f"{len(pairs)} pairs of rubrics. Keep key.json from the raters: it says which rubric is whose.")


@rate.command("import")
def import_ratings(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of `criticgen rate export`.")],
    json: Json = False,
) -> None:
    """Read the filled sheets: means after adjudication, adjudication rate, kappa."""
    from tasks.evaluation.ratings import import_sheets

    found = import_sheets(folder)
    if json:
        print_json(found)
        return
    print(f"{found['pairs']} pairs, {found['adjudicated']} to adjudicate: {found['adjudication_rate']:.1%}")
    for attribute, kappas in found["kappa"].items():
        figures = (f"{name} {kappa['note'] or format(kappa['value'], '.3f')}" for name, kappa in kappas.items())
        print(f"kappa of {attribute}: {', '.join(figures)}")
    if found["means"] is None:
        print(f"{len(found['to_adjudicate'])} pairs wait for the adjudicator: fill in {found['adjudicator_sheet']}")
    else:
        for system, means in found["means"].items():
            print(f"{system}: " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()))


def traces(
    results: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS", help="Traces with a label and a verdict: JSONL, JSON, CSV, Parquet."),
    ] = None,
    label: Annotated[str, typer.Option(help="Column that says whether the trace is correct.")] = "label",
    verdict: Annotated[str, typer.Option(help="Column of the verdict; OBJECT.FIELD inside an object.")] = "verdict",
    patches: Annotated[Path | None, typer.Option(help="Rows with patch and passed, for patch completion.")] = None,
    json: Json = False,
) -> None:
    """Verdicts on reasoning traces against labels: specificity, balanced accuracy, F0.5; patch completion."""
    from tasks.traces import results as trace_results

    if results is None and patches is None:
        raise UserError("traces: name a results file, or --patches FILE")
    found = trace_results.classified(results, label, verdict) if results is not None else {}
    if patches is not None:
        found |= trace_results.patches(patches)
    if json:
        print_json(found)
        return
    for name in ("traces", "tp", "fp", "tn", "fn", "unread", "patches", "empty"):
        if name in found:
            print(f"{name}: {found[name]}")
    figures = found.get("figures", {}) | {name: found[name] for name in ("patch_completion",) if name in found}
    for name, figure in figures.items():
        print(f"{name}: " + (f"none ({figure['note']})" if figure["value"] is None else f"{figure['value']:.4f}"))


def print_json(value: Any) -> None:
    """A value on standard output."""
    import sys

    import orjson

    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def register(app: typer.Typer) -> None:
    """Add the commands to ``criticgen``."""
    app.command()(evaluate)
    app.command()(traces)
    app.add_typer(rate, name="rate")


def _assignment(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not (mark and name and value):
        raise UserError(f"--column {text}: expected SIDE.FIELD=NAME, as predictions.score=rating")
    return name, value


def _scale(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    try:
        scale = float(low), float(high)
    except ValueError:
        raise UserError(f"--scale {text}: expected LOW-HIGH, as 0-5") from None
    if scale[0] >= scale[1]:
        raise UserError(f"--scale {text}: the low end comes first")
    return scale

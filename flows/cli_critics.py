"""The commands about critics: ``evaluate``, ``rate`` and ``traces``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_evaluate import evaluate
from storage.errors import UserError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

rate = typer.Typer(help="Rubrics rated by people, blind: sheets out, figures in.", no_args_is_help=True)


class SheetKind(StrEnum):
    """What spreadsheet programs open."""

    csv = "csv"
    xlsx = "xlsx"


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

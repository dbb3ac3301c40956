"""``criticgen evaluate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storage.errors import UserError

if TYPE_CHECKING:
    from flows.evaluation import Evaluation


def evaluate(
    reference: Annotated[Path, typer.Option(help="What it is held against, as exports/refine_data/test.parquet.")],
    predictions: Annotated[Path | None, typer.Option(help="What the critic said: JSONL, JSON, CSV or Parquet.")] = None,
    model: Annotated[str | None, typer.Option(help="In place of a file: the critic to ask, as vendor/model.")] = None,
    verifier: Annotated[
        str | None, typer.Option(help="A model that scores answers and refined answers, as vendor/model.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="CONFIG.yaml", help="Servers, limits, prices and budget; any build's config.")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder of the calls; workspaces/evaluate-VENDOR-MODEL when not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, report.md and report.json.")] = None,
    prompts: Annotated[str, typer.Option(help="`critic`: a trained one's; `teacher`: any other model's.")] = "critic",
    without: Annotated[
        list[str] | None, typer.Option(help="A field the critic was trained without: reason, suggestion.")
    ] = None,
    rewrite_only: Annotated[
        bool, typer.Option("--rewrite-only", help="The critic was trained to write the refined answer alone.")
    ] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Of rubrics: ask for two of each question alone, too.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many of the first references.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked and what it costs.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Ask failed calls again.")] = False,
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
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hold a critic's scores, reasons, suggestions, refined answers or rubrics against references.

    What it said comes from a file, and then no model is asked, or from asking it: what was answered is not asked again.
    """
    from flows import evaluation
    from flows.cli_critics import print_json
    from storage.workspace import Workspace
    from tasks.evaluation.report import markdown, write_report

    asked = _evaluation(
        reference=reference,
        predictions=predictions,
        model=model,
        verifier=verifier,
        prompts=prompts,
        without=without or [],
        rewrite_only=rewrite_only,
        control=control,
        limit=limit,
        columns=dict(_assignment(text) for text in column or []),
        key=key,
        in_order=in_order,
        scale=_scale(scale),
        embedder=embedder,
        key_env=key_env,
    )
    if not asked.asks:
        found = evaluation.evaluate_files(asked)
    else:
        prepared = evaluation.prepare(asked, config, set_)
        root = workspace or evaluation.default_workspace(asked)
        if dry_run:
            lines = evaluation.quote(prepared, root)
            if json:
                print_json(lines)
            else:
                from flows.summary import console, show_job_quote

                show_job_quote(lines, console())
            return
        found = evaluation.evaluate(asked, prepared, Workspace(root), retry=retry)
    written = write_report(found, out) if out is not None else []
    if json:
        print_json(found)
        return
    print(markdown(found))
    for path in written:
        print(path)


def _evaluation(**values: Any) -> "Evaluation":
    from pydantic import ValidationError

    from flows.evaluation import Evaluation

    try:
        return Evaluation(**values)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in error.errors())
        raise UserError(f"evaluate: {said}") from None


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

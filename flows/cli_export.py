"""``criticgen export``."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    workspace: Annotated[Path | None, typer.Option(help="Folder of the data set; the last one made.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write here, and leave the workspace's own export and settings as they are.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="reason|suggestion", help="Ablation: RefineData's target without it."),
    ] = None,
    rewrite_only: Annotated[bool, typer.Option("--rewrite-only", help="Ablation: the refined answer alone.")] = False,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", metavar="messages|prompt-completion|verl", help="A shape for trainers, may be repeated."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Count lengths with it: a folder with tokenizer.json, or a model on the hub.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longer rows are listed and left out.")] = None,
    push: Annotated[str | None, typer.Option(metavar="OWNER/NAME", help="Send it to the Hugging Face hub.")] = None,
    public: Annotated[bool, typer.Option("--public", help="A new data set on the hub is public, not private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --push: list the files and send nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write RubricData and RefineData again, with these settings; and push them. No model is asked."""
    from flows.cli import _print_json, _workspace
    from flows.export import export_again
    from tasks.hub import files_of, push as push_to_hub

    place = _workspace(workspace)
    given: dict[str, object] = {"formats": formats, "tokenizer": tokenizer, "max_tokens": max_tokens}
    changes = {name: value for name, value in given.items() if value is not None}
    if without or rewrite_only:
        changes |= {"without": without or [], "rewrite_only": rewrite_only}
    folder = out or place.root / "exports"
    counts = export_again(place, out, changes)
    files = files_of(folder)
    sent = push_to_hub(folder, push, public=public) if push and not dry_run else None
    if json:
        _print_json({"folder": str(folder), "rows": counts, "files": files, "pushed": sent})
        return
    for name, rows in counts.items():
        print(f"{name}: " + ", ".join(f"{number:,} {split}" for split, number in rows.items()))
    for path, size in files.items() if dry_run else ():
        print(f"{size:>14,}  {path}")
    print(f"{sum(files.values()):,} bytes in {folder}" + (f", pushed: {sent}" if sent else ""))

"""The lexical commands of ``criticgen``: over any file of texts, and over a workspace's near-duplicates."""

from pathlib import Path
from typing import Annotated, Literal

import typer

lexical = typer.Typer()

File = Annotated[Path, typer.Argument(metavar="FILE", help="JSONL, JSON, CSV or Parquet.")]
Text = Annotated[list[str], typer.Option("--text", metavar="FIELD", help="A field of text; several are joined.")]
Mode = Annotated[Literal["word", "ws"], typer.Option(help="Tokens: words of any script, or split at whitespace.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@lexical.command("near-duplicates")
def near_duplicates(
    file: File,
    text: Text,
    out: Annotated[Path, typer.Option(help="The decisions, a row for each: .parquet, .jsonl or .csv.")],
    id_: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The id; without it the row number.")] = None,
    threshold: Annotated[float, typer.Option(help="A Jaccard greater than this is a near-duplicate.")] = 0.75,
    n: Annotated[int, typer.Option(min=1, help="Tokens in an n-gram.")] = 4,
    order: Annotated[
        Literal["id", "input"], typer.Option(help="Whom a repeat comes after: by id, or as in FILE.")
    ] = "id",
    mode: Mode = "word",
    json: Json = False,
) -> None:
    """Which rows of a file repeat an earlier one: exact, with the row repeated and the Jaccard."""
    from flows.cli import _print_json
    from tasks.text_file_filter import filter_file

    found = filter_file(file, text, out, id_field=id_, threshold=threshold, n=n, order=order, mode=mode)
    if json:
        _print_json(found)
    else:
        print(f"{found['rows']:,} rows: {found['kept']:,} kept, {found['dropped']:,} dropped; decisions in {out}")


@lexical.command()
def diversity(file: File, text: Text, mode: Mode = "word", json: Json = False) -> None:
    """Distinct-2, -3 and -4 of each field of a file: unique n-grams over all n-grams."""
    from flows.cli import _print_json
    from tasks.text_file_filter import file_diversity

    found = file_diversity(file, text, mode=mode)
    if json:
        _print_json(found)
        return
    for row in found:
        share = "none" if row["distinct"] is None else f"{row['distinct']:.4f}"
        counts = f"{row['unique_ngrams']:,} of {row['ngrams']:,} n-grams in {row['texts']:,} texts"
        print(f"{row['field']}  Distinct-{row['n']} {share}  {counts}")


@lexical.command()
def duplicates(
    show: Annotated[
        str | None, typer.Option(metavar="ID", help="Show this dropped row beside what it repeats.")
    ] = None,
    workspace: Annotated[Path | None, typer.Option(help="The workspace's folder; the last one if not given.")] = None,
    json: Json = False,
) -> None:
    """The rows dropped as near-duplicates; with --show both texts, and what they share between ⟦ and ⟧."""
    from flows.cli import _CONTROL, _print_json, _workspace
    from flows.plan import config_of
    from tasks.duplicates import compared, duplicates as list_duplicates

    place = _workspace(workspace)
    if show is None:
        rows = list_duplicates(place)
        if json:
            _print_json(rows)
            return
        for row in rows:
            print(f"{row['data_set']}  {row['instance_id']}  repeats {row['twin_id']}  {_likeness(row)}")
        print(f"{len(rows):,} dropped")
        return
    config = config_of(place)
    found = compared(place, show, n=config.near_duplicates.n, mode=config.text_mode)
    if json:
        _print_json(found)
        return
    print(f"{found['data_set']}: {found['instance_id']} repeats {found['twin_id']}: {_likeness(found)}")
    for name, key in (("dropped", "text"), ("kept", "twin_text")):
        print(f"\n{name}:\n{_CONTROL.sub(chr(0xFFFD), found[key])}")


def _likeness(row: dict[str, object]) -> str:
    if row["shared"] is None:
        return "the same normalized text"
    return f"{row['shared']:,} of {row['union']:,} n-grams, Jaccard {row['jaccard']:.4f}"

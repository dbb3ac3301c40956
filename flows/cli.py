"""``criticgen``: each command a thin shell over a function of the same work. Heavy imports wait for their command."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows import cli_critics, cli_export
from flows.cli_lexical import lexical
from storage.errors import UserError

if TYPE_CHECKING:
    from storage.workspace import Workspace

# What a terminal would obey, in the text of a model.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

app = typer.Typer(
    help="Questions in, training data for LLM critics out: RubricData and RefineData.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(lexical)

ConfigPath = Annotated[Path | None, typer.Argument(metavar="CONFIG.yaml", help="Without one: the demo, simulated.")]
WorkspacePath = Annotated[
    Path | None, typer.Option("--workspace", help="The workspace's folder; the last one in ./workspaces if not given.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Questions in all, spread over the sources.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the config.")]
StageOption = Annotated[str | None, typer.Option("--stage", help="Of this stage only, such as judges.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="Of this model only, as vendor/model.")]
ClassOption = Annotated[str | None, typer.Option("--class", help="Of this class only, such as malformed.")]
ShardOption = Annotated[str | None, typer.Option("--shard", help="Of this shard only, such as gsm8k-0003.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Submit and collect vendor batches, wait for none.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad-rows", help="Go on without source rows that cannot be used.")]


@app.command()
def run(
    config: ConfigPath = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder of the data set; workspaces/NAME when not given.")
    ] = None,
    limit: Limit = None,
    set_: Set = None,
    skip_bad_rows: SkipBad = False,
    no_wait: NoWait = False,
) -> None:
    """Build both data sets. The same command again goes on where it stopped, and asks nothing twice."""
    from flows.run import run as run_config

    with _interruptible():
        run_config(_config_path(config), workspace, limit, set_ or [], skip_bad_rows, not no_wait)


@app.command()
def quote(
    config: ConfigPath = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder of the data set; workspaces/NAME when not given.")
    ] = None,
    pilot: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Build N questions first, to measure; a run goes on from them."),
    ] = None,
    limit: Limit = None,
    set_: Set = None,
    skip_bad_rows: SkipBad = False,
    json: Json = False,
) -> None:
    """What a run would still cost and how long it would take: by stage and model, online and in vendor batches."""
    from flows.quote import quote as quote_of
    from tasks.config import load_config

    settings = load_config(_config_path(config), set_ or [], limit)
    place = workspace or Path("workspaces") / settings.name
    with _interruptible():
        found = quote_of(settings, place, pilot=pilot, skip_bad_rows=skip_bad_rows)
    if json:
        from dataclasses import asdict

        _print_json(asdict(found))
    else:
        from flows.summary import console, show_quote

        show_quote(found, console())


@app.command()
def failures(
    workspace: WorkspacePath = None,
    stage: StageOption = None,
    model: ModelOption = None,
    class_: ClassOption = None,
    json: Json = False,
) -> None:
    """What failed: by stage, model and class, with examples and the first line of their text."""
    from tasks.failures import failures as list_failures

    found = list_failures(_workspace(workspace), stage, model, class_)
    if json:
        _print_json(found)
    else:
        from flows.summary import console, show_failures

        show_failures(found, console())


@app.command()
def retry(
    workspace: WorkspacePath = None,
    stage: StageOption = None,
    model: ModelOption = None,
    class_: ClassOption = None,
    shard: ShardOption = None,
    set_: Set = None,
    no_wait: NoWait = False,
) -> None:
    """Ask again what has failed, and go on with the build. What is ok is never asked again."""
    from flows.run import retry as retry_failed
    from tasks.batches import Retry

    with _interruptible():
        retry_failed(_workspace(workspace), Retry(stage, model, class_, shard), set_ or [], not no_wait)


@app.command()
def batches(
    workspace: WorkspacePath = None,
    cancel: Annotated[str | None, typer.Option(metavar="ID", help="End this vendor batch, or `all` that run.")] = None,
    json: Json = False,
) -> None:
    """The vendor batches: submitted, running, collected; what came of their calls."""
    from flows import vendor_batches
    from flows.plan import config_of

    place = _workspace(workspace)
    if cancel is not None:
        for line in vendor_batches.cancel(config_of(place), place, None if cancel == "all" else cancel):
            print(line)
    found = vendor_batches.list_batches(place)
    if json:
        _print_json(found)
    else:
        from flows.summary import console, show_batches

        show_batches(found, console())


@app.command()
def check(
    config: ConfigPath = None,
    ping: Annotated[bool, typer.Option("--ping", help="Make one cheap call to each model.")] = False,
    limit: Limit = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Validate a config: its keys, its sources, the environment's API keys."""
    from flows.check import check as check_config

    found = check_config(_config_path(config), set_ or [], limit, ping=ping)
    if json:
        _print_json(found)
    else:
        for line in found["findings"]:
            print(f"{line['level']}: {line['message']}")
        print(f"{found['config']}: {'good' if found['good'] else 'not usable as it is'}")
    if not found["good"]:
        raise typer.Exit(1)


@app.command()
def status(workspace: WorkspacePath = None, json: Json = False) -> None:
    """Per stage: wanted, done, failed by class, dropped by reason, tokens, cost; and whether the sums agree."""
    from tasks.status import reconciles, status as status_of

    found = status_of(_workspace(workspace))
    if json:
        _print_json(found)
    else:
        from flows.summary import console, show_status

        show_status(found, console())
    if not reconciles(found):
        raise typer.Exit(1)


@app.command()
def rebuild(workspace: WorkspacePath = None, json: Json = False) -> None:
    """Make every table anew from the ledger. No model is asked."""
    from flows.rebuild import rebuild as rebuild_tables

    place = _workspace(workspace)
    rebuild_tables(place)
    status(place.root, json)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def simulate(context: typer.Context) -> None:
    """Serve the vendor simulator on 127.0.0.1 until Ctrl-C (`criticgen simulate --help`: its knobs)."""
    _become("deployments.simulator", context.args)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def serve(context: typer.Context) -> None:
    """Start Prefect's server, its deployments, a worker and the dashboard here (`criticgen serve --help`)."""
    _become("deployments.serve", context.args)


@app.command()
def dashboard(
    workspace: WorkspacePath = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8501,
) -> None:
    """Look at a workspace in the browser, until Ctrl-C."""
    import os

    place = _workspace(workspace).root
    arguments = ["--workspace", str(place), "--host", host, "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "deployments.dashboard", *arguments])


@app.command()
def compact(workspace: WorkspacePath = None, json: Json = False) -> None:
    """Join small files for reading: the dashboard and queries over a large workspace get quick. Nothing is deleted."""
    from storage.compact import compact as join_parts

    found = join_parts(_workspace(workspace))
    if json:
        _print_json(found)
        return
    for name, counts in found.items():
        if counts["parts"]:
            print(f"{name}: {counts['parts']:,} parts, also in {counts['files']} file{'s' * (counts['files'] > 1)}")


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over the tables.")],
    workspace: WorkspacePath = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Run a read-only DuckDB query over the tables."""
    from storage.queries import query as run_query

    frame = run_query(_workspace(workspace), sql)
    if json:
        _print_json(frame.to_dicts())
    elif csv:
        sys.stdout.write(frame.write_csv())
    else:
        import polars as pl

        with pl.Config(tbl_rows=100, tbl_cols=-1, fmt_str_lengths=60, tbl_hide_dataframe_shape=True):
            print(frame)


@app.command()
def tables(workspace: WorkspacePath = None, json: Json = False) -> None:
    """Each table: its rows, and its columns with their meanings."""
    from storage.queries import tables as list_tables

    found = list_tables(_workspace(workspace))
    if json:
        _print_json(found)
        return
    for table in found:
        print(f"{table['name']}: {table['rows']:,} rows, each {table['row']}")
        for column in table["columns"]:
            print(f"    {column['name']:<18} {column['type']:<24} {column['meaning']}")


@app.command()
def show(
    row_id: Annotated[str, typer.Argument(metavar="ROW_ID", help="A rubric item, answer, question or call.")],
    workspace: WorkspacePath = None,
    json: Json = False,
) -> None:
    """A row's passport: question, answer, item, votes, calls, and why it was kept or dropped."""
    from tasks.passport import passport

    found = passport(_workspace(workspace), row_id)
    if json:
        _print_json(found)
    else:
        _print_story(found)


app.command()(cli_export.export)
cli_critics.register(app)


def _become(module: str, arguments: list[str]) -> None:
    import os

    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print("criticgen: stopped; the same command goes on from here", file=sys.stderr)
        raise typer.Exit(130) from None


def _workspace(path: Path | None) -> "Workspace":
    from storage.workspace import Workspace

    if path is None:
        made = sorted(Path("workspaces").glob("*/config.json"), key=lambda file: file.stat().st_mtime)
        if not made:
            raise UserError("no workspace in ./workspaces: give one by --workspace DIR (`criticgen run` makes them)")
        path = made[-1].parent
    return Workspace(path, create=False)


def _config_path(path: Path | None) -> Path:
    from flows.plan import config_file

    return config_file(path or Path("demo.yaml"))


def _print_json(value: Any) -> None:
    import orjson

    sys.stdout.buffer.write(orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _plain(value: Any) -> Any:
    """What JSON has no word for: a decimal as a number, anything else as text."""
    from decimal import Decimal

    return float(value) if isinstance(value, Decimal) else str(value)


def _print_story(value: Any, depth: int = 0) -> None:
    pad = "  " * depth
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, entry in items:
        if isinstance(entry, dict | list) and entry:
            print(f"{pad}{name}:")
            _print_story(entry, depth + 1)
        else:
            text = "none" if entry is None else _CONTROL.sub("\ufffd", str(entry))
            first, *rest = text.split("\n")
            print(f"{pad}{name}: {first}", *(f"{pad}    {line}" for line in rest), sep="\n" if rest else "")


def main() -> None:
    """The command. An error that is the user's to mend is its message and exit status 1."""
    try:
        app()
    except UserError as error:
        print(f"criticgen: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # as by `| head`
        sys.stderr.close()
        sys.exit(1)
    except (OSError, UnicodeEncodeError) as error:
        print(f"criticgen: {error}", file=sys.stderr)
        sys.exit(1)

"""A workspace's status as people read it: the funnel, the stages, the sums, and what to type next."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tasks.instances import DATA_SETS
from tasks.quote import Amounts, Quote, Range
from tasks.status import funnel


def console(*, stderr: bool = False) -> Console:
    """The terminal; elsewhere wide enough that no table is broken."""
    found = Console(stderr=stderr)
    return found if found.is_terminal else Console(width=140, stderr=stderr)


def show_status(found: dict[str, Any], out: Console) -> None:
    """The whole status: stages, steps, sums."""
    out.print(title(found))
    out.print(stages_table(found))
    out.print(funnel_table(found))
    if found["unsealed"]:
        out.print(f"{found['unsealed']:,} attempts of unfinished batches are in the ledger and in no table yet.")
    broken = [check for check in found["checks"] if not check["holds"]]
    for check in broken:
        out.print(f"[red]does not agree[/red]  {check['check']}: {check['left']} and {check['right']}")
    if not broken:
        out.print(f"Sums: all {len(found['checks'])} agree.")


def title(found: dict[str, Any]) -> str:
    mark = "  [bold yellow]SIMULATED: made by the vendor simulator, not by real models[/bold yellow]"
    return f"[bold]{found['name']}[/bold]{mark if found['simulated'] else ''}"


def stages_table(found: dict[str, Any]) -> Table:
    table = Table("stage", *(_right(name) for name in ("calls", "ok", "failed", "not asked", "tokens", "USD")))
    table.add_column("failed by class")
    for stage in found["stages"]:
        table.add_row(
            stage["stage"],
            f"{stage['wanted']:,}",
            f"{stage['ok']:,}",
            f"{sum(stage['failed'].values()):,}",
            f"{stage['todo']:,}",
            f"{stage['input_tokens'] + stage['output_tokens']:,}",
            money(stage["cost_usd"]),
            reasons(stage["failed"]),
        )
    spent = found["spent"]
    tokens = f"{spent['input_tokens'] + spent['output_tokens']:,}"
    table.add_row("all ever asked", f"{spent['calls']:,}", "", "", "", tokens, money(spent["cost_usd"]), "")
    return table


def funnel_table(found: dict[str, Any]) -> Table:
    """Rows in, rows out and dropped by reason, from the source rows to train and test."""
    table = Table("step", _right("in"), _right("out"), "dropped")
    for step in funnel(found):
        table.add_row(step.name, f"{step.entered:,}", f"{step.left:,}", reasons(step.dropped))
    for name in DATA_SETS:
        if found["steps"]["export"]:
            rows = found["steps"]["export"][name]
            dropped = {reason: number for reason, number in rows.items() if reason not in ("train", "test")}
            split = f"{rows['train']:,} train, {rows['test']:,} test"
            table.add_row(name, f"{sum(rows.values()):,}", split, reasons(dropped))
    return table


def show_job_quote(lines: list[dict[str, Any]], out: Console) -> None:
    """What a job would ask and what that costs, from ``tasks.job_quote``."""
    table = Table("stage", "model", *(_right(name) for name in ("calls", "done", "left", "tokens in", "out", "USD")))
    for line in lines:
        left = f"at most {line['left']:,}" if line["at_most"] else f"{line['left']:,}"
        counts = (left, f"{line['input_tokens']:,}", f"{line['output_tokens']:,}")
        table.add_row(
            line["stage"], line["model"], f"{line['calls']:,}", f"{line['done']:,}", *counts, money(line["usd"])
        )
    out.print(table)
    if rough := sorted({line["stage"] for line in lines if line["left"] and not line["measured"]}):
        out.print(
            f"Rough: {', '.join(rough)}: tokens are from prompt lengths, 4 bytes a token; no thinking is in them."
        )
    if without := sorted({line["model"] for line in lines if line["left"] and line["usd"] is None}):
        out.print(f"The price of {', '.join(without)} is not known; give it under `prices:` in the config.")
    out.print("Nothing was asked.")


def show_outputs(root: Path, found: dict[str, Any], out: Console) -> None:
    """After a run: the funnel, where the data sets are, and what to type next."""
    out.print(title(found))
    out.print(funnel_table(found))
    if "checks" in found:
        agree = all(check["holds"] for check in found["checks"])
        out.print(f"Sums: {'all agree' if agree else 'DO NOT AGREE, see `criticgen status`'}.")
    out.print(f"Data sets: {root / 'exports'} (start with README.md there)")
    out.print("Next:")
    for command, what in (
        (f"criticgen status --workspace {root}", "stages, failures, cost"),
        (f"criticgen tables --workspace {root}", "the tables and their columns"),
        (f'criticgen query --workspace {root} "SELECT reason, count(*) FROM consensus GROUP BY ALL"', "your own SQL"),
    ):
        out.print(f"  {command}   [dim]# {what}[/dim]", soft_wrap=True, highlight=False)


def show_failures(found: list[dict[str, Any]], out: Console) -> None:
    """A table of the failed calls by stage, model and class, with their examples."""
    if not found:
        out.print("No call has failed.")
        return
    table = Table("stage", "model", "class", _right("calls"), _right("attempts"), "for example", show_lines=True)
    for group in found:
        examples = []
        for example in group["examples"]:
            lines = [f"{example['call_id']}: {example['error'] or ''}"]
            if example["first_line"]:
                lines.append(f"  {example['first_line']}")
            examples.append("\n".join(lines))
        table.add_row(
            group["stage"],
            group["model"],
            group["class"],
            f"{group['calls']:,}",
            f"{group['attempts']:,}",
            Text("\n".join(examples)),
        )
    out.print(table)
    out.print(
        "`criticgen retry` asks them again, by --stage, --model, --class, --shard; abandoned ones by their class only."
    )


def show_batches(found: list[dict[str, Any]], out: Console) -> None:
    """A table of the vendor batches."""
    if not found:
        out.print("No vendor batch has been submitted here.")
        return
    table = Table("vendor's id", "model", _right("calls"), "state", "vendor says", "created", "what came of them")
    for batch in found:
        came = reasons(batch["counts"] | ({"strays": batch["strays"]} if batch["strays"] else {}))
        table.add_row(
            batch["vendor_batch"] or batch["submission"],
            batch["model"],
            f"{batch['items']:,}",
            batch["state"],
            batch["status"],
            batch["created_at"],
            came,
        )
    out.print(table)


def show_quote(found: Quote, out: Console) -> None:
    """What is still to be paid, by stage and model, and all in all; then what the reader has to know of it."""
    out.print(title({"name": found.name, "simulated": found.simulated}))
    share = f"{found.questions:,} questions, {found.questions_done:,} of them done"
    out.print(f"{share}; figures from {found.source} ({found.questions_measured:,} questions).")
    table = Table("stage", "model", title="still to be paid: median (95th percentile)", title_justify="left")
    for name in ("calls", "tokens in", "tokens out", "USD online", "USD batch", "time"):
        table.add_column(name, justify="right")
    for line in found.lines:
        table.add_row(line.stage, line.model, *_amounts(line.left))
    table.add_section()
    table.add_row("all", "", *_amounts(found.left))
    out.print(table)
    out.print(f"Still to be paid, as the config has it: {_spread(found.usd, _usd)} USD.")
    spent = "not known" if found.spent_usd is None else f"{_usd(found.spent_usd)} USD"
    out.print(f"Spent in this workspace: {spent}, {found.spent_calls:,} calls.")
    for remark in found.remarks:
        out.print(remark)


def _amounts(left: Amounts) -> list[str]:
    counts = [_spread(value, _count) for value in (left.calls, left.input_tokens, left.output_tokens)]
    usd = [_spread(value, _usd) for value in (left.usd_online, left.usd_batch)]
    return [*counts, *usd, _spread(left.seconds, _duration)]


def _spread(value: Range | None, show: Callable[[float], str]) -> str:
    if value is None:
        return "not known"
    low, high = show(value.p50), show(value.p95)
    return low if low == high else f"{low} ({high})"


def _count(number: float) -> str:
    if number < 10_000:
        return f"{number:,.0f}"
    size, unit = next(pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if number >= pair[0])
    return f"{number / size:.3g}{unit}"


def _usd(number: float) -> str:
    return f"{number:,.0f}" if number >= 1_000 else f"{number:,.2f}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 6_000 else f"{seconds / 3_600:,.1f} h"


def reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in counts.items())


def money(usd: float | None) -> str:
    return "not known" if usd is None else f"{usd:,.4f}"


def _right(name: str) -> Any:
    from rich.table import Column

    return Column(name, justify="right")

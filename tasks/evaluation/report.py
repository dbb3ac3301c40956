"""An evaluation as people read it: one HTML page with its plots in it, one Markdown table, and the same as JSON."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tasks.evaluation.refinement import RATES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

SCORE_NAMES = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mean_absolute_error": "Mean absolute error",
    "exact_agreement": "Exact agreement",
    "quadratic_kappa": "Quadratic weighted kappa",
}
GOLD = ("accuracy_before", "accuracy_after", "wrong_to_right", "right_to_wrong")
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%}.note{color:#777}"""

Row = tuple[str, str, int, str]  # what, of which group, n, value


def write_report(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write report.html, report.md and report.json; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.json": orjson.dumps(found, option=orjson.OPT_INDENT_2),
        "report.md": markdown(found).encode(),
        "report.html": html(found).encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def markdown(found: Mapping[str, Any]) -> str:
    """The overall figures as one table, and what was not measured."""
    lines = [f"# {found['predictions']} against {found['reference']}", "", "| figure | n | value |", "|---|---|---|"]
    lines += [f"| {what} | {n:,} | {value} |" for what, group, n, value in _rows(found) if group == "overall"]
    lines += ["", *_remarks(found), ""]
    return "\n".join(lines)


def html(found: Mapping[str, Any]) -> str:
    """A page that needs no other file."""
    title = escape(f"{found['predictions']} against {found['reference']}")
    cells = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(group)}</td>"
        f"<td class=n>{n:,}</td><td class=n>{escape(value)}</td></tr>"
        for what, group, n, value in _rows(found)
    )
    plots = "".join(
        f'<h2>{escape(name)}</h2><img alt="{escape(name)}" src="data:image/png;base64,{_png(plot)}">'
        for name, plot in _plots(found)
    )
    remarks = "".join(f"<p class=note>{escape(line)}</p>" for line in _remarks(found))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{plots}<h2>All figures</h2><table><tr><th>figure</th><th>of</th><th>n</th><th>value</th></tr>"
        f"{cells}</table>{remarks}</html>\n"
    )


def _rows(found: Mapping[str, Any]) -> Iterator[Row]:
    for row in found.get("scores", []):
        for name, figure in row["figures"].items():
            yield SCORE_NAMES[name], _group(row), row["n"], _value(figure)
    if rubrics := found.get("rubrics"):
        yield from _rubric_rows(rubrics)
    for field, rows in found.get("units", {}).items():
        for row in rows:
            for name in ("precision", "recall", "f1"):
                value = "none" if row[name] is None else f"{row[name]:.4f}"
                yield f"{field} {name.replace('f1', 'F1')}", _group(row), row["n"], value
    for part, names in (("refinement", RATES), ("gold", GOLD)):
        for row in found.get(part, []):
            for name in names:
                yield name.replace("_", " "), _group(row), row["n"], _value(row[name], share=True)


def _rubric_rows(rubrics: Mapping[str, Any]) -> Iterator[Row]:
    valid = rubrics["valid"]
    yield "valid rubrics", "overall", rubrics["asked"], f"{valid / rubrics['asked']:.2%}"
    if valid:
        yield "items of a rubric", "overall", valid, f"{rubrics['items']:.2f}"
    for name, shown in (
        ("sensitivity", "answer sensitivity"),
        ("reference_sensitivity", "answer sensitivity of the reference"),
        ("control_sensitivity", "control: two rubrics of the question alone"),
    ):
        if figure := rubrics.get(name):
            value = f"none: {figure['note']}" if figure["mean"] is None else f"{figure['mean']:.4f}"
            yield shown, "overall", figure["questions"], value


def _remarks(found: Mapping[str, Any]) -> list[str]:
    remarks = ["SIMULATED: said by simulated models, not by real ones."] if found.get("simulated") else []
    if found.get("verifier"):
        remarks.append(f"Refinement by the scores of {found['verifier']}, blind to which answer is which.")
    if "scale" not in found:
        return [*remarks, f"References: {found['references']:,}."]
    remarks.append(f"Scale: {found['scale'][0]:g} to {found['scale'][1]:g}. References: {found['references']:,}.")
    if found.get("scores"):
        remarks.append(
            f"References without a prediction: {found['scores'][0]['without_prediction']:,}; predicted scores outside "
            f"the scale, taken as none: {found['scores_out_of_scale']:,}. Brackets: 95 % intervals."
        )
    if found.get("embedder"):
        remarks.append(f"Similarity of units: cosine under the embedder {found['embedder']}; comparable only with it.")
    remarks += [f"Not measured: {name}: {why}." for name, why in found["not_measured"].items()]
    return remarks


def _group(row: Mapping[str, Any]) -> str:
    return "overall" if row["grouping"] == "overall" else f"{row['grouping']} {row['group']}"


def _value(figure: Mapping[str, Any], *, share: bool = False) -> str:
    if figure["value"] is None:
        return f"none: {figure['note']}"
    values = [figure[name] for name in ("value", "low", "high") if figure[name] is not None]
    value, *interval = [f"{value:.2%}" if share else f"{value:.4f}" for value in values]
    return f"{value} [{interval[0]}, {interval[1]}]" if interval else value


def _plots(found: Mapping[str, Any]) -> Iterator[tuple[str, "Plot"]]:
    if found.get("score_table") and found["score_table"]["levels"]:
        yield "Scores: reference and critic", _confusion(found["score_table"])
    if found.get("refinement"):
        rows = found["refinement"]
        yield (
            "Refinement",
            _bars(
                [_group(row) for row in rows],
                {name: [row[name]["value"] for row in rows] for name in RATES[:3]},
                "share of answers",
            ),
        )
    families = [row for row in found.get("scores", []) if row["grouping"] == "family"]
    if families:
        yield (
            "Scores by family",
            _bars(
                [str(row["group"]) for row in families],
                {
                    SCORE_NAMES[name]: [row["figures"][name]["value"] for row in families]
                    for name in ("pearson", "spearman")
                },
                "correlation",
            ),
        )
    for field, rows in found.get("units", {}).items():
        inside = [row for row in rows if row["grouping"] == "family"]
        if inside:
            series = {name: [row[name] for row in inside] for name in ("precision", "recall", "f1")}
            yield f"{field.capitalize()}s by family", _bars([str(row["group"]) for row in inside], series, "cosine")


def _confusion(table: Mapping[str, Any]) -> "Plot":
    from matplotlib.figure import Figure as Plot

    counts = np.array(table["counts"])
    labels = [f"{level:g}" for level in table["levels"]]
    plot = Plot(figsize=(5.2, 4.6), layout="constrained")
    axes = plot.subplots()
    rows = counts.sum(axis=1, keepdims=True)
    axes.imshow(np.divide(counts, rows, out=np.zeros(counts.shape), where=rows > 0), cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="critic", ylabel="reference")
    if len(labels) <= 12:
        axes.set_xticks(range(len(labels)), labels)
        axes.set_yticks(range(len(labels)), labels)
        for (down, across), count in np.ndenumerate(counts):
            if count:
                dark = count > rows[down, 0] / 2
                axes.text(across, down, f"{count:,}", ha="center", va="center", color="white" if dark else "black")
    return plot


def _bars(groups: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str) -> "Plot":
    from matplotlib.figure import Figure as Plot

    plot = Plot(figsize=(max(5.2, 0.9 * len(groups) + 2), 3.6), layout="constrained")
    axes = plot.subplots()
    width = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        at = np.arange(len(groups)) + (place - (len(series) - 1) / 2) * width
        axes.bar(at, [0 if value is None else value for value in values], width, label=name)
    axes.set_xticks(range(len(groups)), groups, rotation=20 if len(groups) > 4 else 0, ha="center")
    axes.set_ylabel(label)
    axes.legend(frameon=False)
    return plot


def _png(plot: "Plot") -> str:
    image = BytesIO()
    plot.savefig(image, format="png", dpi=130)
    return b64encode(image.getvalue()).decode()

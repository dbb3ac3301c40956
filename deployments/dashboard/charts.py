"""Bars and lines as SVG. Colours are classes of the style sheet (Okabe and Ito's set, which the colour-blind can tell
apart), and every value is also written or told by a title."""

from collections.abc import Mapping, Sequence
from html import escape

from markupsafe import Markup

WIDTH, HEIGHT, LEFT, FOOT = 640, 200, 52, 34


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str = "") -> Markup:
    """Groups of bars side by side: a group a label, a bar a series. A value of None has no bar."""
    top = max((value for values in series.values() for value in values if value is not None), default=0) or 1
    step = (WIDTH - LEFT) / max(len(labels), 1)
    width = step * 0.8 / max(len(series), 1)
    parts = [_axis(top)]
    for place, (name, values) in enumerate(series.items()):
        for at, (label, value) in enumerate(zip(labels, values, strict=True)):
            if value is None:
                continue
            x, y = LEFT + at * step + step * 0.1 + place * width, _y(value, top)
            title = escape(f"{name}, {label}: {_short(value)}{unit}")
            parts.append(
                f'<rect class="c{place % 7}" x="{x:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
                f'height="{HEIGHT - FOOT - y:.1f}"><title>{title}</title></rect>'
            )
    parts += _ticks(labels, step)
    return _svg(parts, list(series), f"Bars of {', '.join(series)} by {', '.join(labels[:12])}")


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str = "") -> Markup:
    """A line a series over the labels; a gap where a value is None."""
    top = max((value for values in series.values() for value in values if value is not None), default=0) or 1
    step = (WIDTH - LEFT) / max(len(labels), 1)
    parts = [_axis(top)]
    for place, (name, values) in enumerate(series.items()):
        points = [(LEFT + (at + 0.5) * step, value) for at, value in enumerate(values)]
        drawn = " ".join(f"{x:.1f},{_y(value, top):.1f}" for x, value in points if value is not None)
        parts.append(f'<polyline class="l{place % 7}" points="{drawn}"/>')
        if len(labels) <= 60:
            for (x, value), label in zip(points, labels, strict=True):
                if value is not None:
                    title = escape(f"{name}, {label}: {_short(value)}{unit}")
                    parts.append(
                        f'<circle class="c{place % 7}" cx="{x:.1f}" cy="{_y(value, top):.1f}" r="3">'
                        f"<title>{title}</title></circle>"
                    )
    parts += _ticks(labels, step)
    return _svg(parts, list(series), f"Lines of {', '.join(series)}")


def level(value: float, most: float) -> str:
    """The class of a heat map's cell, from h0 (none) to h9 (most)."""
    return f"h{min(9, round(9 * value / most))}" if most and value else "h0"


def meter(value: float, most: float, kind: str = "c0") -> Markup:
    """A bar for a table's cell: its length is the value's share of the most."""
    width = 100 * value / most if most else 0
    return Markup(
        f'<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="8"/><rect class="{kind}" width="{min(width, 100):.2f}" height="8"/>'
        f"</svg>"
    )


def _svg(parts: Sequence[str], names: Sequence[str], label: str) -> Markup:
    legend = "".join(
        f'<li><svg viewBox="0 0 10 10" class="swatch"><rect class="c{at % 7}" width="10" height="10"/></svg>'
        f"{escape(name)}</li>"
        for at, name in enumerate(names)
    )
    key = f'<ul class="legend">{legend}</ul>' if len(names) > 1 else ""
    return Markup(
        f'<figure class="chart"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>{key}</figure>"
    )


def _axis(top: float) -> str:
    marks = [f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{_y(part * top, top):.1f}" '
             f'y2="{_y(part * top, top):.1f}"/><text x="{LEFT - 6}" y="{_y(part * top, top) + 4:.1f}" '
             f'text-anchor="end">{_short(part * top)}</text>' for part in (0, 0.5, 1)]  # fmt: skip
    return "".join(marks)


def _ticks(labels: Sequence[str], step: float) -> list[str]:
    every = max(1, -(-len(labels) // max(1, int((WIDTH - LEFT) / max(7.0 * max(map(len, labels), default=1), 30)))))
    return [
        f'<text x="{LEFT + (at + 0.5) * step:.1f}" y="{HEIGHT - FOOT + 18}" text-anchor="middle">{escape(label)}</text>'
        for at, label in enumerate(labels)
        if at % every == 0
    ]


def _y(value: float, top: float) -> float:
    return 8 + (HEIGHT - FOOT - 8) * (1 - value / top)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"

"""Filling out a page's template, and how numbers, times and links are written."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, select_autoescape

from deployments.dashboard import charts
from deployments.dashboard.text import diff, rich

if TYPE_CHECKING:
    from deployments.dashboard.app import Board

NAVIGATION = (
    ("/", "Overview"),
    ("/batches", "Batches"),
    ("/rows", "Rows"),
    ("/agreement", "Agreement"),
    ("/coverage", "Coverage"),
    ("/diversity", "Diversity"),
    ("/models", "Models"),
    ("/sql", "SQL"),
)


def render(name: str, board: "Board", **values: Any) -> str:
    info = board.workspace.info
    shared = {
        "navigation": NAVIGATION,
        "data_set": info.get("name", board.workspace.root.name),
        "simulated": info.get("simulated", False),
        "as_of": board.reader.as_of,
        "here": "",
    }
    return _environment().get_template(name).render(shared | values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(str(files("deployments.dashboard") / "html")),
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "usd": usd,
        "share": share,
        "figure": figure,
        "when": when,
        "rich": rich,
        "row_link": row_link,
        "short_id": short_id,
    }
    environment.globals |= {"link": link, "diff": diff, "charts": charts}
    return environment


def count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def usd(number: float | None) -> str:
    return "not known" if number is None else f"${number:,.2f}" if number >= 100 else f"${number:,.4f}"


def share(number: float | None) -> str:
    return "–" if number is None else f"{100 * number:.1f} %"


def figure(number: float | None, digits: int = 3) -> str:
    return "–" if number is None else f"{number:.{digits}f}"


def when(time: datetime | str | None) -> str:
    """UTC, to the second."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return "–" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def link(path: str, values: Mapping[str, Any], **changes: Any) -> str:
    """The path with these query parameters and changes to them; None and empty ones are left out."""
    query = {name: value for name, value in {**values, **changes}.items() if value not in (None, "")}
    return f"{path}?{urlencode(query)}" if query else path


def short_id(row_id: str) -> str:
    """The beginning of an id; a rubric item's with its position."""
    start, dash, position = row_id.partition("-")
    return f"{start[:8]}…{dash}{position}" if len(start) > 9 else row_id


def row_link(row_id: str) -> str:
    return f"/row/{quote(row_id, safe='')}"

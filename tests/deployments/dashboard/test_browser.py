"""The dashboard in headless Chromium, over a small real data set with scripts planted in it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pipeline import build_without_prefect, load, write_config

from deployments.dashboard.pages import ROUTES
from flows.processes import python_module
from storage.workspace import Workspace

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SCRIPT = "<script>window.ran = true</script><img src=x onerror='window.ran = true'>"
PAGES = [path for path, _, _ in ROUTES if "{" not in path and path not in ("/find", "/sql/download")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: apt-get install chromium"),
]


def _planted(place: Workspace) -> str:
    """Scripts in an answer, its question and its first rubric item's dimension; that item's id."""
    answer = place.read_table("answers").row(0, named=True)
    item = place.read_table("rubrics").filter(answer_id=answer["answer_id"]).sort("position").row(0, named=True)
    for table, key, column in (
        ("questions", answer["question_id"], "text"),
        ("answers", answer["answer_id"], "text"),
        ("rubrics", item["item_id"], "dimension"),
    ):
        ids = {"questions": "question_id", "answers": "answer_id", "rubrics": "item_id"}[table]
        for path in place.table_files(table):
            parts = path.relative_to(place.root / "tables" / table).with_suffix("").parts
            changed = pl.when(pl.col(ids) == key).then(pl.lit(SCRIPT) + pl.col(column)).otherwise(pl.col(column))
            place.write_table(table, place.read_table(table, *parts).with_columns(changed.alias(column)), *parts)
    return str(item["item_id"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The dashboard's address, and the id of the item with scripts in it."""
    folder = tmp_path_factory.mktemp("site")
    with python_module("deployments.simulator", "--port", "0") as simulator:
        assert simulator.stdout is not None
        config = load(write_config(folder, json.loads(simulator.stdout.readline())["url"]))
        place = build_without_prefect(config, folder / "w")
    item = _planted(place)
    with python_module("deployments.dashboard", "--workspace", str(place.root), "--port", "0") as server:
        assert server.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", server.stdout.readline().decode())
        assert found
        yield found[0], item


@pytest.fixture(scope="module")
def browser(site: tuple[str, str]) -> Iterator[Any]:
    """After the site: Playwright's event loop stays in this thread, where the build wants one of its own."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any, site: tuple[str, str]) -> Iterator[Any]:
    """A fresh page; at its end nothing may have gone wrong in it, and no other host have been asked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=site[0])
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(site[0]) else troubles.append(asked.url))
    yield page
    context.close()
    assert troubles == []


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_without_an_error_and_fits_a_desk_and_a_phone(tab: Any, path: str) -> None:
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(path)
        assert tab.locator("h1").count() == 1
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_filter_open_a_row_and_follow_its_link_in_another_browser(
    tab: Any, browser: Any, site: tuple[str, str]
) -> None:
    tab.goto("/rows")
    tab.select_option("select[name=family]", "objective")
    tab.click("text=Show")
    assert "family=objective" in tab.url
    assert set(tab.locator("tbody tr td:nth-child(5)").all_inner_texts()) == {"objective"}
    tab.locator("tbody a.id").first.click()
    heading = tab.locator("h1").inner_text()
    assert tab.locator("h2", has_text="Teacher and judges").count() == 1
    assert tab.locator(".side article").count() == 3
    other = browser.new_context()
    page = other.new_page()
    page.goto(tab.url)
    assert page.locator("h1").inner_text() == heading
    other.close()


def test_a_script_in_a_text_is_shown_and_does_not_run(tab: Any, site: tuple[str, str]) -> None:
    for path in (f"/row/{site[1]}", "/rows", "/rows?table=questions", "/rows?table=answers", "/rows?table=rubrics",
                 "/sql?sql=SELECT+*+FROM+answers", "/diversity"):  # fmt: skip
        tab.goto(path)
        assert tab.evaluate("window.ran === undefined")
    tab.goto(f"/row/{site[1]}")
    assert tab.locator("body").inner_text().count("<script>window.ran = true</script>") >= 3


def test_every_control_is_reached_by_the_keyboard_and_shows_it(tab: Any) -> None:
    tab.goto("/rows")
    seen = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"To the content", "Overview", "items", "family", "q", "Show"} <= seen


def test_the_theme_button_goes_through_system_light_and_dark(tab: Any) -> None:
    tab.goto("/")
    backs = []
    for _ in range(3):
        backs.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        tab.click("#theme")
    assert backs[2] == "rgb(20, 23, 26)"
    assert backs[1] == "rgb(255, 255, 255)"

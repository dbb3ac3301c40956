"""The pages' figures against the tables read by Polars."""

import shutil
from pathlib import Path

import polars as pl

from deployments.dashboard.queries import agreement, coverage, models, overview, rows
from deployments.dashboard.queries.listings import LISTINGS, listing_of
from deployments.dashboard.queries.row import row_story
from deployments.dashboard.reader import Reader
from storage.waits import Waits
from storage.workspace import Workspace
from tasks.agreement import agreement_report
from tasks.coverage import quality


def find(
    reader: Reader, table: str, sort: str | None = None, offset: int = 0, skip: int = 0, **asked: str
) -> rows.Found:
    return rows.find(reader, listing_of(table), asked, sort=sort, down=False, offset=offset, skip=skip)


def all_ids(reader: Reader, table: str, sort: str | None = None, **asked: str) -> list[str]:
    """The ids of every page, following each page's next."""
    ids: list[str] = []
    following: dict[str, int] | None = {}
    while following is not None:
        found = find(reader, table, sort, **following, **asked)  # type: ignore[arg-type]
        ids += [row[listing_of(table).id] for row in found.rows]
        following = None if found.next is None else dict(found.next)
    return ids


def test_filters_find_what_the_tables_hold(made: Workspace, reader: Reader) -> None:
    items = made.read_table("rubrics").join(made.read_table("consensus"), on="item_id")
    wanted = items.filter(
        (pl.col("family") == "objective")
        & (pl.col("reason") == "disagreement")
        & pl.col("shard").str.starts_with("limo")
    )
    found = find(reader, "items", family="objective", fate="disagreement", source="limo")
    assert found.total == len(wanted) > 100
    assert {row["item_id"] for row in found.rows} <= set(wanted["item_id"])


def test_pages_in_order_hold_every_row_once(made: Workspace, reader: Reader) -> None:
    judged = made.read_table("trajectories").filter(role="judge", score=3)
    expected = judged.sort("model", "call_id")["call_id"].to_list()
    assert all_ids(reader, "trajectories", "model", role="judge", score="3") == expected
    assert len(expected) > 2 * rows.PAGE


def test_a_search_goes_through_every_shard_and_finds_each_row_once(made: Workspace, reader: Reader) -> None:
    table = made.read_table("rubrics")
    word = table["level_3"][5].split()[0].upper()
    texts = [
        pl.col(name).str.to_lowercase().str.contains(word.lower(), literal=True) for name in LISTINGS["items"].searched
    ]
    expected = table.filter(pl.any_horizontal(texts))["item_id"].to_list()
    found = all_ids(reader, "items", q=word)
    assert sorted(found) == sorted(expected)
    assert len(found) == len(set(found)) > rows.PAGE


def test_every_listing_can_be_shown_and_sorted_by_every_column(reader: Reader) -> None:
    for name, listing in LISTINGS.items():
        for column in listing.columns:
            if (name, column) != ("items", "dimension"):
                assert find(reader, name, column).total is not None
        rows.options(reader, listing)


def test_matrices_are_those_of_the_agreement_report(made: Workspace, reader: Reader) -> None:
    consensus = made.read_table("consensus")
    report = agreement_report(consensus, made.read_table("rubrics", columns=["item_id", "family"]))
    judges = agreement.judges(reader)
    for place, judge in enumerate(judges):
        overall = report.filter(grouping="overall", first="teacher", second=judge).to_dicts()[0]
        pair = agreement.pair(agreement.combinations(reader, {}), place)
        assert pair["matrix"] == overall["matrix"]
        assert pair["kappa"] == overall["kappa"]
        families = {row["group"]: row["pairs"][place]["kappa"] for row in agreement.by_group(reader, {}, "family", 2)}
        for row in report.filter(grouping="family", first="teacher", second=judge).to_dicts():
            assert families[row["group"]] == row["kappa"]


def test_kept_at_the_tolerance_of_the_run_is_what_the_run_kept(made: Workspace, reader: Reader) -> None:
    consensus = made.read_table("consensus")
    found = agreement.combinations(reader, {})
    assert agreement.kept_at(found, 0, "all") == consensus["kept"].sum()
    near = [
        all(vote["score"] is not None and abs(vote["score"] - teacher) <= 1 for vote in votes)
        for teacher, votes in consensus.select("teacher_score", "votes").iter_rows()
    ]
    assert agreement.kept_at(found, 1, "all") == sum(near) > consensus["kept"].sum()


def test_histogram_counts_answers_by_their_quality(made: Workspace, reader: Reader) -> None:
    levels = quality(made.read_table("trajectories").filter(role="teacher")).join(
        made.read_table("answers"), on="answer_id"
    )
    (found,) = coverage.histogram(reader, {})
    assert found["after"] == [levels.filter(quality=level).height for level in range(6)]
    assert found["before"] == [levels.filter(quality=level, origin="pool").height for level in range(6)]


def test_spend_adds_up_to_the_calls_table(made: Workspace, reader: Reader) -> None:
    calls = made.read_table("calls")
    spend = overview.spend(reader)
    assert sum(row["calls"] for row in spend) == len(calls)
    assert abs(sum(row["cost_usd"] for row in spend) - calls["cost_usd"].sum()) < 1e-6


def test_waits_are_shown_by_model_and_minute(made: Workspace, tmp_path: Path) -> None:
    place = Workspace(shutil.copytree(made.root, tmp_path / "w"))
    waits = Waits(place.root, "r1")
    for told in (2.5, None):
        waits.add("openai/sim-tiny", told)
    waits.write()
    assert models.waits_by_model(place) == {"openai/sim-tiny": {"times": 2, "told_s": 2.5}}
    found = models.over_time(Reader(place))
    assert found is not None
    assert sum(found.waits["openai/sim-tiny"]) == 2


def test_a_story_has_the_attempts_as_they_came(made: Workspace, reader: Reader) -> None:
    item = made.read_table("rubrics", columns=["item_id"])["item_id"][0]
    story = row_story(reader, item)
    assert [each["role"] for each in story["trajectories"]] == ["teacher", "judge", "judge"]
    assert {each["call_id"] for each in story["attempts"]} == {call["call_id"] for call in story["calls"]}
    assert len(story["calls"]) == 5  # the answer, the rubric, the teacher, two judges


def test_a_table_that_is_written_anew_is_read_anew(made: Workspace, tmp_path: Path, monkeypatch: object) -> None:
    place = Workspace(shutil.copytree(made.root, tmp_path / "w"))
    reader = Reader(place)
    count = "SELECT count(*) AS n FROM rubrics"
    before = reader.rows(count)[0]["n"]
    part = place.table_path("rubrics", "limo-0000", "pool")
    place.write_table("rubrics", place.read_table("rubrics", "limo-0000", "pool").head(10), "limo-0000", "pool")
    reader._looked = 0.0  # as if time had passed
    reader._took_s = 0.0
    assert part.exists()
    assert reader.rows(count)[0]["n"] == before - 890
    assert reader.rows("SELECT count(*) AS n FROM items")[0]["n"] == before - 890

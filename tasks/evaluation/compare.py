"""All that a file of predictions and one of references allow to measure, as one dictionary of plain values."""

from typing import Any

import polars as pl

from tasks.evaluation.gold import gold_figures
from tasks.evaluation.refinement import refinement_figures
from tasks.evaluation.scores import GROUPINGS, RESAMPLES, TooManyLevels, score_report, score_table
from tasks.evaluation.tables import Pairs, TableError, missing
from tasks.evaluation.units import Embed, align

UNIT_TEXTS = ("reason", "suggestion")


def compare(pairs: Pairs, *, embed: Embed | None, embedder: str | None, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Scores, reasons and suggestions, refinement and gold answers; what cannot be measured stands with its reason.

    Without ``embed`` reasons and suggestions are not compared. Raises ``TableError`` where nothing can be measured.
    """
    frame = pairs.frame
    found: dict[str, Any] = {
        "references": len(frame),
        "predictions_without_reference": pairs.without_reference,
        "scores_out_of_scale": pairs.out_of_scale,
        "scale": list(pairs.scale),
        "embedder": embedder,
    }
    not_measured: dict[str, str] = {}
    if why := missing(frame, ["predicted_score", "score"]):
        not_measured["scores"] = why
    else:
        named = frame.rename({"score": "reference", "predicted_score": "predicted"})
        try:
            found["scores"] = score_report(named, resamples=resamples)
        except TooManyLevels as error:
            raise TableError(str(error)) from None
        levels, table = score_table(*(named[name].cast(pl.Float64).to_numpy() for name in ("reference", "predicted")))
        found["score_table"] = {"levels": levels, "counts": table}
    for name in UNIT_TEXTS:
        why = missing(frame, [f"predicted_{name}", name])
        if why or embed is None:
            not_measured[name] = why or "no embedder"
        else:
            found.setdefault("units", {})[name] = unit_report(frame, name, embed)
    if why := missing(frame, ["predicted_score_before", "predicted_score_after"]):
        not_measured["refinement"] = why
    else:
        found["refinement"] = [
            {"grouping": grouping, "group": group, **_refined(inside)} for grouping, group, inside in _groups(frame)
        ]
    if why := missing(frame, ["reference_answer", "answer", "predicted_refined_answer"]):
        not_measured["gold"] = why
    else:
        found["gold"] = [
            {"grouping": grouping, "group": group, **_gold(inside)}
            for grouping, group, inside in _groups(frame, ("source",))
        ]
    found["not_measured"] = not_measured
    if not any(name in found for name in ("scores", "units", "refinement", "gold")):
        raise TableError(
            "nothing can be measured: " + "; ".join(f"{name}: {why}" for name, why in not_measured.items())
        )
    return found


def unit_report(frame: pl.DataFrame, name: str, embed: Embed) -> list[dict[str, Any]]:
    """Macro precision, recall and F1 of the field ``name``, overall and by group.

    Rows whose reference has no such text (null) are left out; a prediction that has none counts as an empty one.
    """
    rows = frame.filter(pl.col(name).is_not_null())
    figures = align(rows[f"predicted_{name}"].fill_null("").to_list(), rows[name].to_list(), embed)
    measured = rows.select(group for group in GROUPINGS if group in rows.columns).with_columns(
        **{figure: pl.Series(values) for figure, values in figures._asdict().items()},
    )
    return [
        {
            "grouping": grouping,
            "group": group,
            "n": len(inside),
            **{figure: inside[figure].mean() for figure in figures._fields},
        }
        for grouping, group, inside in _groups(measured)
    ]


def _refined(frame: pl.DataFrame) -> dict[str, Any]:
    before, after = (frame[f"predicted_{name}"].cast(pl.Float64).to_numpy() for name in ("score_before", "score_after"))
    return refinement_figures(before, after)


def _gold(frame: pl.DataFrame) -> dict[str, Any]:
    """A refinement that is missing leaves no answer, which is wrong."""
    texts = (frame[name].fill_null("").to_list() for name in ("answer", "predicted_refined_answer"))
    return gold_figures(frame["reference_answer"].to_list(), *texts)


def _groups(frame: pl.DataFrame, groupings: tuple[str, ...] = GROUPINGS) -> list[tuple[str, str | None, pl.DataFrame]]:
    groups: list[tuple[str, str | None, pl.DataFrame]] = [("overall", None, frame)]
    for grouping in groupings:
        if grouping in frame.columns:
            ordered = frame.sort(grouping, nulls_last=True, maintain_order=True)
            groups += [
                (grouping, group, inside) for (group,), inside in ordered.group_by(grouping, maintain_order=True)
            ]
    return groups


def evaluate_pairs(pairs: Pairs, *, embedder: str | None = None, key_env: str = "OPENAI_API_KEY") -> dict[str, Any]:
    """``compare`` with an embedder by name; "none" leaves reasons and suggestions out. Raises ``UserError``."""
    from tasks.evaluation.embed import DEFAULT, embedder as embedder_of

    name = embedder or DEFAULT
    compares = any(missing(pairs.frame, [f"predicted_{text}", text]) is None for text in UNIT_TEXTS)
    used = embedder_of(name, key_env=key_env) if compares and name != "none" else None
    return compare(pairs, embed=used, embedder=name if used else None)

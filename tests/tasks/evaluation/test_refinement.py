import pytest

from tasks.evaluation.refinement import refinement_figures, share

NONE = float("nan")


def test_rates_by_hand() -> None:
    found = refinement_figures([0, 3, 5, 4, NONE, 2], [2, 3, 5, 1, 3, NONE])
    assert (found["n"], found["without_score"]) == (4, 2)
    rates = {name: found[name]["value"] for name in ("improved", "unchanged", "degraded", "non_degraded")}
    assert rates == {"improved": 0.25, "unchanged": 0.5, "degraded": 0.25, "non_degraded": 0.75}


def test_no_pair_has_null_rates() -> None:
    assert refinement_figures([NONE], [1])["improved"]["note"] == "nothing to count"
    with pytest.raises(ValueError, match="1 scores before against 2 after"):
        refinement_figures([1], [1, 2])


def test_wilsons_interval_by_hand() -> None:
    # 5 of 10, z = 1.96: centre 1/2, half width z / (1 + z^2/10) sqrt(1/40 + z^2/400).
    z = 1.959964
    half = z / (1 + z * z / 10) * (1 / 40 + z * z / 400) ** 0.5
    assert share(5, 10)[:3] == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-6)

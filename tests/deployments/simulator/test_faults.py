import pytest

from deployments.simulator.faults import FAULTS, JSON, Fault, active, draw, fits
from deployments.simulator.knobs import Knobs

VALUE = {"score": 3, "reason": "step 2 is off by one", "suggestion": "write 14 there", "refined_answer": "It is 14."}
RUBRIC = {"items": [{"family": "objective", "dimension": "The sum"}, {"family": "objective", "dimension": "The rest"}]}


def struck(knobs: Knobs, times: int = 0, value: object = VALUE) -> list[str | None]:
    faults = active(knobs)
    drawn = [draw(faults, knobs.seed, f"call-{n}", times, value) for n in range(1000)]
    return [fault.name if fault else None for fault in drawn]


def test_a_fault_strikes_at_its_rate_and_a_retry_can_succeed() -> None:
    knobs = Knobs(fault_500=0.2)
    first, second = struck(knobs), struck(knobs, times=1)
    assert 150 < first.count("fault_500") < 250
    both = sum(a is not None and b is not None for a, b in zip(first, second, strict=True))
    assert 15 < both < 75
    assert struck(knobs) == first


def test_the_seed_decides_which_calls_are_struck() -> None:
    assert struck(Knobs(fault_500=0.2)) != struck(Knobs(fault_500=0.2, seed=1))


def test_faults_of_json_spare_plain_text() -> None:
    knobs = Knobs(fault_prose=1.0, fault_bad_score=1.0)
    assert set(struck(knobs, value=None)) == {None}
    assert set(struck(Knobs(fault_bad_score=1.0), value=RUBRIC)) == {None}


def test_the_table_ends_with_the_faults_of_json() -> None:
    places = [fault.where for fault, _ in active(Knobs.of({f"fault_{name}": 1 for name in ("500", "prose", "latex")}))]
    assert places == ["error", JSON, JSON]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_can_be_switched_on_alone(fault: Fault) -> None:
    knobs = Knobs.of({fault.name: 1})
    assert set(struck(knobs)) == {fault.name}
    assert fits(fault, VALUE)

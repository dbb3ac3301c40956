import pytest

from deployments.simulator import KnobError, Knobs
from deployments.simulator.faults import FAULTS
from deployments.simulator.knobs import KNOBS


def test_every_knob_is_explained_and_every_fault_is_a_knob() -> None:
    assert all(knob.metadata["help"] for knob in KNOBS.values())
    assert [fault.name for fault in FAULTS] == [name for name in KNOBS if name.startswith("fault_")]


def test_options_come_as_text_and_with_dashes() -> None:
    knobs = Knobs.of({"latency-s": "0.2", "requests_per_minute": "600", "seed": 7})
    assert (knobs.latency_s, knobs.requests_per_minute, knobs.seed) == (0.2, 600, 7)


def test_a_model_can_have_its_own() -> None:
    knobs = Knobs.of({"judge_noise": 0.2, "judge_noise.sim-judge-b": 0.3}).turned({"judge_bias.sim-judge-b": -1})
    assert knobs.for_model("sim-judge-a").judge_noise == 0.2
    assert knobs.for_model("sim-judge-b").judge_noise == 0.3
    assert knobs.for_model("sim-judge-b").judge_bias == -1
    assert knobs.for_model("sim-judge-b").by_model == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latency": 1}, "latency: no such knob"),
        ({"latency_s": "soon"}, "latency_s: 'soon' is not a number"),
        ({"requests_per_minute": 1.5}, "requests_per_minute: 1.5 is not a whole number"),
        ({"fault_500": 1.5}, r"fault_500: 1.5 is out of range \(from 0 to 1\)"),
        ({"latency_s.sim-large": -1}, r"latency_s: -1 is out of range \(at least 0\)"),
        ({"judge_bias": float("nan")}, "judge_bias: nan is out of range"),
        ({"by_model": 1}, "by_model: no such knob"),
    ],
)
def test_what_is_no_knob_or_no_value_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(KnobError, match=words):
        Knobs.of(options)

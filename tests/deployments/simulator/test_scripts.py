import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError

import pytest


def test_a_call_id_gets_its_faults_in_order_and_then_none(simulator: Any) -> None:
    simulator.post("script", {"script": {"scripted-1": ["fault_500", "ok", "fault_503"]}})
    statuses = [simulator.chat("sim-scripted", "scripted-1").status for _ in range(5)]
    assert statuses == [500, 200, 503, 200, 200]
    assert simulator.chat("sim-scripted", "another").status == 200


def test_a_models_requests_are_counted_whatever_their_id(simulator: Any) -> None:
    simulator.post("script", {"script": {"sim-scripted-model": ["ok", "fault_429", "fault_empty"]}})
    answers = [simulator.chat("sim-scripted-model", f"call-{n}") for n in range(4)]
    assert [answer.status for answer in answers] == [200, 429, 200, 200]
    assert answers[2].content == ""
    assert answers[3].content


def test_a_call_id_goes_before_its_model(simulator: Any) -> None:
    simulator.post("script", {"script": {"scripted-2": ["ok"], "sim-scripted-both": ["fault_500", "fault_500"]}})
    answers = [simulator.chat("sim-scripted-both", call) for call in ("scripted-2", "scripted-3", "scripted-4")]
    assert [answer.status for answer in answers] == [200, 500, 200]


def test_rates_strike_only_what_no_script_names(simulator: Any) -> None:
    simulator.post("knobs", {"fault_500.sim-scripted-rates": 1})
    simulator.post("script", {"script": {"scripted-5": ["ok", "fault_503"]}})
    statuses = [simulator.chat("sim-scripted-rates", "scripted-5").status for _ in range(3)]
    assert statuses == [200, 503, 200]
    assert simulator.chat("sim-scripted-rates", "scripted-6").status == 500


def test_faults_of_json_and_of_the_connection_can_be_scripted(simulator: Any, scored: Any) -> None:
    script = ["fault_score_nan", "fault_reset", "fault_twice"]
    simulator.post("script", {"script": {"scripted-7": script}})
    assert '"score":NaN' in simulator.chat("sim-scripted", "scripted-7", schema=scored).content
    with pytest.raises((OSError, HTTPException)):
        simulator.chat("sim-scripted", "scripted-7", schema=scored)
    with pytest.raises(json.JSONDecodeError, match="Extra data"):
        json.loads(simulator.chat("sim-scripted", "scripted-7", schema=scored).content)


def test_a_fault_that_does_not_fit_the_answer_is_no_fault(simulator: Any) -> None:
    before = simulator.get("stats")["faults"]
    simulator.post("script", {"script": {"scripted-8": ["fault_score_six"]}})
    assert "Final answer: " in simulator.chat("sim-scripted", "scripted-8").content
    assert simulator.get("stats")["faults"] == before


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"a": ["fault_501"]}, "a: 'fault_501' is no fault (there are ok, fault_429, "),
        ({"a": [["ok"]]}, "a: ['ok'] is no fault"),
        ({"a": "fault_500"}, "a: 'fault_500' is not a list of faults"),
        (["fault_500"], 'a script is {"script": {'),
        (None, 'a script is {"script": {'),
    ],
)
def test_what_is_no_script_is_refused_and_changes_nothing(script: Any, words: str, simulator: Any) -> None:
    with pytest.raises(HTTPError) as caught:
        simulator.post("script", {"script": script})
    with caught.value as response:
        assert response.status == 400
        assert words in json.loads(response.read())["error"]
    assert simulator.chat("sim-scripted", "a").status == 200

"""What is counted of answers that end otherwise than well."""

from http.client import HTTPException
from typing import Any

import pytest


def tokens(simulator: Any, model: str) -> tuple[int, int, int]:
    stats = simulator.get("stats")
    kinds = ("input", "output", "cached")
    input_tokens, output_tokens, cached = (stats[f"{kind}_tokens_by_model"].get(model, 0) for kind in kinds)
    return input_tokens, output_tokens, cached


@pytest.mark.parametrize(
    "fault", ["refusal", "empty", "null", "truncate", "thinking", "huge", "drip", "surrogate", "twice"]
)
def test_tokens_are_counted_as_each_vendors_usage_tells_them(fault: str, simulator: Any, scored: Any) -> None:
    model = f"sim-counts-{fault}-think"
    simulator.post("knobs", {f"fault_{fault}.{model}": 1, f"drip_s.{model}": 0.05})
    spent = [0, 0, 0]
    for n in range(4):
        usage = simulator.chat(model, f"{fault}-{n}", schema=scored).body["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        spent = [spent[0] + usage["prompt_tokens"], spent[1] + usage["completion_tokens"], spent[2] + cached]
        usage = simulator.messages(model, system="x" * (600 + n)).body["usage"]
        assert usage["cache_read_input_tokens"] == 0
        spent = [spent[0] + usage["input_tokens"], spent[1] + usage["output_tokens"], spent[2]]
        usage = simulator.gemini(model).body["usageMetadata"]
        spent = [
            spent[0] + usage["promptTokenCount"],
            spent[1] + usage["totalTokenCount"] - usage["promptTokenCount"],
            spent[2],
        ]
    assert tokens(simulator, model) == tuple(spent)
    assert simulator.get("stats")["served_by_model"][model] == 12


def test_cached_tokens_are_counted_where_the_usage_tells_them(simulator: Any) -> None:
    system = [{"type": "text", "text": "x" * 1100, "cache_control": {"type": "ephemeral"}}]
    usage = simulator.messages("sim-caches", system=system).body["usage"]
    assert (usage["cache_read_input_tokens"], tokens(simulator, "sim-caches")[2]) == (256, 256)
    assert usage["input_tokens"] + 256 == tokens(simulator, "sim-caches")[0]


@pytest.mark.parametrize("fault", ["fault_cut_body", "fault_reset", "fault_timeout"])
def test_a_broken_answer_is_not_served_but_may_have_been_billed(fault: str, simulator: Any) -> None:
    model = f"sim-broken-{fault}"
    simulator.post("knobs", {f"hang_s.{model}": 0.05})
    simulator.post("script", {"script": {f"call-{fault}": ["ok", fault]}})
    usage = simulator.chat(model, f"call-{fault}").body["usage"]
    before = simulator.get("stats")["broken"]
    with pytest.raises((OSError, HTTPException)):
        simulator.chat(model, f"call-{fault}")
    stats = simulator.get("stats")
    assert (stats["served_by_model"][model], stats["broken_by_model"][model], stats["broken"]) == (1, 1, before + 1)
    assert stats["broken_input_tokens_by_model"][model] == usage["prompt_tokens"]
    assert stats["broken_output_tokens_by_model"][model] == usage["completion_tokens"]
    assert stats["output_tokens_by_model"][model] == usage["completion_tokens"]


def test_what_is_refused_for_its_limits_is_received_by_its_cause(simulator: Any) -> None:
    before = simulator.get("stats")["received_by_kind"]
    simulator.post(
        "knobs", {"retire_after.sim-cause": 1, "quota_after.sim-cause-q": 1, "requests_per_minute.sim-cause-r": 1}
    )
    for model in ("sim-cause", "sim-cause-q", "sim-cause-r"):
        assert simulator.chat(model).status == 200
        assert simulator.chat(model).status in (404, 429)
    after = simulator.get("stats")["received_by_kind"]
    assert {kind: after[kind] - before.get(kind, 0) for kind in ("retired", "quota", "rate_limited")} == {
        "retired": 1,
        "quota": 1,
        "rate_limited": 1,
    }

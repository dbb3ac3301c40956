"""What a simulated model writes for one request: its answer within the output limit, with the fault that strikes it."""

import orjson

from deployments.simulator.behaviour import Saying
from deployments.simulator.dice import Dice, digest
from deployments.simulator.exchange import Ask, Completion, Finish, tokens
from deployments.simulator.faults import JSON, Fault
from deployments.simulator.spoiling import spoil, strange

LARGEST_OUTPUT = 64_000
"""Tokens that a model writes at most where the request sets no limit: what the lists of models say."""
_CACHE_BLOCK = 128


def complete(ask: Ask, saying: Saying, call: str, fault: Fault | None, dice: Dice) -> Completion:
    """The model's answer within its output limit; thinking comes first and counts towards the limit.

    A fault that is none of the answer's, or None, leaves it whole. 5 MB cost no more tokens than the limit allows.
    """
    text = orjson.dumps(saying.value).decode() if ask.schema is not None else saying.text
    finish, limit = Finish.STOP, ask.max_tokens or LARGEST_OUTPUT
    thinking = 40 + digest("thinking", ask.model, call) % 200 if "think" in ask.model else 0
    name = fault.name if fault else ""
    if fault is not None and fault.where is JSON:
        text = spoil(name, saying.value, ask.schema or {}, dice)
    elif name in ("fault_surrogate", "fault_nul", "fault_huge"):
        text = strange(name, saying.value, text)
    elif name == "fault_refusal":
        text, finish = "", dice.pick((Finish.REFUSAL, Finish.BLOCKED))
        thinking = 0 if finish is Finish.BLOCKED else thinking
    elif name == "fault_empty":
        text, finish = "", Finish.EMPTY
    elif name == "fault_null":
        finish = Finish.NULL
    elif name == "fault_truncate":
        text, finish = text[: len(text) // 2], Finish.LENGTH
    elif name == "fault_thinking":
        text, finish, thinking = "", Finish.LENGTH, limit
    written = tokens(text)
    if thinking + written > limit and finish in (Finish.STOP, Finish.LENGTH, Finish.NULL):
        thinking = min(thinking, limit)
        written = limit - thinking
        if finish is not Finish.NULL and name != "fault_huge":
            finish, text = Finish.LENGTH, text[: 4 * written]
    cached = tokens(ask.system) // _CACHE_BLOCK * _CACHE_BLOCK if ask.caching else 0
    return Completion(text, finish, ask.input_tokens, cached, thinking + written, thinking)

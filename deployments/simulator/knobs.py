"""The simulator's knobs, their limits, and how options set them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any


class KnobError(Exception):
    """An option is not a knob, or its value is not one that the knob can have. The message says which."""


def _knob(default: float, meaning: str, low: float = 0.0, high: float = float("inf")) -> Any:
    return field(default=default, metadata={"help": meaning, "low": low, "high": high})


def _rate(meaning: str, default: float = 0.0) -> Any:
    return _knob(default, meaning, 0.0, 1.0)


@dataclass(frozen=True)
class Knobs:
    """What can be turned. Any knob can be set for one model: ``judge_noise.sim-judge-b=0.3``.

    >>> Knobs.of({"judge_noise": 0.2, "judge_noise.sim-judge-b": 0.3}).for_model("sim-judge-b").judge_noise
    0.3
    """

    seed: int = _knob(0, "decides every choice that is not the request's own", float("-inf"))
    latency_s: float = _knob(0.0, "seconds a call takes")
    latency_jitter_s: float = _knob(0.0, "seconds more, from 0 to this, by hash of the call")
    requests_per_minute: int = _knob(0, "of one model; more are answered 429 with Retry-After; 0: no limit")
    tokens_per_minute: int = _knob(0, "of one model, input and output; more are answered 429 too; 0: no limit")
    burst_s: float = _knob(60.0, "seconds' worth of requests and of tokens that the limits let through at once")
    burst_429_every_s: float = _knob(
        0.0, "seconds from one burst of 429 to the next; the first begins when knobs are set; 0: none"
    )
    burst_429_for_s: float = _knob(0.0, "seconds that a burst lasts; in it every call is answered 429 with Retry-After")
    retire_after: int = _knob(0, "answers of one model after which it is retired, a 404; 0: never")
    quota_after: int = _knob(0, "answers of one model after which the vendor says that no money is left; 0: never")
    teacher_noise: float = _rate("probability that a teacher's score is one off", 0.05)
    judge_noise: float = _rate("probability that a judge's score is one off", 0.1)
    judge_bias: float = _knob(0.0, "probability that a judge's score is shifted; the sign is the direction", -1.0, 1.0)
    coverage_miss: float = _rate("probability that an answer asked for at a level is one level off", 0.1)
    retry_after_s: float = _knob(1.0, "seconds that Retry-After names in a 429 by fault_429")
    hang_s: float = _knob(30.0, "seconds that fault_timeout hangs before it closes the connection")
    drip_s: float = _knob(5.0, "seconds over which fault_drip spreads an answer")
    fault_429: float = _rate("the vendor says 429, too many requests, with Retry-After")
    fault_429_bare: float = _rate("the vendor says 429 and not how long to wait")
    fault_quota: float = _rate("the vendor says that no money is left: 429 or 400")
    fault_500: float = _rate("the vendor says 500, internal error")
    fault_503: float = _rate("the vendor says 503, service unavailable")
    fault_overloaded: float = _rate("the vendor says 503 or 529, overloaded")
    fault_timeout: float = _rate("no answer; the connection is closed after hang_s")
    fault_reset: float = _rate("the connection is dropped before the answer")
    fault_cut_body: float = _rate("the connection is dropped in the middle of the answer")
    fault_drip: float = _rate("the answer comes whole, but in small pieces over drip_s")
    fault_refusal: float = _rate("the model refuses, or the prompt or the answer is blocked")
    fault_empty: float = _rate("no text, with the finish reason of a whole answer")
    fault_null: float = _rate("the text is withheld, with the finish reason of a whole answer: content: null")
    fault_truncate: float = _rate("the answer stops half-way, as at the output limit")
    fault_thinking: float = _rate("thinking takes all of the output limit: no text")
    fault_surrogate: float = _rate("an escaped lone surrogate in the text")
    fault_nul: float = _rate("an escaped NUL in the text")
    fault_huge: float = _rate("a text of 5 MB, valid for all that")
    fault_prose: float = _rate("structured: prose around the JSON")
    fault_bad_json: float = _rate("structured: JSON that does not parse")
    fault_twice: float = _rate("structured: the same object twice")
    fault_two: float = _rate("structured: two different objects, each valid")
    fault_bad_schema: float = _rate("structured: a field is missing")
    fault_extra: float = _rate("structured: a field that the schema does not have")
    fault_bad_score: float = _rate('structured: a score of "4-5" or one of the next five')
    fault_score_fraction: float = _rate('structured: a score of "4/5"')
    fault_score_half: float = _rate("structured: a score of 4.5")
    fault_score_text: float = _rate('structured: a score of "4"')
    fault_score_six: float = _rate("structured: a score of 6")
    fault_score_nan: float = _rate("structured: a score of NaN")
    fault_latex: float = _rate("structured: LaTeX whose backslashes are not escaped in the JSON")
    batch_s: float = _knob(0.5, "seconds a batch takes")
    batch_enqueued_tokens: int = _knob(0, "input tokens of one model's running batches; no more is taken; 0: no limit")
    batch_shuffle: float = _rate("a batch of OpenAI's or Anthropic's has its results out of order", 1.0)
    batch_swap: float = _rate("the same of any vendor, Google too, which promises the order of the requests")
    batch_all_fail: float = _rate("every item of a batch errors")
    batch_expire: float = _rate("a batch expires with about half of its items done")
    batch_invalid: float = _rate("a batch fails as a whole before any item runs, or is refused (Anthropic)")
    batch_lost: float = _rate("a batch is created, and the connection dropped before its id is told")
    batch_unknown: float = _rate("a batch has one more result, of an id that nobody sent")
    batch_duplicate: float = _rate("an item's result stands twice")
    batch_missing: float = _rate("an item has no result")
    batch_string_counts: float = _rate("a batch's counts are strings (Google's always are)")
    batch_strange_status: float = _rate("a batch's status is a word of no SDK's until it has been looked at when ended")
    by_model: Mapping[str, Mapping[str, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Knobs":
        """The defaults with these options. Raises ``KnobError``."""
        return cls().turned(options)

    def turned(self, options: Mapping[str, Any]) -> "Knobs":
        """These knobs with some turned: ``{"fault_500": 0.1, "latency_s.sim-large": 2}``. Raises ``KnobError``."""
        general: dict[str, float] = {}
        by_model = {model: dict(knobs) for model, knobs in self.by_model.items()}
        for option, text in options.items():
            name, _, model = option.partition(".")
            name = name.replace("-", "_")
            value = _value(name, text)
            if model:
                by_model.setdefault(model, {})[name] = value
            else:
                general[name] = value
        return replace(self, **general, by_model=by_model)  # type: ignore[arg-type]

    def for_model(self, model: str) -> "Knobs":
        """The knobs that hold for this model; its own have no ``by_model``."""
        return replace(self, **self.by_model.get(model, {}), by_model={})  # type: ignore[arg-type]


KNOBS = {knob.name: knob for knob in fields(Knobs) if knob.name != "by_model"}


def _value(name: str, text: Any) -> float:
    knob = KNOBS.get(name)
    if knob is None:
        raise KnobError(f"{name}: no such knob (there are {', '.join(KNOBS)})")
    whole = knob.type is int
    try:
        value = float(text)
        if whole and not value.is_integer():
            raise ValueError
    except (TypeError, ValueError):
        raise KnobError(f"{name}: {text!r} is not {'a whole number' if whole else 'a number'}") from None
    low, high = knob.metadata["low"], knob.metadata["high"]
    if not (low <= value <= high and isfinite(value)):
        limits = f"from {low:g} to {high:g}" if high < float("inf") else f"at least {low:g}"
        raise KnobError(f"{name}: {value:g} is out of range ({limits})")
    return int(value) if whole else value

"""What the simulator counts, in memory only: calls, answers, tokens, and how often each call id was answered."""

from collections import Counter

from deployments.simulator.exchange import Completion, Json


class Accounts:
    """A call is received when its request has been read, and served when a 2xx answer to it is fully written.

    It is broken when its answer was there and the connection was not: a vendor may bill that. Tokens are counted as
    the answer's own usage tells them.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.received: Counter[str] = Counter()
        self.served: Counter[str] = Counter()
        self.received_by_kind: Counter[str] = Counter()
        self.served_by_kind: Counter[str] = Counter()
        self.input_tokens: Counter[str] = Counter()
        self.output_tokens: Counter[str] = Counter()
        self.cached_tokens: Counter[str] = Counter()
        self.thinking_tokens: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.broken_input_tokens: Counter[str] = Counter()
        self.broken_output_tokens: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.abandoned = 0

    def serve(self, model: str, kind: str, call_id: str | None, done: Completion) -> None:
        self.served[model] += 1
        self.served_by_kind[kind] += 1
        self.input_tokens[model] += done.input
        self.output_tokens[model] += done.output
        self.cached_tokens[model] += done.cached
        self.thinking_tokens[model] += done.thinking
        if call_id is not None:
            self.answers[call_id] += 1

    def break_off(self, model: str, done: Completion) -> None:
        self.broken[model] += 1
        self.broken_input_tokens[model] += done.input
        self.broken_output_tokens[model] += done.output

    def stats(self) -> Json:
        """``abandoned``: answers whose client was gone before they were written; ``broken``: by a fault of ours.

        ``repeated_ids``: ids answered 2xx more than once; ``surplus_answers``: answers beyond each id's first.
        """
        repeated = [times for times in self.answers.values() if times > 1]
        return {
            "received": sum(self.received.values()),
            "served": sum(self.served.values()),
            "received_by_model": self.received,
            "served_by_model": self.served,
            "received_by_kind": self.received_by_kind,
            "served_by_kind": self.served_by_kind,
            "input_tokens_by_model": self.input_tokens,
            "output_tokens_by_model": self.output_tokens,
            "cached_tokens_by_model": self.cached_tokens,
            "thinking_tokens_by_model": self.thinking_tokens,
            "broken": sum(self.broken.values()),
            "broken_by_model": self.broken,
            "broken_input_tokens_by_model": self.broken_input_tokens,
            "broken_output_tokens_by_model": self.broken_output_tokens,
            "statuses": {str(status): times for status, times in sorted(self.statuses.items())},
            "faults": self.faults,
            "abandoned": self.abandoned,
            "distinct_ids": len(self.ids),
            "answered_ids": len(self.answers),
            "repeated_ids": len(repeated),
            "surplus_answers": sum(repeated) - len(repeated),
        }

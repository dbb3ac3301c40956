"""What the simulator counts, in memory only: calls, answers, tokens, and how often each call id was answered."""

from collections import Counter

from deployments.simulator.exchange import Json


class Accounts:
    """A call is received when its request has been read, and served when a 2xx answer to it is fully written."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.received: Counter[str] = Counter()
        self.served: Counter[str] = Counter()
        self.received_by_kind: Counter[str] = Counter()
        self.served_by_kind: Counter[str] = Counter()
        self.input_tokens: Counter[str] = Counter()
        self.output_tokens: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.abandoned = 0

    def serve(self, model: str, kind: str, call_id: str | None, spent: tuple[int, int]) -> None:
        self.served[model] += 1
        self.served_by_kind[kind] += 1
        self.input_tokens[model] += spent[0]
        self.output_tokens[model] += spent[1]
        if call_id is not None:
            self.answers[call_id] += 1

    def stats(self) -> Json:
        """``abandoned``: answers whose client was gone before they were written.

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
            "statuses": {str(status): times for status, times in sorted(self.statuses.items())},
            "faults": self.faults,
            "abandoned": self.abandoned,
            "distinct_ids": len(self.ids),
            "answered_ids": len(self.answers),
            "repeated_ids": len(repeated),
            "surplus_answers": sum(repeated) - len(repeated),
        }

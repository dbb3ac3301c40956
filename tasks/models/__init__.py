"""The vendors' models behind one question: a ``Request`` in, a ``Reply`` out, never an exception."""

from tasks.models.exchange import Message, Reply, Request, Unsent, Usage
from tasks.models.outcomes import Outcome

__all__ = ["Message", "Outcome", "Reply", "Request", "Unsent", "Usage"]

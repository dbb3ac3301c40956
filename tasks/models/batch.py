"""A vendor's Batch API, the same for every vendor: hand in many requests, look in, fetch the answers by their ids.

An item's custom id is ``CALL_ID-SUBMISSION``: at most 64 letters, digits and dashes, which every vendor takes, and
the one thing by which a result is joined to its call. The submission's id also goes where the vendor keeps a
batch's name, so that a batch whose creation was never confirmed can be found again.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tasks.models.exchange import Reply, Request


@dataclass(frozen=True)
class BatchLimits:
    """What one batch may hold at this vendor: items, and bytes of all items together."""

    items: int
    bytes: int


@dataclass(frozen=True)
class Looked:
    """What the vendor says of a batch. ``status`` is its own word; a word that nobody knows is a batch not ended.

    ``error`` is why the whole batch failed before any item ran, as the reply that all its items get. A batch that
    failed and has results all the same has no ``error``.
    """

    ended: bool
    status: str
    error: Reply | None = None


@dataclass(frozen=True)
class Result:
    """One line of a batch's results. ``custom_id`` is None where the line has none.

    ``line`` is the line as it came, without any API key: what is kept of a result that belongs to no call.
    ``reply.raw`` is the part of it that an online answer would be, or the error, as it stands there.
    """

    custom_id: str | None
    reply: Reply
    line: str


class BatchFailure(Exception):
    """The vendor's Batch API could not be asked or said no. ``reply`` has the class, as for a single call."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.error)
        self.reply = reply


class BatchClient(Protocol):
    """The batches of one server. All methods raise ``BatchFailure``, and nothing else; no error holds an API key."""

    limits: BatchLimits

    def item(self, model: str, custom_id: str, request: Request) -> bytes:
        """The request as one line of a batch; its length counts towards ``limits.bytes``.

        It asks what the online client asks. One that cannot be made is a ``BatchFailure`` of the class rejected.
        """
        ...

    async def create(self, submission: str, model: str, items: Sequence[bytes]) -> str:
        """Create the batch of these items; the vendor's id of it.

        After a failure of the class server, timeout or connection there may be a batch: see ``find``.
        """
        ...

    async def find(
        self, submission: str, items: int, since: datetime, *, others: Collection[str] = frozenset()
    ) -> str | None:
        """The id of the batch that ``create`` made for this submission of so many items, if it made one.

        For the one whose answer never came. ``since`` is when ``create`` began. ``others`` are batches known to be
        of other submissions: where the vendor keeps no name (Anthropic), one of them that still runs and has as
        many items could not be told from this, which is a ``BatchFailure`` of the class server.
        """
        ...

    async def look(self, batch: str) -> Looked: ...

    def results(self, batch: str) -> AsyncIterator[Result]:
        """All results of an ended batch, those of an expired or cancelled one too, in no particular order.

        They come as they are downloaded. After a failure in the middle, those before it stand, and come again.
        """
        ...

    async def cancel(self, batch: str) -> None:
        """Ask for the batch's end, which comes later. A batch that has ended stays as it is."""
        ...

    async def aclose(self) -> None: ...

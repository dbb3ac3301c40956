"""What is known of each vendor batch: on disk before it is created, until its answers are in the ledger.

ledger/batches/SUBMISSION.json          its state; written anew at each change
ledger/batches/SUBMISSION.calls.jsonl   its calls, one a line: the columns their ledger records will share
ledger/batches/SUBMISSION.strays.jsonl  result lines that belong to no call of it, or came twice

creating -> running -> collected        the way of a batch
creating -> void                        the vendor made none: its calls are still to be done
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from storage.ledger import Record
from storage.workspace import WorkspaceError, now, write_bytes

CREATING, RUNNING, COLLECTED, VOID = "creating", "running", "collected", "void"


@dataclass
class VendorBatch:
    """One vendor batch. ``submission`` is our id of it, ``vendor_batch`` the vendor's, None until it is known.

    ``status`` is the vendor's own word, ``most_usd`` what all items may cost together, ``tokens`` about what they
    send; ``counts`` are its calls by class once they are collected.
    """

    submission: str
    model: str
    schema: str | None
    items: int
    tokens: int
    most_usd: float
    canary: bool
    state: str = CREATING
    vendor_batch: str | None = None
    status: str = ""
    created_at: str = field(default_factory=now)
    looked_at: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    strays: int = 0

    @property
    def open(self) -> bool:
        return self.state in (CREATING, RUNNING)


def save(root: Path, batch: VendorBatch) -> None:
    write_bytes(_place(root, batch.submission, "json"), orjson.dumps(asdict(batch), option=orjson.OPT_INDENT_2))


def load_batches(root: Path) -> list[VendorBatch]:
    """Every vendor batch of the workspace, the oldest first. A file that is no such state is a ``WorkspaceError``."""
    found = []
    for path in (root / "ledger" / "batches").glob("*.json"):
        try:
            found.append(VendorBatch(**orjson.loads(path.read_bytes())))
        except (orjson.JSONDecodeError, TypeError):
            raise WorkspaceError(
                f"{path}: damaged; put it back from a copy. Without one, delete it: what of its batch is not in the "
                "ledger will be asked and paid again"
            ) from None
    return sorted(found, key=lambda batch: (batch.created_at, batch.submission))


def save_calls(root: Path, submission: str, calls: Iterable[Record]) -> None:
    write_bytes(_place(root, submission, "calls.jsonl"), b"".join(orjson.dumps(call) + b"\n" for call in calls))


def load_calls(root: Path, batch: VendorBatch) -> list[Record]:
    """The batch's calls. Where the file does not have each of them, that is a ``WorkspaceError``."""
    path = _place(root, batch.submission, "calls.jsonl")
    try:
        calls = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    except (FileNotFoundError, orjson.JSONDecodeError):
        calls = []
    if len(calls) != batch.items:
        raise WorkspaceError(
            f"{path}: missing or damaged; put it back from a copy. Without one, delete it and "
            f"{batch.submission}.json: what of the batch is not in the ledger will be asked and paid again"
        )
    return calls


def save_strays(root: Path, submission: str, lines: Sequence[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
    write_bytes(_place(root, submission, "strays.jsonl"), data)


def _place(root: Path, submission: str, kind: str) -> Path:
    return root / "ledger" / "batches" / f"{submission}.{kind}"

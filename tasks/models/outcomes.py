"""What can happen to a call, and what is done about it.

class             what it is                                            remedy
ok                parsed and valid                                      none
rate_limited      429 for pace                                          wait; never counts as an attempt
quota             429 or 402 for money or quota                         stop the model
auth              401 or 403                                            stop the model
model_gone        404 for the model                                     stop the model
server            5xx, 408, 409                                         retry with backoff
timeout           no answer in time                                     retry with backoff
connection        reset, refused, or a body cut off                     retry with backoff
truncated         stopped at the output limit, thinking included        once more with a larger limit
refused           a refusal, a safety block, a blocked prompt           fail
empty             nothing, or only thinking                             once more
malformed         not the schema                                        ask again with the error
out_of_contract   in the schema's shape, outside its meaning            ask again with the error
too_long          the context overflows                                 fail
rejected          another 4xx: the request itself is wrong              fail
expired           an item of a vendor batch that never ran              again
cancelled         the same, since the batch was cancelled               again
missing           an item that its ended batch says nothing of          once more
abandoned         a call that failed ``give_up_after`` times in all     fail, until it is asked for by this name
"""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"
    AUTH = "auth"
    MODEL_GONE = "model_gone"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    EMPTY = "empty"
    MALFORMED = "malformed"
    OUT_OF_CONTRACT = "out_of_contract"
    TOO_LONG = "too_long"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    MISSING = "missing"
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class Remedy:
    """``tries``: attempts of this class before the call has failed. ``stops_model``: no further call is made to it.

    ``never_ran``: says nothing about the call, as what stops a model does not either; it is still to be done.
    """

    tries: int = 1
    backoff: bool = False
    larger_limit: bool = False
    shows_error: bool = False
    waits: bool = False
    stops_model: bool = False
    never_ran: bool = False


_BACKOFF = Remedy(tries=5, backoff=True)
_STOP = Remedy(stops_model=True)
_SHOW_ERROR = Remedy(tries=3, shows_error=True)

REMEDIES: dict[Outcome, Remedy] = {
    Outcome.OK: Remedy(),
    Outcome.RATE_LIMITED: Remedy(waits=True),
    Outcome.QUOTA: _STOP,
    Outcome.AUTH: _STOP,
    Outcome.MODEL_GONE: _STOP,
    Outcome.SERVER: _BACKOFF,
    Outcome.TIMEOUT: _BACKOFF,
    Outcome.CONNECTION: _BACKOFF,
    Outcome.TRUNCATED: Remedy(tries=2, larger_limit=True),
    Outcome.REFUSED: Remedy(),
    Outcome.EMPTY: Remedy(tries=2),
    Outcome.MALFORMED: _SHOW_ERROR,
    Outcome.OUT_OF_CONTRACT: _SHOW_ERROR,
    Outcome.TOO_LONG: Remedy(),
    Outcome.REJECTED: Remedy(),
    Outcome.EXPIRED: Remedy(never_ran=True),
    Outcome.CANCELLED: Remedy(never_ran=True),
    Outcome.MISSING: Remedy(tries=2),
    Outcome.ABANDONED: Remedy(),
}

# Answers that no vendor bills. A call that timed out or broke off may have been billed.
UNBILLED = frozenset(
    {
        Outcome.RATE_LIMITED,
        Outcome.QUOTA,
        Outcome.AUTH,
        Outcome.MODEL_GONE,
        Outcome.SERVER,
        Outcome.TOO_LONG,
        Outcome.REJECTED,
        Outcome.EXPIRED,
        Outcome.CANCELLED,
    }
)

# What says that the server gave no answer just now: where nothing else comes, the model stalls.
UNANSWERED = frozenset({Outcome.RATE_LIMITED, Outcome.SERVER, Outcome.TIMEOUT, Outcome.CONNECTION})

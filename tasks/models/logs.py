"""No log shows an API key: SDKs and HTTP libraries write headers, addresses and causes into theirs.

A key is hidden in every record of the process, whoever logs it and wherever it goes.
"""

import logging
import traceback
from typing import Any

from tasks.models.envelope import without_key

_keys: set[str] = set()
_make = logging.getLogRecordFactory()


def hide_in_logs(key: str) -> None:
    """Put ``[key]`` for this key into all that is logged from now on."""
    _keys.add(key)
    logging.setLogRecordFactory(_record)


def _record(*arguments: Any, **named: Any) -> logging.LogRecord:
    record = _make(*arguments, **named)
    try:
        said = record.getMessage()
    except Exception:  # the handler reports it
        return record
    if (shown := _without_keys(said)) != said:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (shown := _without_keys(trace)) != trace:
            record.exc_info, record.exc_text = None, shown
    return record


def _without_keys(text: str) -> str:
    for key in _keys:
        text = without_key(text, key)
    return text

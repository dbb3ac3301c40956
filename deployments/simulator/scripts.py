"""Scripts: which fault the next requests with a call id, or of a model, get, in order."""

from collections import deque
from typing import Any

from deployments.simulator.exchange import Json
from deployments.simulator.faults import BY_NAME, Fault


class ScriptError(Exception):
    """A script is not one; the message says what is wrong with it."""


class Scripts:
    """``{"call-7": ["fault_500", "ok"], "sim-judge-a": ["fault_429"]}``: a call id goes before a model's name.

    A request counts when the limits have let it through. What a script names no rate strikes, also after its end.
    """

    def __init__(self) -> None:
        self._left: dict[str, deque[Fault | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, body: Json) -> None:
        """Take the scripts of ``{"script": {...}}``, each in place of an older one. Raises ``ScriptError``."""
        script = body.get("script")
        if not isinstance(script, dict) or set(body) != {"script"}:
            raise ScriptError('a script is {"script": {"<call id or model>": ["fault_500", "ok", ...], ...}}')
        self._left |= {name: _faults(name, entries) for name, entries in script.items()}

    def clear(self) -> None:
        self._left = {}

    def next(self, call: str, model: str) -> tuple[bool, Fault | None]:
        """Whether a script names this request, and the fault that it sets for it."""
        named = [self._left[name] for name in (call, model) if name in self._left]
        faults = [left.popleft() if left else None for left in named]
        return bool(named), faults[0] if faults else None


def _faults(name: str, entries: Any) -> deque[Fault | None]:
    if not isinstance(entries, list):
        raise ScriptError(f"{name}: {entries!r} is not a list of faults")
    for entry in entries:
        if not isinstance(entry, str) or (entry != "ok" and entry not in BY_NAME):
            raise ScriptError(f"{name}: {entry!r} is no fault (there are ok, {', '.join(BY_NAME)})")
    return deque(BY_NAME.get(entry) for entry in entries)

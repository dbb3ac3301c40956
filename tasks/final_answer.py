r"""The final answer inside a worked solution, by the two marks that data sets use: ``####`` and ``\boxed{}``."""

import re

_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace is a character of the answer and groups nothing
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def split_at_hashes(solution: str) -> tuple[str, str] | None:
    """What stands before and after the last ``####``; None where the mark or an answer after it is missing.

    Thousands commas are taken out of the answer: "1,080" and "1080" are one number.
    """
    worked, mark, final = solution.rpartition("####")
    final = _THOUSANDS.sub("", final.strip())
    return (worked.rstrip(), final) if mark and final else None


def last_boxed(solution: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` (or ``\fbox``), braces inside it matched; None where there is none.

    A box that never closes, an empty one, and one without braces (``\boxed 7``, where TeX would box one
    character) are passed over for the one before.
    """
    for box in reversed(list(_BOX.finditer(solution))):
        depth = 1
        for brace in _BRACE.finditer(solution, box.end()):
            depth += {"{": 1, "}": -1}.get(brace.group(), 0)
            if depth == 0:
                content = solution[box.end() : brace.start()].strip()
                if content:
                    return content
                break
    return None

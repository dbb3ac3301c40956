"""Functions compiled by Numba. Their machine code is kept in ``__pycache__`` beside their file.

Where that folder cannot be written to, Numba keeps it in the user's cache folder (or where NUMBA_CACHE_DIR says), and
where there is none either, it compiles anew in each process (some ten seconds for all of the lexical filters).
A kernel calls only kernels of its own file: the kept code of another file's would not see a change.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """``function`` compiled, free of the interpreter's lock while it runs."""
    try:
        return cast(Function, njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder to keep it in
        return cast(Function, njit(nogil=True)(function))

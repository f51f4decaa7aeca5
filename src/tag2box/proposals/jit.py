"""Numba's compiler where it is installed; elsewhere the same functions run as plain Python: equal, and far slower."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

try:
    from numba import njit

    COMPILED = True
except ImportError:
    COMPILED = False


def compiled(function: Function) -> Function:
    """Compile a function of arrays and numbers on its first call; the machine code is kept on disk for later runs.

    No `fastmath`: sums keep their order, so that every machine gets the same boxes.
    """
    return njit(cache=True, nogil=True)(function) if COMPILED else function

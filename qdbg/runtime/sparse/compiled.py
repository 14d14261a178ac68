"""How the functions of this package are compiled: to plain machine code that knows nothing of Python.

Without numba's reference counts (they are atomic, and took a third of a forward pass) no function can
make an array: all memory comes from the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

#: Everything that has been handed to `compiled`.
FUNCTIONS: list[Any] = []
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function when an entry that calls it is compiled."""
    inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    FUNCTIONS.append(numba.njit(**_OPTIONS, **inner, **options)(function))
    return FUNCTIONS[-1]


def reordered(function: Callable[..., Any]) -> Any:
    """The same for a sum whose terms may be added in any order, so that it vectorises."""
    return compiled(function, fastmath={"reassoc"})


def reached(entry: Callable[..., Any]) -> list[Any]:
    """The compiled functions that an entry calls, directly or not."""
    found: list[Any] = []
    open_ = [entry]
    while open_:
        function = open_.pop()
        for name in function.__code__.co_names:
            called: Any = function.__globals__.get(name)
            if any(called is known for known in FUNCTIONS) and called not in found:
                found.append(called)
                open_.append(called.py_func)
    return found


def llvm_of(entry: Callable[..., int]) -> tuple[str, str]:
    """(LLVM assembly, symbol) of an entry and all that it calls: three int64 in, one out."""
    made = numba.cfunc("int64(int64, int64, int64)", **_OPTIONS)(entry)
    return made.inspect_llvm(), made.native_name

"""Launches, the interpreter, engines, the debugging session.

For programs that only want to run PTX: `load_ptx` and `load_kernels` (see `qdbg.runtime.ptx`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdbg.runtime.ptx import (
        CompileError,
        Event,
        Fault,
        Kernels,
        LaunchError,
        LimitReached,
        Location,
        Printed,
        PtxError,
        PtxLaunch,
        SourceError,
        Thread,
        Unsupported,
        load_kernels,
        load_ptx,
    )

__all__ = [
    "CompileError",
    "Event",
    "Fault",
    "Kernels",
    "LaunchError",
    "LimitReached",
    "Location",
    "Printed",
    "PtxError",
    "PtxLaunch",
    "SourceError",
    "Thread",
    "Unsupported",
    "load_kernels",
    "load_ptx",
]


def __getattr__(name: str) -> Any:
    """Loads the interpreter when it is first asked for: most commands do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qdbg.runtime import ptx

    return getattr(ptx, name)

"""The PTX reference interpreter: what everything else is compared with."""

from qdbg.runtime.interpreter.bounds import ErrorBound
from qdbg.runtime.interpreter.decode import error_bound
from qdbg.runtime.interpreter.errors import Fault, LimitReached, Unsupported
from qdbg.runtime.interpreter.findings import Finding
from qdbg.runtime.interpreter.machine import Interpreter, Snapshot
from qdbg.runtime.interpreter.warp import Event, Printed, Warp

__all__ = [
    "ErrorBound",
    "Event",
    "Fault",
    "Finding",
    "Interpreter",
    "LimitReached",
    "Printed",
    "Snapshot",
    "Unsupported",
    "Warp",
    "error_bound",
]

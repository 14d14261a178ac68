"""How far the hardware's result of an approximate instruction may be from the exact value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.interpreter.formats import Format

#: The largest absolute error, from the exact value and the operands (float64 arrays).
Tolerance = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The error that the PTX ISA states for an instruction: in words, e.g. "2 ulp", and as a function."""

    statement: str
    format: Format
    tolerance: Tolerance

    def admits(self, found: Any, computed: Any, *operands: Any) -> NDArray[np.bool_]:
        """Where `found` may be the hardware's result, bool [n].

        computed: the interpreter's result, the correctly rounded value (half a unit is allowed for that);
        operands: the sources.  All are arrays [n] as `Format.to_f64` takes them.  NaN admits NaN.  A zero or
        infinity that comes from a zero or infinite operand is listed in the ISA and must be met.  Where the
        tolerance is infinite the ISA leaves the result open.
        """
        with np.errstate(all="ignore"):
            got, ours = self.format.to_f64(found), self.format.to_f64(computed)
            sources = [self.format.to_f64(operand) for operand in operands]
            limit = np.exp2(np.float64(self.format.beyond))  # infinity for f64
            listed = np.zeros(len(ours), np.bool_)
            allowed = self.tolerance(ours, *sources) + unit(ours, self.format) / 2
            for source in sources:
                listed |= (source == 0) | np.isinf(source)
            listed &= (ours == 0) | np.isinf(ours)
            near = np.abs(np.clip(got, -limit, limit) - np.clip(ours, -limit, limit)) <= allowed
            same = (got == ours) & (np.signbit(got) == np.signbit(ours))
        return np.where(np.isnan(ours), np.isnan(got), same | (near & ~listed)) | np.isinf(allowed)


def unit(value: NDArray[np.float64], format_: Format) -> NDArray[np.float64]:
    """One unit in the last place of `value` in a format; that of the largest number for infinity."""
    _, exponent = np.frexp(np.where(np.isfinite(value), value, format_.largest))
    exponent = np.where(value == 0, format_.smallest, exponent)
    last = np.maximum(exponent - format_.precision, format_.smallest)
    return np.asarray(np.exp2(last.astype(np.float64)))


def ulps(count: float, format_: Format) -> ErrorBound:
    """`count` units in the last place."""
    return ErrorBound(f"{count:g} ulp", format_, lambda exact, *_: count * unit(exact, format_))


def relative(exponent: float, format_: Format) -> ErrorBound:
    """A relative error of 2**exponent."""
    factor = 2.0**exponent
    return ErrorBound(f"relative error 2^{exponent:g}", format_, lambda exact, *_: np.abs(exact) * factor)


def absolute(exponent: float, format_: Format) -> ErrorBound:
    """An absolute error of 2**exponent."""
    size = 2.0**exponent
    return ErrorBound(f"absolute error 2^{exponent:g}", format_, lambda exact, *_: np.full(len(exact), size))

"""Approximate instructions (PTX ISA 9.7.3 and 9.7.4: div, rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh).

Hardware generations differ in their last bits.  Here the result is the correctly rounded one, and the form
carries the error that the ISA allows, so that a comparison knows what it may forgive.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter import elementary, exact, rounding
from qdbg.runtime.interpreter.bounds import ErrorBound, absolute, relative, ulps
from qdbg.runtime.interpreter.elementary import Function, evaluate
from qdbg.runtime.interpreter.float32 import arithmetic, reciprocal
from qdbg.runtime.interpreter.float64 import exactly, with_payload
from qdbg.runtime.interpreter.formats import BF16, F16, F32, F64, Format, Mode
from qdbg.runtime.interpreter.forms import Array, Form, forms, packed
from qdbg.runtime.interpreter.patterns import flush_pattern, is_nan
from qdbg.runtime.interpreter.rounding import narrow, round_to_f32

# -- f32 --------------------------------------------------------------------------------------------------


def _divide(a: Array, b: Array, mode: Mode) -> Array:
    """a * (1/b), whose reciprocal is flushed to zero for |b| in (2^126, 2^128)."""
    vanishes = np.isfinite(b) & (np.abs(b) > np.float32(2.0**126))
    zero = np.copysign(np.float32(0), b)
    return np.where(vanishes, rounding.multiply(a, zero, mode), rounding.divide(a, b, mode))


def _within(limits: tuple[float, float]) -> Callable[..., Array]:
    """2 ulp where |b| lies within the limits; beyond them the result is exact or left open."""
    two = ulps(2, F32).tolerance

    def tolerance(value: Array, a: Array, b: Array) -> Array:
        size = np.abs(b)
        return np.where(size > limits[1], 0.0, np.where(size < limits[0], np.inf, two(value)))

    return tolerance


def _trigonometric(value: Array, angle: Array) -> Array:
    size = np.abs(angle)
    return np.where(size <= 2 * pi, 2.0**-20.5, np.where(size <= 100 * pi, 2.0**-14.7, 2.0))


def _logarithm(value: Array, x: Array) -> Array:
    return np.where((x > 0.5) & (x < 2), 2.0**-22, np.abs(value) * 2.0**-22)


DIVIDE = ErrorBound("2 ulp for |b| in [2^-126, 2^126]", F32, _within((2.0**-126, 2.0**126)))
SINE = ErrorBound(
    "absolute error 2^-20.5 within 2 pi, 2^-14.7 within 100 pi, none stated beyond", F32, _trigonometric
)
LOGARITHM = ErrorBound("absolute error 2^-22 in (0.5, 2), relative error 2^-22 outside", F32, _logarithm)


def _reciprocal_root(a: Array, mode: Mode) -> Array:
    bits = np.divide(np.float32(1), np.sqrt(a)).view(np.uint32)  # right for what is not a positive number
    lanes = np.flatnonzero(np.isfinite(a) & (a > 0))
    patterns = a.view(np.uint32)[lanes].tolist()
    bits[lanes] = [exact.reciprocal_square_root(x, F32, mode) for x in patterns]
    return bits.view(np.float32)


def _elementary(function: Function) -> Callable[[Array, Mode], Array]:
    def round_to(x: Array) -> Array:
        return round_to_f32(x, "rn").view(np.uint32)

    return lambda a, _mode: evaluate(function, a.astype(np.float64), F32, round_to).view(np.float32)


forms("div", "f32", "approx", "ftz?")(arithmetic(_divide, 2, DIVIDE))
forms("div", "f32", "full", "ftz?")(arithmetic(rounding.divide, 2, ulps(2, F32)))
forms("rcp", "f32", "approx", "ftz?")(arithmetic(reciprocal, 1, ulps(1, F32)))
forms("sqrt", "f32", "approx", "ftz?")(arithmetic(rounding.square_root, 1, relative(-23, F32)))
forms("rsqrt", "f32", "approx", "ftz?")(arithmetic(_reciprocal_root, 1, relative(-22.9, F32)))
for _opcode, _function, _error in (
    ("ex2", elementary.EXP2, ulps(2, F32)),
    ("lg2", elementary.LOG2, LOGARITHM),
    ("sin", elementary.SIN, SINE),
    ("cos", elementary.COS, SINE),
):
    forms(_opcode, "f32", "approx", "ftz?")(arithmetic(_elementary(_function), 1, _error))
forms("tanh", "f32", "approx")(arithmetic(_elementary(elementary.TANH), 1, relative(-11, F32)))

# -- f16 and bf16 -----------------------------------------------------------------------------------------


def _half(function: Function, format_: Format, error: ErrorBound) -> Callable[[Instruction], Form]:
    def make(instruction: Instruction) -> Form:
        type_name, ftz = instruction.types[0], instruction.has("ftz")

        def compute(bits: Array) -> Array:
            bits = flush_pattern(bits, format_) if ftz else bits
            found = evaluate(function, format_.to_f64(bits), format_, lambda x: narrow(x, format_, "rn"))
            return flush_pattern(found, format_) if ftz else found

        return Form((type_name,), type_name, packed(type_name, compute), error=error)

    return make


forms("ex2", "f16 f16x2", "approx")(_half(elementary.EXP2, F16, relative(-9.9, F16)))
forms("ex2", "bf16 bf16x2", "approx", "ftz")(_half(elementary.EXP2, BF16, relative(-7, BF16)))
forms("tanh", "f16 f16x2", "approx")(_half(elementary.TANH, F16, absolute(-10.987, F16)))
forms("tanh", "bf16 bf16x2", "approx")(_half(elementary.TANH, BF16, absolute(-8, BF16)))

# -- f64 --------------------------------------------------------------------------------------------------

#: The upper word of a f64, which is what the two gross approximations read and write.
UPPER = Format("the upper word of f64", 32, 21, 0x7FFFFFFF)
#: The ISA states no error for these; one unit of the words that they compute with is assumed.
_GROSS = ErrorBound(
    "none stated; a unit in the last place of the upper word", F64, lambda value, *_: np.abs(value) * 2.0**-20
)
_SOFTWARE = ErrorBound("none stated; 2 ulp", F64, ulps(2, F64).tolerance)


def _gross(operation: Callable[..., int], special: Callable[[Array], Array]) -> Callable[[Instruction], Form]:
    def compute(a: Array) -> Array:
        word = flush_pattern((a.view(np.uint64) >> np.uint64(32)).astype(np.uint32), UPPER)
        value = (word.astype(np.uint64) << np.uint64(32)).view(np.float64)
        result = (special(value).view(np.uint64) >> np.uint64(32)).astype(np.uint32)
        result = np.where(is_nan(result, UPPER), np.uint32(UPPER.nan), result)
        lanes = np.flatnonzero(np.isfinite(value) & (value != 0) & np.isfinite(special(value)))
        result[lanes] = [operation(x) for x in word[lanes].tolist()]
        return (flush_pattern(result, UPPER).astype(np.uint64) << np.uint64(32)).view(np.float64)

    return lambda _instruction: Form(("f64",), "f64", compute, error=_GROSS)


def _one_over(x: int) -> int:
    return exact.divide(0x3FF00000, x, UPPER, "rn")


def _one_over_root(x: int) -> int:
    return exact.reciprocal_square_root(x, UPPER, "rn")


def _inverse_root(a: Array) -> Array:
    return np.divide(1.0, np.sqrt(a))


forms("rcp", "f64", "approx", "ftz")(_gross(_one_over, np.reciprocal))
forms("rsqrt", "f64", "approx", "ftz")(_gross(_one_over_root, _inverse_root))


@forms("rsqrt", "f64", "approx")
def _rsqrt(instruction: Instruction) -> Form:
    def compute(a: Array) -> Array:
        positive = np.isfinite(a) & (a > 0)
        found = exactly(exact.reciprocal_square_root, positive, _inverse_root(a), (a,), "rn")
        return with_payload(found, a)

    return Form(("f64",), "f64", compute, error=_SOFTWARE)

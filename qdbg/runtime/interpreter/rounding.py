"""Exact arithmetic of f32 and the 16-bit formats in the four rounding modes, lane by lane, through f64.

A product of such numbers is exact in f64.  A sum of two f64 is not, but rounding it *to odd* (truncate, and
set the last bit if anything was lost) keeps all that a second rounding needs, because f64 has more than
two bits to spare.  So every operation rounds once, as IEEE 754 and PTX ask (PTX ISA 9.7.3 and 9.7.4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.formats import F16, F32, MODES, Format, Mode
from qdbg.runtime.interpreter.forms import Array

_SMALLEST_NORMAL = np.float32(2.0**-126)
_CANONICAL_NAN = np.uint32(F32.nan)
_INTEGRAL: dict[Mode, Callable[[Array], Array]] = {
    "rn": np.rint,  # ties to even
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
}


def rounding_mode(instruction: Instruction) -> Mode:
    """The rounding modifier; `rn` where there is none."""
    return next((m for m in MODES if instruction.has(m)), "rn")


def canonical(x: Array) -> Array:
    """f32 with every NaN replaced by the canonical one."""
    return np.where(np.isnan(x), _CANONICAL_NAN, x.view(np.uint32)).view(np.float32)


def flush(x: Array) -> Array:
    """f32 with subnormals replaced by zero of the same sign (`.ftz`)."""
    return np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def saturate_unit(x: Array) -> Array:
    """Clamped to [0, 1]; NaN and -0 give +0 (`.sat`)."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def correct(near: Array, above: Array, below: Array, mode: Mode) -> Array:
    """The float in a rounding mode, from the nearest and whether that is above or below the exact value."""
    if mode == "rn":
        return near
    down = np.nextafter(near, near.dtype.type(-np.inf))
    up = np.nextafter(near, near.dtype.type(np.inf))
    if mode == "rm":
        return np.where(above, down, near)
    if mode == "rp":
        return np.where(below, up, near)
    negative = np.signbit(near)
    return np.where(above & ~negative, down, np.where(below & negative, up, near))


def round_to_f32(exact: Array, mode: Mode) -> Array:
    """f64 values to f32."""
    near = exact.astype(np.float32)
    wide = near.astype(np.float64)
    return correct(near, wide > exact, wide < exact, mode)


def narrow(exact: Array, format_: Format, mode: Mode) -> Array:
    """f64 values as uint16 patterns of a 16-bit format; NaN becomes the canonical one."""
    _, exponent = np.frexp(exact)
    unit = np.maximum(exponent - format_.precision, format_.smallest)  # the exponent of the last place
    rounded = np.ldexp(_INTEGRAL[mode](np.ldexp(exact, -unit)), unit)
    over = (np.abs(rounded) > format_.largest) & np.isfinite(exact)
    negative = np.signbit(exact)
    stays = {"rn": False, "rz": True, "rm": ~negative, "rp": negative}[mode]
    limit = np.copysign(np.where(stays, format_.largest, np.inf), exact)
    value = np.where(over, limit, rounded)
    if format_ is F16:
        bits = value.astype(np.float16).view(np.uint16)
    else:
        bits = (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(exact), np.uint16(format_.nan), bits)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b of f64 to nearest, and the exact rest."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def sum_to_odd(a: Array, b: Array) -> Array:
    """a + b of f64, rounded to odd."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def fused_multiply_add(a: Array, b: Array, c: Array, mode: Mode) -> Array:
    """a * b + c of f32, rounded once."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    return _round_sum(product, addend, mode)


def add(a: Array, b: Array, mode: Mode) -> Array:
    """a + b of f32."""
    if mode == "rn":
        return np.add(a, b)
    return _round_sum(a.astype(np.float64), b.astype(np.float64), mode)


def multiply(a: Array, b: Array, mode: Mode) -> Array:
    """a * b of f32."""
    return (
        np.multiply(a, b) if mode == "rn" else round_to_f32(a.astype(np.float64) * b.astype(np.float64), mode)
    )


def divide(a: Array, b: Array, mode: Mode) -> Array:
    """a / b of f32: the nearest quotient, checked against the exact product in f64."""
    near = np.divide(a, b)
    back, wide = near.astype(np.float64) * b.astype(np.float64), a.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    larger, smaller = back > wide, back < wide
    flip = np.signbit(b)
    return correct(
        near, finite & np.where(flip, smaller, larger), finite & np.where(flip, larger, smaller), mode
    )


def square_root(a: Array, mode: Mode) -> Array:
    """The square root of f32, checked against the exact square in f64."""
    near = np.sqrt(a)
    back, wide = near.astype(np.float64) ** 2, a.astype(np.float64)
    finite = np.isfinite(a)
    return correct(near, finite & (back > wide), finite & (back < wide), mode)


def _round_sum(a: Array, b: Array, mode: Mode) -> Array:
    """a + b of f64 values, rounded once to f32."""
    odd = sum_to_odd(a, b)
    if mode == "rm":  # an exact zero from operands of different sign is -0 in this mode only
        odd = np.where((odd == 0) & (np.signbit(a) | np.signbit(b)), -0.0, odd)
    return round_to_f32(odd, mode)

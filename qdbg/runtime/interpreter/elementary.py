"""Correctly rounded elementary functions: 2^x, log2, sin, cos, tanh.

The C library gives a double that is off by a few units at most.  Where both ends of that uncertainty round
to the same number, it is the right one; otherwise, about once in 2^27 times, the function is computed
again with hundreds of bits in integers (Ziv's strategy).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qdbg.runtime.interpreter.exact import pack
from qdbg.runtime.interpreter.formats import Format
from qdbg.runtime.interpreter.forms import Array

#: Bits behind the binary point of the integers that stand for real numbers; a f32 has 149.
BITS = 384
ONE = 1 << BITS
#: What the C library's double may be off by, relatively: far more than any library in use.
UNCERTAINTY = 2.0**-49


def _series(first: int, step: Callable[[int, int], int]) -> int:
    """The sum of terms from `first` on, each from the one before and its number, until they vanish."""
    total, term, number = 0, first, 0
    while term:
        total += term
        number += 1
        term = step(term, number)
    return total


def _atanh(x: int) -> int:
    """Of |x| well below 1: x + x^3/3 + x^5/5 + ..."""
    if x < 0:
        return -_atanh(-x)
    square, power, total, divisor = x * x >> BITS, x, 0, 1
    while power // divisor:
        total += power // divisor
        power, divisor = power * square >> BITS, divisor + 2
    return total


def _arctangent_of_inverse(n: int, one: int) -> int:
    power, total, divisor, sign = one // n, 0, 1, 1
    while power:
        total += sign * (power // divisor)
        power, divisor, sign = power // (n * n), divisor + 2, -sign
    return total


LN2 = 2 * _atanh(ONE // 3)
#: pi with as many bits more as the largest f32 has (Machin's formula).
_PI_BITS = BITS + 160
PI = 16 * _arctangent_of_inverse(5, 1 << _PI_BITS) - 4 * _arctangent_of_inverse(239, 1 << _PI_BITS)


def _fixed(x: float, bits: int = BITS) -> int:
    """A double with no bit below 2^-bits."""
    numerator, denominator = x.as_integer_ratio()
    return (numerator << bits) // denominator


def _exp(x: int) -> tuple[int, int]:
    """e^x as (m, n): m * 2^n with m in [1, 2)."""
    n, rest = divmod(x, LN2)
    return _series(ONE, lambda term, number: (term * rest >> BITS) // number), n


def _exp2(x: float) -> tuple[int, int]:
    return _exp(_fixed(x) * LN2 >> BITS)


def _log2(x: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(x)
    m = _fixed(mantissa)
    return (exponent << BITS) + (2 * _atanh(((m - ONE) << BITS) // (m + ONE)) << BITS) // LN2, 0


def _angle(x: float) -> int:
    """x modulo 2 pi, in [0, 2 pi)."""
    return _fixed(x, _PI_BITS) % (2 * PI) >> (_PI_BITS - BITS)


def _sin(x: float) -> tuple[int, int]:
    angle = _angle(x)
    square = angle * angle >> BITS
    terms = _series(angle, lambda term, n: -(term * square >> BITS) // (2 * n * (2 * n + 1)))
    return terms, 0


def _cos(x: float) -> tuple[int, int]:
    angle = _angle(x)
    square = angle * angle >> BITS
    return _series(ONE, lambda term, n: -(term * square >> BITS) // ((2 * n - 1) * 2 * n)), 0


def _tanh(x: float) -> tuple[int, int]:
    m, n = _exp(2 * abs(_fixed(x)))
    power = m << n
    found = ((power - ONE) << BITS) // (power + ONE)
    return -found if x < 0 else found, 0


@dataclass(frozen=True)
class Function:
    """A function in the C library, in numpy, and in integers: (m, n) for m * 2^n, with BITS behind m's point.

    `domain` holds the operands to compute.  For 0 and beyond the domain numpy's value is right: there the
    function is a constant, infinite or undefined, or has long over- or underflowed in formats up to f32.
    """

    library: Callable[[float], float]
    special: Callable[[Array], Array]
    integers: Callable[[float], tuple[int, int]]
    domain: tuple[float, float] = (-math.inf, math.inf)


EXP2 = Function(math.exp2, np.exp2, _exp2, (-1000.0, 1000.0))
LOG2 = Function(math.log2, np.log2, _log2, (0.0, math.inf))
SIN = Function(math.sin, np.sin, _sin)
COS = Function(math.cos, np.cos, _cos)
TANH = Function(math.tanh, np.tanh, _tanh, (-50.0, 50.0))


def in_integers(function: Function, x: float, format_: Format) -> int:
    """The pattern of function(x) rounded to nearest; x other than 0, and in the function's domain."""
    if function is EXP2 and x.is_integer():
        return pack(False, 1, int(x), format_, "rn")  # may lie between two subnormals
    value, exponent = function.integers(x)
    if value >= 0:
        return pack(False, value, exponent - BITS, format_, "rn", lost=True)
    return pack(True, -value - 1, exponent - BITS, format_, "rn", lost=True)


def evaluate(function: Function, x: Array, format_: Format, round_to: Callable[[Array], Array]) -> Array:
    """function(x), rounded to nearest, as patterns of a format of at most 32 bits; x float64.

    round_to: rounds float64 to patterns of the format.
    """
    low, high = function.domain
    with np.errstate(all="ignore"):
        near = function.special(x)
        regular = np.flatnonzero((x != 0) & (x > low) & (x < high))
        near[regular] = [function.library(value) for value in x[regular].tolist()]
        margin = np.zeros(len(x))
        margin[regular] = UNCERTAINTY
        result = round_to(near * (1 - margin))
        doubtful = result != round_to(near * (1 + margin))
    for lane in np.flatnonzero(doubtful):
        result[lane] = in_integers(function, float(x[lane]), format_)
    return result

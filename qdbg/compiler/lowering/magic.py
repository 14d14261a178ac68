"""Division by constants, as a multiplication.

n // d is n * m >> p for a suitable m = ceil(2^p / d), or (n + 1) * m >> p with m = floor(2^p / d): one of
the two always fits a word.  Granlund and Montgomery, "Division by Invariant Integers using Multiplication"
(1994); Robison, "N-Bit Unsigned Division via N-Bit Multiply-Add" (2005).
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.wide import ZERO, Wide, WideMath, constant
from qdbg.compiler.machine.isa import Op

Emit = Callable[..., str]


def multiplier(d: int, bits: int) -> tuple[int, bool, int]:
    """(m, up, shift) such that n // d == (n * m + (0 if up else m)) >> bits + shift for all n < 2^bits.

    d: from 2 to 2^bits - 1; m has at most `bits` bits.
    """
    for shift in range(d.bit_length()):
        power = 1 << bits + shift
        up, down = -(-power // d), power // d
        if up * d - power <= 1 << shift and up < 1 << bits:
            return up, True, shift
        if power - down * d <= 1 << shift:
            return down, False, shift
    raise AssertionError(f"no multiplier divides by {d}")


def divided(op: Emit, n: Value, d: int) -> Value:
    """n // d of unsigned words; d is not 0."""
    if d & (d - 1) == 0:
        return op(Op.SHRU, n, d.bit_length() - 1)
    m, up, shift = multiplier(d, 32)
    return op(Op.SHRU, op(Op.MADH, n, m, 0 if up else m), shift)


def divided_signed(op: Emit, n: Value, d: int) -> Value:
    """n / d of signed words, truncated; d is not 0.  The floor of a negative quotient is 1 too low."""
    sign = op(Op.SHRS, n, 31)
    size = abs(d)
    if size & (size - 1) == 0:
        k = size.bit_length() - 1
        quotient: Value = op(Op.SHRS, op(Op.ADD, n, c=op(Op.SHRU, sign, 32 - k)), k)
        return quotient if d > 0 else op(Op.SUB, quotient)
    m, shift = _signed_multiplier(size)
    high = op(Op.MADS, n, m & MASK)
    if m >> 31:  # it was taken for m - 2^32
        high = op(Op.ADD, high, c=n)
    quotient = op(Op.SHRS, high, shift)
    return op(Op.SUB, sign, c=quotient) if d > 0 else op(Op.SUB, quotient, c=sign)


def _signed_multiplier(d: int) -> tuple[int, int]:
    """(m, shift) such that floor(n * m / 2^(32 + shift)) is n // d for 0 <= n < 2^31, and one less than the
    truncated n / d for -2^31 <= n < 0; m < 2^32."""
    for shift in range(32):
        power = 1 << 32 + shift
        m = -(-power // d)
        if (m * d - power) << 31 <= power:
            return m, shift
    raise AssertionError(f"no multiplier divides by {d}")


def divided_wide(math: WideMath, n: Wide, d: int, signed: bool, quotient: bool) -> Wide:
    """The quotient (or else the rest) of a 64-bit division by a constant; all ones for d = 0."""
    if d == 0:
        return Wide(MASK, MASK)
    size = abs(d)
    sign = math.op(Op.SHRS, n.high, 31) if signed else 0
    both = Wide(sign, sign)
    if signed and size & (size - 1) == 0:
        bias = math.shift_right(both, 64 - size.bit_length() + 1, False)
        found = math.shift_right(math.add(n, bias)[0], size.bit_length() - 1, True)
    elif signed:
        found = signed_as(math, _divided_wide(math, signed_as(math, n, both), size), both)
    else:
        found = _divided_wide(math, n, size)
    if not quotient:
        return math.multiply(found, constant(-size), n)
    return math.negated(found) if d < 0 else found


def signed_as(math: WideMath, value: Wide, sign: Wide) -> Wide:
    """-value where the sign is all ones, value where it is 0."""
    return math.sub(math.each(Op.XOR, value, sign), sign)[0]


def _divided_wide(math: WideMath, n: Wide, d: int) -> Wide:
    if d & (d - 1) == 0:
        return math.shift_right(n, d.bit_length() - 1, False)
    m, up, shift = multiplier(d, 64)
    high = math.multiply_high(n, constant(m), False, ZERO if up else constant(m))
    return math.shift_right(high, shift, False)

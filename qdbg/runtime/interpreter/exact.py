"""Floating-point operations on one pattern at a time, in Python's integers: exact, then rounded once.

A finite number is a signed integer times a power of two.  Every operation here gets the patterns of
finite operands, computes that form of its result (or of the result cut off, and whether anything was
lost) and rounds with `pack`, in any format and mode (IEEE 754-2008, 4.3).
"""

from __future__ import annotations

from math import isqrt

from qdbg.runtime.interpreter.formats import Format, Mode


def unpack(pattern: int, format_: Format) -> tuple[int, int]:
    """A finite pattern as (signed significand, exponent of its last place)."""
    magnitude = pattern & (format_.sign - 1)
    field, fraction = magnitude >> (format_.precision - 1), magnitude & ((1 << (format_.precision - 1)) - 1)
    significand = fraction + ((1 << (format_.precision - 1)) if field else 0)
    return (-significand if pattern & format_.sign else significand), max(field, 1) - 1 + format_.smallest


def pack(
    negative: bool, significand: int, exponent: int, format_: Format, mode: Mode, lost: bool = False
) -> int:
    """The pattern of `significand * 2**exponent`, rounded.

    `lost` says that the exact significand is larger by something between 0 and 1; it must then have two bits
    more than the format.
    """
    if significand == 0:
        return format_.sign if negative else 0
    significand, exponent = significand << 2 | lost, exponent - 2
    last = max(exponent + significand.bit_length() - format_.precision, format_.smallest)
    shift = last - exponent
    if shift <= 0:
        whole = significand << -shift
    else:
        whole, rest, half = significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)
        if mode == "rn":
            whole += rest > half or (rest == half and whole & 1)
        else:
            whole += rest != 0 and mode == ("rm" if negative else "rp")
    pattern = ((last - format_.smallest) << (format_.precision - 1)) + whole
    if pattern >= format_.infinity:
        away = mode == "rn" or mode == ("rm" if negative else "rp")
        pattern = format_.infinity if away else format_.infinity - 1
    return pattern | (format_.sign if negative else 0)


def fused_multiply_add(a: int, b: int, c: int, format_: Format, mode: Mode) -> int:
    """a * b + c."""
    (x, i), (y, j), (z, k) = unpack(a, format_), unpack(b, format_), unpack(c, format_)
    exponent = min(i + j, k)
    total = (x * y << i + j - exponent) + (z << k - exponent)
    if total == 0:  # of equal signs that sign, else positive except toward minus infinity
        signs = {(a ^ b) & format_.sign != 0, c & format_.sign != 0}
        return pack(mode == "rm" if len(signs) == 2 else signs.pop(), 0, 0, format_, mode)
    return pack(total < 0, abs(total), exponent, format_, mode)


def add(a: int, b: int, format_: Format, mode: Mode) -> int:
    """a + b."""
    return fused_multiply_add(a, _one(format_), b, format_, mode)


def multiply(a: int, b: int, format_: Format, mode: Mode) -> int:
    """a * b."""
    (x, i), (y, j) = unpack(a, format_), unpack(b, format_)
    return pack((a ^ b) & format_.sign != 0, abs(x * y), i + j, format_, mode)


def divide(a: int, b: int, format_: Format, mode: Mode) -> int:
    """a / b for b other than zero."""
    (x, i), (y, j) = unpack(a, format_), unpack(b, format_)
    extra = 2 * format_.precision + 2
    quotient, rest = divmod(abs(x) << extra, abs(y))
    return pack((a ^ b) & format_.sign != 0, quotient, i - j - extra, format_, mode, rest != 0)


def square_root(a: int, format_: Format, mode: Mode) -> int:
    """The square root of a positive number."""
    x, i = unpack(a, format_)
    extra = 2 * format_.precision + 2 + (i & 1)
    root = isqrt(x << extra)
    return pack(False, root, (i - extra) // 2, format_, mode, root * root != x << extra)


def reciprocal_square_root(a: int, format_: Format, mode: Mode) -> int:
    """1 / sqrt(a) of a positive number."""
    x, i = unpack(a, format_)
    extra = 4 * format_.precision + 4 + (i & 1)
    root = isqrt((1 << extra) // x)
    return pack(False, root, (-i - extra) // 2, format_, mode, root * root * x != 1 << extra)


def _one(format_: Format) -> int:
    """The pattern of 1."""
    return pack(False, 1, 0, format_, "rn")

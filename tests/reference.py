"""Binary floating point in Fractions: what the interpreter's arithmetic is tested against.

Written without a look at the interpreter: a number is a Fraction, and rounding compares it with the two
neighbouring patterns of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

MODES = ("rn", "rz", "rm", "rp")


class Place(NamedTuple):
    """Where a number lies among those of a format: the pattern of its size rounded down, and how far it is
    above that: 0 not at all, 1 less than half, 2 half, 3 more than half of the way to the next pattern.
    """

    negative: bool
    lower: int
    rest: int


def scaled(significand: int, exponent: int) -> Fraction:
    """significand * 2**exponent."""
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)


@dataclass(frozen=True, eq=False)
class Binary:
    """An IEEE 754 format: width, bits of significand with the hidden one, and the NaN of its operations.

    With `payloads` an operation on a NaN returns the first one among its operands, made quiet.
    """

    bits: int
    precision: int
    nan: int
    payloads: bool = False

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    def is_nan(self, pattern: int) -> bool:
        return pattern & (self.sign - 1) > self.infinity

    def is_infinite(self, pattern: int) -> bool:
        return pattern & (self.sign - 1) == self.infinity

    def negative(self, pattern: int) -> bool:
        return pattern >= self.sign

    def value(self, pattern: int) -> Fraction:
        """The number of a finite pattern; for infinity the power of two that would come next."""
        return _value(self, pattern)

    def place(self, exact: Fraction) -> Place:
        """Where a number lies between two neighbours."""
        size = abs(exact)
        lower = self._floor(size)
        below, above = size - self.value(lower), self.value(lower + 1) - size
        assert below >= 0
        assert above > 0 or lower + 1 == self.infinity
        return Place(
            exact < 0, lower, 0 if below == 0 else 1 if below < above else 2 if below == above else 3
        )

    def settle(self, place: Place, mode: str, negative_zero: bool = False) -> int:
        """One of the two neighbours, by the mode; a zero gets the sign that is said."""
        negative = negative_zero if place.lower == place.rest == 0 else place.negative
        if mode == "rn":
            up = place.rest == 3 or (place.rest == 2 and place.lower % 2 == 1)
        else:
            up = place.rest > 0 and mode == ("rm" if negative else "rp")
        return place.lower + up + (self.sign if negative else 0)

    def round(self, exact: Fraction | int, mode: str, negative_zero: bool = False) -> int:
        """The pattern of a number rounded in a mode; a zero gets the sign that is said."""
        return self.settle(_placed(self, exact), mode, negative_zero)

    def _floor(self, size: Fraction) -> int:
        """The largest finite pattern whose number is at most `size`."""
        if size >= self.value(self.infinity):
            return self.infinity - 1
        exponent = 1 - self.bias
        if size >= scaled(1, exponent):
            exponent = size.numerator.bit_length() - size.denominator.bit_length()
            exponent -= scaled(1, exponent) > size
        units = int(size / scaled(1, exponent - self.precision + 1))
        return units + ((exponent + self.bias - 1) << (self.precision - 1))

    # -- operations, from patterns to a pattern ---------------------------------------------------------

    def no_number(self, *operands: int) -> int:
        """The NaN that an operation on these operands gives."""
        first = next((x for x in operands if self.is_nan(x)), None)
        return self.nan if first is None or not self.payloads else first | 1 << (self.precision - 2)

    def fma(self, a: int, b: int, c: int, mode: str) -> int:
        if any(map(self.is_nan, (a, b, c))):
            return self.no_number(a, b, c)
        sign = (a ^ b) & self.sign
        if self.is_infinite(a) or self.is_infinite(b):
            opposite = self.is_infinite(c) and self.negative(c) != (sign != 0)
            nothing = opposite or 0 in (a & ~self.sign, b & ~self.sign)
            return self.no_number() if nothing else self.infinity | sign
        if self.is_infinite(c):
            return c
        same = self.negative(c) == (sign != 0)
        place = _sum(self, a, b, c)
        return self.settle(place, mode, self.negative(c) if same else mode == "rm")

    def add(self, a: int, b: int, mode: str) -> int:
        if self.is_nan(a) or self.is_nan(b):
            return self.no_number(a, b)
        return self.fma(a, self.bias << (self.precision - 1), b, mode)

    def sub(self, a: int, b: int, mode: str) -> int:
        return self.no_number(a, b) if self.is_nan(a) or self.is_nan(b) else self.add(a, b ^ self.sign, mode)

    def mul(self, a: int, b: int, mode: str) -> int:
        sign = (a ^ b) & self.sign
        if self.is_nan(a) or self.is_nan(b):
            return self.no_number(a, b)
        if self.is_infinite(a) or self.is_infinite(b):
            return self.no_number() if 0 in (a & ~self.sign, b & ~self.sign) else self.infinity | sign
        return self.settle(_product(self, a, b), mode, sign != 0)

    def div(self, a: int, b: int, mode: str) -> int:
        sign = (a ^ b) & self.sign
        if self.is_nan(a) or self.is_nan(b):
            return self.no_number(a, b)
        zeros = a & ~self.sign == 0, b & ~self.sign == 0
        if all(zeros) or (self.is_infinite(a) and self.is_infinite(b)):
            return self.no_number()
        if self.is_infinite(a) or zeros[1]:
            return self.infinity | sign
        return sign if self.is_infinite(b) else self.settle(_quotient(self, a, b), mode, sign != 0)

    def rcp(self, a: int, mode: str) -> int:
        return self.div(self.bias << (self.precision - 1), a, mode)

    def sqrt(self, a: int, mode: str) -> int:
        if self.is_nan(a) or a == self.sign or a & ~self.sign == 0:
            return self.no_number(a) if self.is_nan(a) else a
        if self.negative(a):
            return self.no_number()
        if self.is_infinite(a):
            return a
        return self.settle(_root(self, a), mode)

    def rsqrt(self, a: int) -> int:
        """1 / sqrt(a), rounded to nearest."""
        if self.is_nan(a) or (self.negative(a) and a != self.sign):
            return self.no_number(a)
        if a & ~self.sign == 0:
            return self.infinity | a
        if self.is_infinite(a):
            return 0
        square = 4**1200 / self.value(a)
        root = isqrt(square.numerator // square.denominator)
        return self.round(Fraction(2 * root + (root * root != square), 2 << 1200), "rn")

    def flush(self, pattern: int) -> int:
        """`.ftz`."""
        return pattern & self.sign if pattern & self.infinity == 0 else pattern

    def saturate(self, pattern: int) -> int:
        """`.sat`."""
        one = self.bias << (self.precision - 1)
        return 0 if self.is_nan(pattern) or self.negative(pattern) else min(pattern, one)

    def rectify(self, pattern: int) -> int:
        """`.relu`."""
        return 0 if self.negative(pattern) and not self.is_nan(pattern) else pattern

    def extreme(self, a: int, b: int, largest: bool, propagate: bool = False) -> int:
        """min or max: NaN is ignored, or wins; -0 is below +0."""
        numbers = [x for x in (a, b) if not self.is_nan(x)]
        if not numbers or (propagate and len(numbers) < 2):
            return self.no_number(a, b)
        key = {x: (self.value(x), not self.negative(x)) for x in numbers}
        return max(numbers, key=key.__getitem__) if largest else min(numbers, key=key.__getitem__)

    def narrowed(self, exact: Fraction | None, pattern: int, source: Binary, mode: str) -> int:
        """A number of another format, `exact` or None for NaN and infinity, in this one."""
        if exact is not None:
            return self.settle(_placed(self, exact), mode, source.negative(pattern))
        return self.nan if source.is_nan(pattern) else self.infinity | (self.sign * source.negative(pattern))

    def exact(self, pattern: int) -> Fraction | None:
        """The number of a pattern, None for NaN and infinity."""
        return None if pattern & self.infinity == self.infinity else self.value(pattern)


# Kept for the next row of a table, which has the same operands in another mode.


@lru_cache(maxsize=1 << 17)
def _value(binary: Binary, pattern: int) -> Fraction:
    exponent, fraction = divmod(pattern & (binary.sign - 1), 1 << (binary.precision - 1))
    significand = fraction + ((1 << (binary.precision - 1)) if exponent else 0)
    size = scaled(significand, max(exponent, 1) - binary.bias - binary.precision + 1)
    return -size if binary.negative(pattern) else size


@lru_cache(maxsize=1 << 14)
def _placed(binary: Binary, exact: Fraction | int) -> Place:
    return binary.place(Fraction(exact))


@lru_cache(maxsize=1 << 17)
def _sum(binary: Binary, a: int, b: int, c: int) -> Place:
    return binary.place(binary.value(a) * binary.value(b) + binary.value(c))


@lru_cache(maxsize=1 << 17)
def _product(binary: Binary, a: int, b: int) -> Place:
    return binary.place(binary.value(a) * binary.value(b))


@lru_cache(maxsize=1 << 17)
def _quotient(binary: Binary, a: int, b: int) -> Place:
    return binary.place(binary.value(a) / binary.value(b))


@lru_cache(maxsize=1 << 17)
def _root(binary: Binary, a: int) -> Place:
    square = binary.value(a) * 4**1200  # an integer: no format has a bit below 2^-1074
    root = isqrt(square.numerator)
    # Half a unit stands for what lies below: no root is halfway between two numbers of the format.
    return binary.place(Fraction(2 * root + (root * root != square.numerator), 2 << 1200))


F16 = Binary(16, 11, 0x7FFF)
BF16 = Binary(16, 8, 0x7FFF)
F32 = Binary(32, 24, 0x7FFFFFFF)
F64 = Binary(64, 53, 0xFFF8000000000000, payloads=True)
BINARIES = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def signed(value: int, bits: int) -> int:
    """The two's complement meaning of the low `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def decode(value: int, type_name: str) -> int:
    """The number that a pattern means in an integer type."""
    bits = int(type_name[1:])
    return signed(value, bits) if type_name[0] == "s" else value & (1 << bits) - 1


def limits(type_name: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    bits = int(type_name[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_name[0] == "s" else (0, (1 << bits) - 1)


def clamp(value: int, type_name: str) -> int:
    """The nearest number of an integer type."""
    low, high = limits(type_name)
    return max(low, min(high, value))

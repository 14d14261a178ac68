"""f32 instructions against exact rational arithmetic, in every rounding mode."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from ptx_runner import apply

CASES = 256
NAN = 0x7FFFFFFF
INF = 0x7F800000
SIGN = 1 << 31
CORNERS = [0, 1, 2, 0x007FFFFF, 0x00800000, 0x00800001, 0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x34000000,
           0x7F7FFFFF, INF, 0x7FC00000, 0x7F800001, 0x4B800000, 0x3F000000, 0x40490FDB]  # fmt: skip


def operands(seed: int) -> list[int]:
    """Corners of both signs, numbers near 1 (so that sums cancel and products tie) and random bits."""
    rng = random.Random(seed)

    def one() -> int:
        kind = rng.random()
        if kind < 0.4:
            bits = rng.choice(CORNERS)
        elif kind < 0.7:
            bits = 0x3F000000 + rng.getrandbits(26)
        else:
            bits = rng.getrandbits(31)
        return bits | rng.getrandbits(1) << 31

    return [one() for _ in range(CASES)]


def is_nan(bits: int) -> bool:
    return bits & 0x7FFFFFFF > INF


def value(bits: int) -> Fraction | None:
    """The exact value of a finite pattern; None for infinities and NaN."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return None
    significand = Fraction(fraction + (1 << 23 if exponent else 0))
    scaled = significand * Fraction(2) ** (max(exponent, 1) - 150)
    return -scaled if bits & SIGN else scaled


def round_exact(exact: Fraction, mode: str, negative_zero: bool = False) -> int:
    """The f32 pattern nearest to `exact` in a rounding mode, by integer arithmetic on the significand."""
    if exact == 0:
        return SIGN if negative_zero else 0
    negative, size = exact < 0, abs(exact)
    magnitude = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(-149, magnitude - 25)  # of the last place; -149 where the result is subnormal
    while size / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    units = size / Fraction(2) ** exponent
    whole, rest = units.numerator // units.denominator, units - units.numerator // units.denominator
    away = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    whole += away
    if whole == 1 << 24:
        whole, exponent = 1 << 23, exponent + 1
    if exponent > 104:  # beyond the largest finite number
        infinite = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
        pattern = INF if infinite else 0x7F7FFFFF
    elif whole < 1 << 23:
        pattern = whole
    else:
        pattern = (exponent + 150 << 23) + whole - (1 << 23)
    return pattern | (SIGN if negative else 0)


def flush(bits: int) -> int:
    return bits & SIGN if bits & 0x7F800000 == 0 else bits


def add(a: int, b: int, mode: str) -> int:
    if is_nan(a) or is_nan(b):
        return NAN
    x, y = value(a), value(b)
    if x is None or y is None:
        if x is None and y is None:
            return a if a == b else NAN
        return a if x is None else b
    zero_is_negative = (a & b & SIGN != 0) if a & SIGN == b & SIGN else mode == "rm"
    return round_exact(x + y, mode, zero_is_negative)


def multiply(a: int, b: int, mode: str) -> int:
    sign = (a ^ b) & SIGN
    if is_nan(a) or is_nan(b):
        return NAN
    x, y = value(a), value(b)
    if x is None or y is None:
        return NAN if 0 in (x, y) else INF | sign
    return round_exact(x * y, mode, sign != 0)


def fused(a: int, b: int, c: int, mode: str) -> int:
    if is_nan(a) or is_nan(b) or is_nan(c):
        return NAN
    x, y, z = value(a), value(b), value(c)
    sign = (a ^ b) & SIGN
    if x is None or y is None:
        return NAN if 0 in (x, y) or (z is None and (c ^ sign) & SIGN) else INF | sign
    if z is None:
        return c
    zero_is_negative = bool(sign) if sign == c & SIGN else mode == "rm"
    return round_exact(x * y + z, mode, zero_is_negative)


def divide(a: int, b: int, mode: str) -> int:
    sign = (a ^ b) & SIGN
    if is_nan(a) or is_nan(b):
        return NAN
    x, y = value(a), value(b)
    if x is None:
        return NAN if y is None else INF | sign
    if y is None:
        return sign
    if y == 0:
        return NAN if x == 0 else INF | sign
    return round_exact(x / y, mode, sign != 0)


def square_root(a: int, mode: str) -> int:
    x = value(a)
    if is_nan(a) or (a & SIGN and a != SIGN):
        return NAN
    if not x:
        return a
    scaled = x * Fraction(4) ** 200  # an integer: f32 has no bit below 2^-149
    root = isqrt(scaled.numerator)
    # Half a unit at 2^-200 stands for whatever lies below: no root of an f32 is halfway between two.
    exact = Fraction(2 * root + (root * root != scaled.numerator), 2) / Fraction(2) ** 200
    return round_exact(exact, mode)


def check(
    instruction: str, arity: int, expected: Callable[..., int], ftz: bool = False, columns: int = 0
) -> None:
    inputs = [operands(seed) for seed in range(arity)]
    arrays = [np.array(column, dtype=np.uint32) for column in inputs]
    got = apply(instruction, ("b32",) * arity, "b32", *arrays).tolist()
    for row, actual in enumerate(got):
        values = [column[row] for column in inputs]
        want = flush(expected(*map(flush, values))) if ftz else expected(*values)
        assert f"{actual:08x}" == f"{want:08x}", (instruction, [f"{v:08x}" for v in values])


ARITHMETIC: dict[str, tuple[int, Callable[..., int]]] = {
    "add": (2, add),
    "sub": (2, lambda a, b, mode: add(a, b if is_nan(b) else b ^ SIGN, mode)),
    "mul": (2, multiply),
    "fma": (3, fused),
    "div": (2, divide),
    "rcp": (1, lambda a, mode: divide(0x3F800000, a, mode)),
    "sqrt": (1, square_root),
}


@pytest.mark.parametrize("ftz", [False, True])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("opcode", ARITHMETIC)
def test_arithmetic(opcode: str, mode: str, ftz: bool) -> None:
    arity, expected = ARITHMETIC[opcode]
    sources = ", ".join(f"{{{i}}}" for i in range(arity))
    name = f"{opcode}.{mode}{'.ftz' if ftz else ''}.f32"
    check(f"{name} {{d}}, {sources}", arity, lambda *operands: expected(*operands, mode), ftz)


@pytest.mark.parametrize("opcode", ["add", "mul"])
def test_plain_forms_round_to_nearest_and_saturate(opcode: str) -> None:
    _, expected = ARITHMETIC[opcode]

    def saturated(a: int, b: int) -> int:
        result = expected(a, b, "rn")
        return 0 if is_nan(result) or result & SIGN else min(result, 0x3F800000)

    check(f"{opcode}.f32 {{d}}, {{0}}, {{1}}", 2, lambda a, b: expected(a, b, "rn"))
    check(f"{opcode}.sat.f32 {{d}}, {{0}}, {{1}}", 2, saturated)


def order(bits: int) -> int:
    """An integer that orders patterns as the numbers they stand for, -0 before +0."""
    return -(bits & 0x7FFFFFFF) - 1 if bits & SIGN else bits


@pytest.mark.parametrize(("opcode", "choose"), [("min", min), ("max", max)])
def test_extremes(opcode: str, choose: Callable[..., int]) -> None:
    def expected(a: int, b: int) -> int:
        numbers = [x for x in (a, b) if not is_nan(x)]
        return choose(numbers, key=order) if numbers else NAN

    def propagating(a: int, b: int) -> int:
        return NAN if is_nan(a) or is_nan(b) else choose(a, b, key=order)

    check(f"{opcode}.f32 {{d}}, {{0}}, {{1}}", 2, expected)
    check(f"{opcode}.ftz.f32 {{d}}, {{0}}, {{1}}", 2, expected, ftz=True)
    check(f"{opcode}.NaN.f32 {{d}}, {{0}}, {{1}}", 2, propagating)


def test_sign_operations_touch_the_sign_only() -> None:
    check("neg.f32 {d}, {0}", 1, lambda a: a ^ SIGN)
    check("abs.f32 {d}, {0}", 1, lambda a: a & ~SIGN)
    check("copysign.f32 {d}, {0}, {1}", 2, lambda a, b: a & SIGN | b & ~SIGN)


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu"]
)
def test_comparisons(name: str) -> None:
    plain: dict[str, Callable[[Fraction | float, Fraction | float], bool]] = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }

    def number(bits: int) -> Fraction | float:
        exact = value(bits)
        return exact if exact is not None else float("-inf" if bits & SIGN else "inf")

    def expected(a: int, b: int) -> int:
        if is_nan(a) or is_nan(b):
            return int(name.endswith("u"))
        return int(plain[name.removesuffix("u")](number(a), number(b)))

    check(f"setp.{name}.f32 %p1, {{0}}, {{1}}; selp.u32 {{d}}, 1, 0, %p1", 2, expected)


@pytest.mark.parametrize("name", ["num", "nan"])
def test_ordered_and_unordered(name: str) -> None:
    def expected(a: int, b: int) -> int:
        return int((is_nan(a) or is_nan(b)) == (name == "nan"))

    check(f"setp.{name}.f32 %p1, {{0}}, {{1}}; selp.u32 {{d}}, 1, 0, %p1", 2, expected)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["u32", "s32", "u64", "s64"])
def test_convert_from_integer(source: str, mode: str) -> None:
    bits = int(source[1:])
    rng = random.Random(bits)
    raw = [rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(CASES - 4)]
    raw += [(1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, (1 << 24) + 1]
    got = apply(
        f"cvt.{mode}.f32.{source} {{d}}, {{0}}", (source,), "b32", np.array(raw, dtype=f"u{bits // 8}")
    )
    for number, actual in zip(raw, got.tolist(), strict=True):
        signed = number - (1 << bits) if source[0] == "s" and number >> bits - 1 else number
        assert actual == round_exact(Fraction(signed), mode), (source, mode, number)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("to", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_convert_to_integer(to: str, mode: str) -> None:
    rng = random.Random(7)
    raw = operands(3)
    raw[: CASES // 2] = [
        rng.randrange(0x3E000000, 0x60000000) | rng.getrandbits(1) << 31 for _ in range(CASES // 2)
    ]
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    got = apply(f"cvt.{mode}.{to}.f32 {{d}}, {{0}}", ("b32",), to, np.array(raw, dtype=np.uint32))
    for pattern, actual in zip(raw, got.tolist(), strict=True):
        exact = value(pattern)
        if is_nan(pattern):
            want = 1 << 63 if bits == 64 else 0
        elif exact is None:
            want = low if pattern & SIGN else high
        else:
            floor = exact.numerator // exact.denominator
            whole = {
                "rni": round(exact),  # Python rounds ties to even
                "rzi": floor if exact >= 0 else -(-exact.numerator // exact.denominator),
                "rmi": floor,
                "rpi": -(-exact.numerator // exact.denominator),
            }[mode]
            want = max(low, min(high, whole))
        assert actual == want & (1 << bits) - 1, (to, mode, f"{pattern:08x}")


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing_from_f64(mode: str) -> None:
    rng = random.Random(11)
    numbers = [Fraction(rng.getrandbits(53)) * Fraction(2) ** rng.randrange(-210, 80) for _ in range(CASES)]
    wide = np.array([float(n) for n in numbers])
    got = apply(f"cvt.{mode}.f32.f64 {{d}}, {{0}}", ("b64",), "b32", wide.view(np.uint64)).tolist()
    assert got == [round_exact(n, mode) for n in numbers]

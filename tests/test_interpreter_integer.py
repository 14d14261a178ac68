"""Every integer instruction against exact Python integers, on corner and random operands."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from ptx_runner import apply

CASES = 256


def signed(value: int, bits: int) -> int:
    """The two's complement meaning of the low `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def decode(value: int, type_name: str) -> int:
    bits = int(type_name[1:])
    return signed(value, bits) if type_name[0] == "s" else value & (1 << bits) - 1


def clamp(value: int, type_name: str) -> int:
    bits = int(type_name[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_name[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def operands(bits: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Corners and their neighbours, small numbers, and random bits, in random order."""
    rng = random.Random(seed)
    top = 1 << bits
    corners = [
        0,
        1,
        2,
        3,
        top - 1,
        top - 2,
        top // 2,
        top // 2 - 1,
        top // 2 + 1,
        bits - 1,
        bits,
        bits + 1,
        255,
    ]
    values = [rng.choice(corners) if rng.random() < 0.5 else rng.getrandbits(bits) >> rng.randrange(bits)
              for _ in range(CASES)]  # fmt: skip
    return np.array([v % top for v in values], dtype=f"u{bits // 8}")


def check(instruction: str, types: tuple[str, ...], result: str, expected: Callable[..., int]) -> None:
    """Compare with `expected`, which gets the operands decoded by type, modulo the result's width."""
    columns = [operands(int(t[1:]), seed) for seed, t in enumerate(types)]
    got = apply(instruction, types, result, *columns)
    mask = (1 << int(result[1:])) - 1
    for row, actual in enumerate(got.tolist()):
        values = [decode(int(column[row]), t) for column, t in zip(columns, types, strict=True)]
        assert actual == expected(*values) & mask, (instruction, values)


def truncated_quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def truncated_remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * truncated_quotient(a, b)


ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": truncated_quotient,
    "rem": truncated_remainder,
}


@pytest.mark.parametrize("t", ALL)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode: str, t: str) -> None:
    check(f"{opcode}.{t} {{d}}, {{0}}, {{1}}", (t, t), t, BINARY[opcode])


@pytest.mark.parametrize("t", ALL)
def test_products(t: str) -> None:
    bits = int(t[1:])
    check(f"mul.hi.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a * b >> bits)
    check(f"mad.lo.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, lambda a, b, c: a * b + c)
    check(f"mad.hi.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, lambda a, b, c: (a * b >> bits) + c)
    if bits < 64:
        wide = f"{t[0]}{2 * bits}"
        check(f"mul.wide.{t} {{d}}, {{0}}, {{1}}", (t, t), wide, lambda a, b: a * b)
        check(f"mad.wide.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, wide), wide, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("t", ["u32", "s32"])
def test_24_bit_products(t: str) -> None:
    def low24(a: int) -> int:
        return decode(a, f"{t[0]}24")

    check(f"mul24.lo.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: low24(a) * low24(b))
    check(f"mul24.hi.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: low24(a) * low24(b) >> 16)
    check(f"mad24.lo.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, lambda a, b, c: low24(a) * low24(b) + c)


def test_saturation() -> None:
    t = "s32"
    check("add.sat.s32 {d}, {0}, {1}", (t, t), t, lambda a, b: clamp(a + b, t))
    check("sub.sat.s32 {d}, {0}, {1}", (t, t), t, lambda a, b: clamp(a - b, t))
    check("mad.hi.sat.s32 {d}, {0}, {1}, {2}", (t, t, t), t, lambda a, b, c: clamp((a * b >> 32) + c, t))


@pytest.mark.parametrize("t", ["s16", "s32", "s64"])
def test_sign(t: str) -> None:
    check(f"neg.{t} {{d}}, {{0}}", (t,), t, lambda a: -a)
    check(f"abs.{t} {{d}}, {{0}}", (t,), t, abs)


@pytest.mark.parametrize("t", ALL)
def test_sad(t: str) -> None:
    check(f"sad.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, lambda a, b, c: c + abs(a - b))


@pytest.mark.parametrize("t", ["b16", "b32", "b64"])
def test_logic(t: str) -> None:
    bits = int(t[1:])
    check(f"and.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a & b)
    check(f"or.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a | b)
    check(f"xor.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a ^ b)
    check(f"not.{t} {{d}}, {{0}}", (t,), t, lambda a: ~a)
    check(f"cnot.{t} {{d}}, {{0}}", (t,), t, lambda a: int(a == 0))
    check(f"shl.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t, lambda a, n: a << n if n < bits else 0)


@pytest.mark.parametrize("t", ALL)
def test_shift_right(t: str) -> None:
    check(f"shr.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t, lambda a, n: a >> min(n, 64))


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0x1E, 0xCA, 0x00, 0xFF, 0x5D])
def test_lop3(table: int) -> None:
    def expected(a: int, b: int, c: int) -> int:
        bits = ((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))
        return sum(bits)

    check(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table}", ("b32",) * 3, "b32", expected)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shift(mode: str) -> None:
    def count(n: int) -> int:
        return min(n, 32) if mode == "clamp" else n & 31

    t = ("b32", "b32", "u32")
    check(f"shf.l.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}}", t, "b32",
          lambda a, b, n: ((b << 32 | a) << count(n)) >> 32)  # fmt: skip
    check(f"shf.r.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}}", t, "b32", lambda a, b, n: (b << 32 | a) >> count(n))


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counts(bits: int) -> None:
    t = f"b{bits}"
    check(f"popc.{t} {{d}}, {{0}}", (t,), "u32", int.bit_count)
    check(f"clz.{t} {{d}}, {{0}}", (t,), "u32", lambda a: bits - a.bit_length())
    check(f"brev.{t} {{d}}, {{0}}", (t,), t, lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    for sign in "us":

        def highest(a: int) -> int:
            return (a if a >= 0 else ~a).bit_length() - 1

        def distance(a: int) -> int:
            return bits - 1 - highest(a) if highest(a) >= 0 else -1

        check(f"bfind.{sign}{bits} {{d}}, {{0}}", (f"{sign}{bits}",), "u32", highest)
        check(f"bfind.shiftamt.{sign}{bits} {{d}}, {{0}}", (f"{sign}{bits}",), "u32", distance)


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(t: str) -> None:
    def expected(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        if length == 0:
            return 0
        # An unbounded sign (or zeros) above the top bit is what PTX asks for beyond the most significant bit.
        field = (a >> position) & (1 << length) - 1
        return signed(field, length) if t[0] == "s" else field

    check(f"bfe.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, "u32", "u32"), t, expected)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert(bits: int) -> None:
    def expected(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        mask = ((1 << length) - 1 << position) & (1 << bits) - 1
        return b & ~mask | a << position & mask

    t = f"b{bits}"
    check(f"bfi.{t} {{d}}, {{0}}, {{1}}, {{2}}, {{3}}", (t, t, "u32", "u32"), t, expected)


def test_permute_bytes() -> None:
    def expected(a: int, b: int, c: int) -> int:
        data = (a | b << 32).to_bytes(8, "little")
        chosen = [(data[c >> 4 * i & 7], c >> 4 * i & 8) for i in range(4)]
        return int.from_bytes(
            bytes((0xFF if v >> 7 else 0) if replicate else v for v, replicate in chosen), "little"
        )

    check("prmt.b32 {d}, {0}, {1}, {2}", ("b32",) * 3, "b32", expected)


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains(bits: int) -> None:
    """A double-width sum, difference and product built from halves."""
    u, double = f"u{bits}", 2 * bits
    for low, high, place in (("{d}", "%x", 0), ("%x", "{d}", bits)):
        for opcode, function in (("add", int.__add__), ("sub", int.__sub__)):
            check_chain(
                f"{opcode}.cc.{u} {low}, {{0}}, {{2}}; {opcode}c.{u} {high}, {{1}}, {{3}}", bits,
                lambda a, b, f=function, place=place: f(a, b) % (1 << double) >> place,
            )  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_multiply_with_carry(bits: int) -> None:
    """The low word of a * b added to c, its carry into the high word."""
    scratch = {32: "%r15", 64: "%d15"}[bits]
    u = f"u{bits}"
    check(
        f"mad.lo.cc.{u} {scratch}, {{0}}, {{1}}, {{2}}; madc.hi.{u} {{d}}, {{0}}, {{1}}, {{2}}", (u, u, u), u,
        lambda a, b, c: (a * b >> bits) + c + ((a * b % (1 << bits)) + c >> bits),
    )  # fmt: skip


def check_chain(instructions: str, bits: int, expected: Callable[[int, int], int]) -> None:
    """Operands {0} and {1} are the low and high half of a, {2} and {3} those of b; %x is scratch."""
    scratch = {32: "%r15", 64: "%d15"}[bits]
    t = f"u{bits}"
    columns = [operands(bits, seed) for seed in range(4)]
    got = apply(instructions.replace("%x", scratch), (t,) * 4, t, *columns)
    for row, actual in enumerate(got.tolist()):
        a_low, a_high, b_low, b_high = (int(c[row]) for c in columns)
        value = expected(a_low | a_high << bits, b_low | b_high << bits)
        assert actual == value & (1 << bits) - 1, (instructions, a_low, a_high, b_low, b_high)


@pytest.mark.parametrize("to", ["u8", "s8", *ALL])
@pytest.mark.parametrize("source", ["u8", "s8", *ALL])
def test_convert(to: str, source: str) -> None:
    """An 8-bit result fills its 16-bit register: signed ones with their sign."""
    register = to if to[1:] != "8" else f"{to[0]}16"
    wide = source if source[1:] != "8" else f"{source[0]}16"

    def narrow(a: int) -> int:
        return decode(decode(a, source), to)

    def saturated(a: int) -> int:
        return clamp(decode(a, source), to)

    check(f"cvt.{to}.{source} {{d}}, {{0}}", (wide,), register, narrow)
    check(f"cvt.sat.{to}.{source} {{d}}, {{0}}", (wide,), register, saturated)


@pytest.mark.parametrize(("a", "b"), [("u32", "u32"), ("u32", "s32"), ("s32", "u32"), ("s32", "s32")])
def test_dot_products(a: str, b: str) -> None:
    result = "s32" if "s32" in (a, b) else "u32"

    def parts(value: int, t: str, bits: int) -> list[int]:
        return [decode(value >> i, f"{t[0]}{bits}") for i in range(0, 32, bits)]

    def four(x: int, y: int, c: int) -> int:
        return c + sum(p * q for p, q in zip(parts(x, a, 8), parts(y, b, 8), strict=True))

    check(f"dp4a.{a}.{b} {{d}}, {{0}}, {{1}}, {{2}}", ("b32", "b32", result), result, four)
    for half, start in (("lo", 0), ("hi", 2)):

        def two(x: int, y: int, c: int, start: int = start) -> int:
            return c + sum(
                p * q for p, q in zip(parts(x, a, 16), parts(y, b, 8)[start : start + 2], strict=True)
            )

        check(f"dp2a.{half}.{a}.{b} {{d}}, {{0}}, {{1}}, {{2}}", ("b32", "b32", result), result, two)


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@pytest.mark.parametrize(
    ("comparison", "t"),
    [(c, t) for c in (*COMPARISONS, *UNSIGNED) for t in ALL if c in COMPARISONS or t[0] == "u"],
)
def test_compare(comparison: str, t: str) -> None:
    holds = COMPARISONS[UNSIGNED.get(comparison, comparison)]
    check(
        f"setp.{comparison}.{t} %p1, {{0}}, {{1}}; selp.u32 {{d}}, 7, 9, %p1", (t, t), "u32",
        lambda a, b: 7 if holds(a, b) else 9,
    )  # fmt: skip
    check(f"set.{comparison}.u32.{t} {{d}}, {{0}}, {{1}}", (t, t), "u32", lambda a, b: -int(holds(a, b)))


@pytest.mark.parametrize("combination", ["and", "or", "xor"])
@pytest.mark.parametrize("negated", ["", "!"])
def test_compare_with_a_second_predicate(combination: str, negated: str) -> None:
    """p = cmp op c; q = not cmp op c."""
    combine: dict[str, Callable[[bool, bool], bool]] = {
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "xor": lambda a, b: a != b,
    }
    for taken, value in (("%p1", lambda h: h), ("%p2", lambda h: not h)):
        check(
            f"setp.ne.u32 %p3, {{2}}, 0; setp.lt.{combination}.s32 %p1|%p2, {{0}}, {{1}}, {negated}%p3; "
            f"selp.u32 {{d}}, 1, 0, {taken}",
            ("s32", "s32", "u32"), "u32",
            lambda a, b, c, value=value: int(
                combine[combination](value(a < b), (c != 0) != (negated == "!"))
            ),
        )  # fmt: skip

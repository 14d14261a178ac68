"""Integer instructions of 16, 32 and 64 bits in the emulator against exact integers."""

from __future__ import annotations

import pytest
from batches import M32, M64, Case, check, read, rows, signed

COMPARE = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
SIZES = (16, 32, 64)


def both(bits: int) -> tuple[str, str]:
    return f"u{bits}", f"s{bits}"


def clamped(value: int, bits: int) -> int:
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, value))


@pytest.mark.parametrize("bits", SIZES)
def test_sums_and_extremes(bits: int) -> None:
    cases = []
    for t in both(bits):
        cases += [
            Case(f"add.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a + b),
            Case(f"sub.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a - b),
            Case(f"sub.{t} {{d}}, {{0}}, 5", (t,), t, lambda a: a - 5),
            Case(f"min.{t} {{d}}, {{0}}, {{1}}", (t, t), t, min),
            Case(f"max.{t} {{d}}, {{0}}, {{1}}", (t, t), t, max),
            Case(f"sad.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, lambda a, b, c: c + abs(a - b)),
        ]
    t = f"s{bits}"
    cases += [
        Case(f"neg.{t} {{d}}, {{0}}", (t,), t, lambda a: -a),
        Case(f"abs.{t} {{d}}, {{0}}", (t,), t, abs),
    ]
    check(cases, rows(bits, 48))


def test_extremes_above_zero() -> None:
    types = ("s32", "s32")
    cases = [
        Case("min.relu.s32 {d}, {0}, {1}", types, "s32", lambda a, b: max(0, min(a, b))),
        Case("max.relu.s32 {d}, {0}, {1}", types, "s32", lambda a, b: max(0, a, b)),
    ]
    check(cases, rows(32, 60))


def test_saturation() -> None:
    types = ("s32", "s32", "s32")
    high = lambda a, b, c: clamped((a * b >> 32) + c, 32)  # noqa: E731
    cases = [
        Case("add.sat.s32 {d}, {0}, {1}", types[:2], "s32", lambda a, b: clamped(a + b, 32)),
        Case("sub.sat.s32 {d}, {0}, {1}", types[:2], "s32", lambda a, b: clamped(a - b, 32)),
        Case("mad.hi.sat.s32 {d}, {0}, {1}, {2}", types, "s32", high),
    ]
    check(cases, rows(32, 64))


@pytest.mark.parametrize("bits", SIZES)
def test_products(bits: int) -> None:
    cases = []
    for t in both(bits):
        three = (t, t, t)
        cases += [
            Case(f"mul.lo.{t} {{d}}, {{0}}, {{1}}", three[:2], t, lambda a, b: a * b),
            Case(f"mul.hi.{t} {{d}}, {{0}}, {{1}}", three[:2], t, lambda a, b: a * b >> bits),
            Case(f"mad.lo.{t} {{d}}, {{0}}, {{1}}, {{2}}", three, t, lambda a, b, c: a * b + c),
            Case(f"mad.hi.{t} {{d}}, {{0}}, {{1}}, {{2}}", three, t, lambda a, b, c: (a * b >> bits) + c),
            Case(f"mul.lo.{t} {{d}}, {{0}}, 8", three[:1], t, lambda a: a * 8),
        ]
        if bits < 64:
            double = t[0] + str(2 * bits)
            mad = lambda a, b, c: a * b + c  # noqa: E731
            cases += [
                Case(f"mul.wide.{t} {{d}}, {{0}}, {{1}}", three[:2], double, lambda a, b: a * b),
                Case(f"mad.wide.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, double), double, mad),
                Case(f"mul.wide.{t} {{d}}, {{0}}, 12", three[:1], double, lambda a: a * 12),
            ]
    check(cases, rows(bits, 48) if bits != 32 else [(a, b, c << 30 | c) for a, b, c in rows(32, 48)])


def test_24_bit_products() -> None:
    def low24(value: int, t: str) -> int:
        return signed(value, 24) if t[0] == "s" else value & 0xFFFFFF

    cases = []
    for t in both(32):
        for half, shift in (("lo", 0), ("hi", 16)):

            def product(a: int, b: int, c: int = 0, t: str = t, shift: int = shift) -> int:
                return (low24(a, t) * low24(b, t) >> shift) + c

            cases += [
                Case(f"mul24.{half}.{t} {{d}}, {{0}}, {{1}}", (t, t), t, product),
                Case(f"mad24.{half}.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, t), t, product),
            ]
    sat = lambda a, b, c: clamped(signed(signed(a, 24) * signed(b, 24) >> 16, 32) + c, 32)  # noqa: E731
    cases.append(Case("mad24.hi.sat.s32 {d}, {0}, {1}, {2}", ("s32",) * 3, "s32", sat))
    check(cases, rows(32, 48))


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains(bits: int) -> None:
    """The second instruction of a chain sees the flag of the first; the result is its own flag as well."""
    t, mask = f"u{bits}", (1 << bits) - 1
    flag = f"addc.{t} {{d}}, 0, 0"
    borrow = f"subc.{t} {{d}}, 0, 0"
    three = (t, t, t)

    def double(a: int, b: int, c: int) -> int:
        return (a + b >> bits) + c + a

    cases = [
        Case(f"add.cc.{t} {{d}}, {{0}}, {{1}}; {flag}", three[:2], t, lambda a, b: a + b >> bits),
        Case(f"add.cc.{t} {{d}}, {{0}}, {{1}}; addc.{t} {{d}}, {{0}}, {{2}}", three, t, double),
        Case(
            f"add.cc.{t} {{d}}, {{0}}, {{1}}; addc.cc.{t} {{d}}, {{0}}, {{2}}; {flag}",
            three, t, lambda a, b, c: double(a, b, c) >> bits,
        ),
        Case(f"sub.cc.{t} {{d}}, {{0}}, {{1}}; {borrow}", three[:2], t, lambda a, b: -(a < b)),
        Case(
            f"sub.cc.{t} {{d}}, {{0}}, {{1}}; subc.cc.{t} {{d}}, {{2}}, {{0}}; {borrow}",
            three, t, lambda a, b, c: -(c < a + (a < b)),
        ),
        Case(
            f"mad.lo.cc.{t} {{d}}, {{0}}, {{1}}, {{2}}; madc.hi.{t} {{d}}, {{0}}, {{1}}, {{2}}",
            three, t, lambda a, b, c: (a * b >> bits) + c + ((a * b & mask) + c >> bits),
        ),
        Case(
            f"add.cc.{t} {{d}}, {{0}}, {{1}}; madc.lo.cc.{t} {{d}}, {{0}}, {{1}}, {{2}}; {flag}",
            three, t, lambda a, b, c: (a * b & mask) + c + (a + b >> bits) >> bits,
        ),
    ]  # fmt: skip
    check(cases, rows(bits, 48))


def test_128_bit_product_by_a_carry_chain() -> None:
    """As compilers write it: the destination is a source of the next instruction."""
    text = "mul.lo.u64 {d}, {0}, {1}; mad.lo.cc.u64 {d}, {0}, {1}, {d}; madc.hi.u64 {d}, {0}, {1}, {d}"

    def expected(a: int, b: int) -> int:
        low = a * b & M64
        total = low + low
        return (a * b >> 64) + (total & M64) + (total >> 64)

    check([Case(text, ("u64", "u64"), "u64", expected)], rows(64, 48))


@pytest.mark.parametrize("bits", SIZES)
def test_comparisons(bits: int) -> None:
    cases = []
    for t in (*both(bits), f"b{bits}"):
        for name, compare in COMPARE.items():
            if t[0] == "b" and name not in ("eq", "ne"):
                continue
            cases.append(
                Case(
                    f"setp.{name}.{t} %p2, {{0}}, {{1}}; selp.u32 {{d}}, 3, 4, %p2",
                    (t, t), "u32", lambda a, b, compare=compare: 3 if compare(a, b) else 4,
                )
            )  # fmt: skip
    values = rows(bits, 40)
    check(cases, values + [(a, a, c) for a, _, c in values[:8]])


def test_set_and_slct() -> None:
    cases = [
        Case("set.lt.u32.s64 {d}, {0}, {1}", ("s64", "s64"), "u32", lambda a, b: -(a < b)),
        Case("set.gt.s32.u16 {d}, {0}, {1}", ("u16", "u16"), "s32", lambda a, b: -(a > b)),
        Case("set.hs.f32.u32 {d}, {0}, {1}", ("u32", "u32"), "u32", lambda a, b: 0x3F800000 * (a >= b)),
        Case("set.eq.and.u32.u64 {d}, {0}, {1}, !%p1", ("u64", "u64"), "u32", lambda a, b: 0),
        Case(
            "slct.u64.s32 {d}, {0}, {1}, {2}", ("u64", "u64", "s32"), "u64",
            lambda a, b, c: a if c >= 0 else b,
        ),
        Case(
            "slct.b32.f32 {d}, {0}, {1}, {2}", ("u32", "u32", "u32"), "u32",
            lambda a, b, c: a if c <= 0x7F800000 or c == 1 << 31 else b,
        ),
        Case(
            "slct.ftz.b32.f32 {d}, {0}, {1}, {2}", ("u32", "u32", "u32"), "u32",
            lambda a, b, c: a if c <= 0x7F800000 or c & 0xFF800000 == 1 << 31 else b,
        ),
        Case("selp.b64 {d}, {0}, {1}, !%p1", ("u64", "u64"), "u64", lambda a, b: b),
        Case("cnot.b64 {d}, {0}", ("u64",), "u64", lambda a: a == 0),
        Case("cnot.b16 {d}, {0}", ("u16",), "u16", lambda a: a == 0),
    ]  # fmt: skip
    floats = [
        0,
        1,
        0x3F800000,
        0x7F800000,
        0x7F800001,
        0x7FFFFFFF,
        1 << 31,
        (1 << 31) + 5,
        0x807FFFFF,
        0x80800000,
        M32,
    ]
    check(cases, [(a, b, c) for (a, b, _), c in zip(rows(64, 44), floats * 4, strict=True)])


_LIMITS = {name: (read(1 << int(name[1:]) - 1 if name[0] == "s" else 0, name),
                  read((1 << int(name[1:]) - (name[0] == "s")) - 1, name))
           for name in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")}  # fmt: skip


@pytest.mark.parametrize("source", _LIMITS)
def test_conversions(source: str) -> None:
    cases = []
    for to, (low, high) in _LIMITS.items():
        held = {"8": "32"}.get(to[1:], to[1:])  # an 8-bit result fills a wider register
        name = to[0] + held
        wrap = lambda a, to=to: read(a, to)  # noqa: E731
        clamp = lambda a, low=low, high=high: max(low, min(high, a))  # noqa: E731
        cases.append(Case(f"cvt.{to}.{source} {{d}}, {{0}}", (source,), name, wrap))
        cases.append(Case(f"cvt.sat.{to}.{source} {{d}}, {{0}}", (source,), name, clamp))
    edges = [v + d for low, high in _LIMITS.values() for v in (low, high) for d in (-1, 0, 1)]
    check(cases, [(v & M64, 0, 0) for v in sorted(set(edges))])


def test_moves_pack_and_unpack() -> None:
    check(
        [
            Case("mov.b64 {d}, {{{0}, {1}}}", ("u32", "u32"), "u64", lambda a, b: a | b << 32),
            Case("mov.b32 {d}, {{{0}, {1}}}", ("u16", "u16"), "u32", lambda a, b: a | b << 16),
            Case("mov.b64 {d}, {{{0}, {1}, {2}, {1}}}", ("u16",) * 3, "u64",
                 lambda a, b, c: a | b << 16 | c << 32 | b << 48),
            Case("mov.b64 {{_, {d}}}, {0}", ("u64",), "u32", lambda a: a >> 32),
            Case("mov.b64 {{{d}, %r6}}, {0}; xor.b32 {d}, {d}, %r6", ("u64",), "u32",
                 lambda a: (a ^ a >> 32) & M32),
            Case("mov.b64 {{%h1, %h2, %h3, {d}}}, {0}; add.u16 {d}, {d}, %h2", ("u64",), "u16",
                 lambda a: (a >> 48) + (a >> 16)),
            Case("mov.b32 {{%h1, {d}}}, {0}", ("u32",), "u16", lambda a: a >> 16),
            Case("mov.u64 {d}, -7", (), "u64", lambda: -7),
            Case("mov.b64 {d}, {0}", ("u64",), "u64", lambda a: a),
            Case("mov.b64 %d6, {{{0}, {0}}}; mov.b64 {{%r7, %r6}}, %d6; add.u32 {d}, %r6, %r7",
                 ("u32",), "u32", lambda a: 2 * a),
        ],
        rows(64, 32),
    )  # fmt: skip


def test_a_guard_keeps_both_halves_and_the_flag() -> None:
    """Half of the threads change the pair and the carry flag, the others keep what was there."""
    text = (
        "setp.lt.u64 %p2, {0}, {1}; mov.u64 {d}, {1}; add.cc.u32 %r6, 0, 0;"
        "@%p2 add.u64 {d}, {d}, {0}; @!%p2 add.cc.u32 %r6, -1, 1; addc.u32 %r6, 0, 0;"
        "cvt.u64.u32 %d6, %r6; shl.b64 %d6, %d6, 63; xor.b64 {d}, {d}, %d6"
    )

    def expected(a: int, b: int) -> int:
        return b + a if a < b else b ^ 1 << 63

    check([Case(text, ("u64", "u64"), "u64", expected)], rows(64, 40))

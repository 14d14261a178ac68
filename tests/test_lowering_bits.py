"""Logic, shifts, bit fields and byte permutation in the emulator against exact integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from batches import M32, Case, check, rows, signed

Binary = Callable[[int, int], int]


def left(a: int, n: int, bits: int) -> int:
    return a << n if n < bits else 0


def right(a: int, n: int) -> int:
    """A shift of a Python integer is arithmetic; the count is clamped (PTX ISA 9.7.8, shr)."""
    return a >> min(n, 64)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits: int) -> None:
    t = f"b{bits}"
    cases = [
        Case(f"and.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a & b),
        Case(f"or.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a | b),
        Case(f"xor.{t} {{d}}, {{0}}, {{1}}", (t, t), t, lambda a, b: a ^ b),
        Case(f"not.{t} {{d}}, {{0}}", (t,), t, lambda a: ~a),
    ]
    counts: list[str] = ["{2}", "0", "1", "3", "15", "16", "31", "32", "33", "40", "63", "64", "70"]
    for count in counts:
        types = (t, t, "u32")
        for kind, name in (("b", "shl"), ("u", "shr"), ("s", "shr")):
            own = kind + str(bits)
            one = (own, own, "u32")

            def expected(a: int, b: int, c: int, name: str = name, count: str = count) -> int:
                n = c if count == "{2}" else int(count)
                return left(a, n, bits) if name == "shl" else right(a, n)

            cases.append(
                Case(f"{name}.{own} {{d}}, {{0}}, {count}", one if kind != "b" else types, own, expected)
            )
    check(cases, rows(bits, 32))


def test_funnel_shifts() -> None:
    cases = []
    for side in "lr":
        for mode in ("clamp", "wrap"):
            for count in ("{2}", "0", "7", "31", "32", "45"):

                def expected(
                    a: int, b: int, c: int, side: str = side, mode: str = mode, count: str = count
                ) -> int:
                    n = c if count == "{2}" else int(count)
                    n = n % 32 if mode == "wrap" else min(n, 32)
                    both = b << 32 | a
                    return both << n >> 32 if side == "l" else both >> n

                cases.append(
                    Case(f"shf.{side}.{mode}.b32 {{d}}, {{0}}, {{1}}, {count}", ("u32",) * 3, "u32", expected)
                )
    check(cases, rows(32, 40))


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits: int) -> None:
    b, u, s = (f"{kind}{bits}" for kind in "bus")

    def highest(a: int) -> int:
        return (a if a >= 0 else ~a).bit_length() - 1

    def shift(a: int) -> int:
        return bits - 1 - highest(a) if highest(a) >= 0 else -1

    check(
        [
            Case(f"popc.{b} {{d}}, {{0}}", (b,), "u32", int.bit_count),
            Case(f"clz.{b} {{d}}, {{0}}", (b,), "u32", lambda a: bits - a.bit_length()),
            Case(f"brev.{b} {{d}}, {{0}}", (b,), b, lambda a: int(f"{a:0{bits}b}"[::-1], 2)),
            Case(f"bfind.{u} {{d}}, {{0}}", (u,), "u32", highest),
            Case(f"bfind.{s} {{d}}, {{0}}", (s,), "u32", highest),
            Case(f"bfind.shiftamt.{u} {{d}}, {{0}}", (u,), "u32", shift),
            Case(f"bfind.shiftamt.{s} {{d}}, {{0}}", (s,), "u32", shift),
        ],
        rows(bits, 64),
    )


def nth_one(mask: int, base: int, n: int) -> int:
    """The PTX ISA's pseudocode for fns; a base that is no bit of the mask finds nothing."""
    if base > 31:
        return -1
    if n == 0:
        return base if mask >> base & 1 else -1
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    ones = [place for place in places if mask >> place & 1]
    return ones[abs(n) - 1] if abs(n) <= len(ones) else -1


def test_finding_the_nth_one() -> None:
    masks = [0, M32, 1, 1 << 31, 0x80000001, 0xAAAAAAAA, 0x00FF0F10, 0x12345678]
    bases = [0, 1, 4, 15, 16, 30, 31, 32, 40]
    counts = [0, 1, 2, 3, 7, 16, 32, 33, M32, M32 - 1, M32 - 6, M32 - 31, M32 - 32, 1 << 31, (1 << 31) - 1]
    operands = [(mask, base, n) for mask in masks for base in bases for n in counts]
    types = ("u32", "u32", "s32")
    cases = [Case("fns.b32 {d}, {0}, {1}, {2}", types, "u32", nth_one)]
    fixed = [(0, 1), (31, -1), (8, 3), (20, -2), (5, 0), (0, 32)]
    cases += [
        Case(
            f"fns.b32 {{d}}, {{0}}, {base}, {n}", ("u32",), "u32",
            lambda mask, base=base, n=n: nth_one(mask, base, n),
        )
        for base, n in fixed
    ]  # fmt: skip
    for start in range(0, len(operands), 128):
        check(cases if start == 0 else cases[:1], operands[start : start + 128])
    check(cases, rows(32, 100))


FIELDS = [
    (0, 0), (0, 8), (0, 16), (4, 4), (3, 20), (24, 8), (28, 8), (16, 16), (31, 1), (40, 8), (0, 32), (8, 32),
    (0, 64), (20, 30), (32, 32), (60, 8), (255, 255), (264, 8), (33, 0), (63, 1),
]  # fmt: skip


def extracted(a: int, place: int, length: int, bits: int, is_signed: bool) -> int:
    """The field bit by bit, as the PTX ISA's pseudocode for bfe says."""
    place, length = place & 255, length & 255
    sign = 0 if not is_signed or length == 0 else a >> min(place + length - 1, bits - 1) & 1
    return sum((a >> place + n & 1 if n < length and place + n < bits else sign) << n for n in range(bits))


def inserted(a: int, b: int, place: int, length: int, bits: int) -> int:
    place, length = place & 255, length & 255
    for n in range(length):
        if place + n < bits:
            b = b & ~(1 << place + n) | (a >> n & 1) << place + n
    return b


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_at_known_places(bits: int) -> None:
    cases = []
    for place, length in FIELDS:
        for kind in "us":
            t = f"{kind}{bits}"
            cases.append(
                Case(
                    f"bfe.{t} {{d}}, {{0}}, {place}, {length}", (f"u{bits}",), t,
                    lambda a, p=place, n=length, k=kind: extracted(a, p, n, bits, k == "s"),
                )
            )  # fmt: skip
        t = f"b{bits}"
        cases.append(
            Case(
                f"bfi.{t} {{d}}, {{0}}, {{1}}, {place}, {length}", (t, t), t,
                lambda a, b, p=place, n=length: inserted(a, b, p, n, bits),
            )
        )  # fmt: skip
    check(cases, rows(bits, 16))


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_at_places_in_registers(bits: int) -> None:
    """The place is the second operand, or comes with the length in the third."""
    u, s, b = (f"{kind}{bits}" for kind in "usb")
    length = "shr.u32 %r6, {2}, 8;"
    cases = [
        Case(
            f"{length} bfe.{t} {{d}}, {{0}}, {{2}}, %r6", (u, u, "u32"), t,
            lambda x, y, c, t=t: extracted(x, c, c >> 8, bits, t[0] == "s"),
        )
        for t in (u, s)
    ]  # fmt: skip
    cases.append(
        Case(
            f"{length} bfi.{b} {{d}}, {{0}}, {{1}}, {{2}}, %r6", (b, b, "u32"), b,
            lambda x, y, c: inserted(x, y, c, c >> 8, bits),
        )
    )  # fmt: skip
    places = [place & 255 | (length & 255) << 8 for place, length in FIELDS]
    check(cases, [(x, y, c) for (x, y, _), c in zip(rows(bits, 3 * len(places)), places * 3, strict=True)])


def test_masks() -> None:
    def mask(place: int, length: int) -> int:
        return left((1 << min(length, 32)) - 1, place, 32)

    check(
        [
            Case("bmsk.clamp.b32 {d}, {2}, {1}", ("u32",) * 3, "u32", lambda a, b, c: mask(c, b)),
            Case("bmsk.wrap.b32 {d}, {2}, {1}", ("u32",) * 3, "u32", lambda a, b, c: mask(c % 32, b % 32)),
            Case("bmsk.clamp.b32 {d}, 4, {2}", ("u32",) * 3, "u32", lambda a, b, c: mask(4, c)),
        ],
        [*rows(32, 40), (0, 4, 32), (0, 32, 0)],
    )


def test_extension_from_any_length() -> None:
    """szext: the low bits, so many as the second operand says, as a number of its own (PTX ISA 9.7.1)."""
    cases = []
    for t in ("u32", "s32"):
        for mode in ("clamp", "wrap"):
            for length in ("{2}", "0", "1", "12", "31", "32", "33", "64"):

                def expected(
                    a: int, b: int, c: int, t: str = t, mode: str = mode, length: str = length
                ) -> int:
                    n = c if length == "{2}" else int(length)
                    n = n % 32 if mode == "wrap" else min(n, 32)
                    low = a & (1 << n) - 1
                    return signed(low, n) if n and t == "s32" else low

                text = f"szext.{mode}.{t} {{d}}, {{0}}, {length}"
                cases.append(Case(text, ("u32",) * 3, t, expected))
    check(cases, [*rows(32, 60), *((0xDEADBEEF, 0, n) for n in (0, 1, 31, 32, 33, M32))])


def test_copysign() -> None:
    top = 1 << 63
    case = Case("copysign.f64 {d}, {0}, {1}", ("u64",) * 2, "u64", lambda a, b: a & top | b & top - 1)
    check([case], rows(64, 32))


def permuted(a: int, b: int, digits: list[int]) -> int:
    source = b << 32 | a
    total = 0
    for place, digit in enumerate(digits):
        byte = source >> 8 * (digit & 7) & 255
        if digit & 8:
            byte = 255 * (byte >> 7)
        total |= byte << 8 * place
    return total


def digits_of(selector: int) -> list[int]:
    return [selector >> 4 * place & 15 for place in range(4)]


SELECTORS = [
    0x5410, 0x7632, 0x0123, 0x3210, 0x7654, 0x2103, 0x6543, 0x0000, 0x4440, 0x1076, 0xBA98, 0xF210, 0x04A8,
    0x7531, 0x4040, 0x3333, 0x0765,
]  # fmt: skip


def test_permutation() -> None:
    cases = [
        Case(
            f"prmt.b32 {{d}}, {{0}}, {{1}}, {selector}", ("u32", "u32"), "u32",
            lambda a, b, selector=selector: permuted(a, b, digits_of(selector)),
        )
        for selector in SELECTORS
    ]  # fmt: skip
    cases.append(
        Case("prmt.b32 {d}, {0}, {1}, {2}", ("u32",) * 3, "u32", lambda a, b, c: permuted(a, b, digits_of(c)))
    )
    values = rows(32, 40)
    check(cases, [(a, b, c ^ 0x5A81 * n & 0xFFFF) for n, (a, b, c) in enumerate(values)])


#: Byte i of the result for selector c, from the table of the PTX ISA (9.7.9, prmt).
MODES: dict[str, Binary] = {
    "f4e": lambda c, i: c + i, "b4e": lambda c, i: c - i & 7, "rc8": lambda c, i: c,
    "ecl": lambda c, i: max(c, i), "ecr": lambda c, i: min(c, i), "rc16": lambda c, i: 2 * (c & 1) + (i & 1),
}  # fmt: skip


def test_permutation_modes() -> None:
    cases = []
    for name, choose in MODES.items():
        for count in ("{2}", "2", "7"):

            def expected(a: int, b: int, c: int, choose: Binary = choose, count: str = count) -> int:
                n = (c if count == "{2}" else int(count)) & 3
                return permuted(a, b, [choose(n, i) for i in range(4)])

            text = f"prmt.b32.{name} {{d}}, {{0}}, {{1}}, {count}"
            cases.append(Case(text, ("u32",) * 3, "u32", expected))
    check(cases, rows(32, 16))


def test_dot_products() -> None:
    def parts(value: int, bits: int, t: str) -> list[int]:
        found = [value >> place & (1 << bits) - 1 for place in range(0, 32, bits)]
        return [signed(v, bits) for v in found] if t == "s32" else found

    cases = []
    for s in ("u32", "s32"):
        for t in ("u32", "s32"):
            d = "s32" if "s32" in (s, t) else "u32"

            def four(a: int, b: int, c: int, s: str = s, t: str = t) -> int:
                return c + sum(x * y for x, y in zip(parts(a, 8, s), parts(b, 8, t), strict=True))

            cases.append(Case(f"dp4a.{s}.{t} {{d}}, {{0}}, {{1}}, {{2}}", ("u32", "u32", d), d, four))
            for half, start in (("lo", 0), ("hi", 2)):

                def two(a: int, b: int, c: int, s: str = s, t: str = t, start: int = start) -> int:
                    bytes_ = parts(b, 8, t)[start : start + 2]
                    return c + sum(x * y for x, y in zip(parts(a, 16, s), bytes_, strict=True))

                cases.append(
                    Case(f"dp2a.{half}.{s}.{t} {{d}}, {{0}}, {{1}}, {{2}}", ("u32", "u32", d), d, two)
                )
    check(cases, [*rows(32, 30), (M32, M32, 5), (0x80808080, 0x80808080, M32)])

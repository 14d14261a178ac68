"""div and rem in the emulator against exact integers."""

from __future__ import annotations

import pytest
from batches import Case, Row, check, corners, rows, signed

from qdbg.compiler.lowering.magic import multiplier


def quotient(a: int, b: int) -> int:
    """Truncated; all ones for b = 0, see the interpreter."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * quotient(a, b)


def hard(bits: int) -> list[Row]:
    """All pairs of corners, and dividends at and just below multiples of random divisors."""
    pairs = [(a, b, 0) for a in corners(bits) for b in corners(bits)]
    for a, b, _ in rows(bits, 60, seed=9):
        product = a // max(b, 1) * b
        pairs += [(product, b, 0), (product - 1 & (1 << bits) - 1, b, 0)]
    return pairs


def divisions(bits: int) -> list[Case]:
    return [
        Case(f"{name}.{kind}{bits} {{d}}, {{0}}, {{1}}", (f"{kind}{bits}",) * 2, f"{kind}{bits}", function)
        for kind in "us"
        for name, function in (("div", quotient), ("rem", rest))
    ]


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("part", [0, 1])
def test_by_registers(bits: int, part: int) -> None:
    check(divisions(bits), hard(bits)[128 * part : 128 * part + 128])


@pytest.mark.parametrize("part", [0, 1, 2])
def test_64_bits_by_registers(part: int) -> None:
    check(divisions(64), hard(64)[64 * part : 64 * part + 64])


CONSTANTS = {
    16: [1, 3, 10, 256, 32768, 65535],
    32: [1, 2, 3, 5, 7, 10, 64, 641, 1000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF],
    64: [1, 3, 7, 10, 1 << 20, 1 << 40, 1000000007, (1 << 63) + 1, (1 << 64) - 1],
}


@pytest.mark.parametrize("kind", "us")
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_by_constants(bits: int, kind: str) -> None:
    cases = []
    for constant in [0, *CONSTANTS[bits]]:
        for name, function in (("div", quotient), ("rem", rest)):
            d = constant if kind == "u" else signed(constant, bits)
            t = f"{kind}{bits}"
            cases.append(Case(f"{name}.{t} {{d}}, {{0}}, {d}", (t,), t, lambda a, d=d, f=function: f(a, d)))
    values = [a for a, _, _ in hard(bits)]
    values += [
        constant * k + e & (1 << bits) - 1 for constant in CONSTANTS[bits] for k in (1, 2) for e in (-1, 0)
    ]
    values = sorted(set(values))
    check(cases, [(a, 0, 0) for a in values[:: -(-len(values) // 64)]])


def test_multipliers() -> None:
    """For the dividends at which an error would show first: around the multiples of the divisor."""
    for bits in (32, 64):
        top = 1 << bits
        for d in {
            *range(3, 500),
            *(b for _, b, _ in rows(bits, 2000, seed=3) if b & b - 1),
            top - 1,
            top // 2 + 1,
        }:
            m, up, shift = multiplier(d, bits)
            assert m < top
            last = (top - 1) // d * d
            for n in (0, 1, d - 1, d, last - 1, last, top - 1):
                assert (n * m + (0 if up else m)) >> bits + shift == n // d

"""Every integer, bit and carry instruction against Python's integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from arithmetic import Row, check, operands, scalar
from reference import clamp, decode, signed

ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
WIDE = ("u32", "s32", "u64", "s64")


def quotient(a: int, b: int) -> int:
    """Truncated toward zero; all ones for a division by zero."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    """With the dividend's sign; all ones for a division by zero."""
    return -1 if b == 0 else a - b * quotient(a, b)


def arithmetic() -> Iterator[Row]:
    binary: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "min": min,
        "max": max,
        "div": quotient,
        "rem": remainder,
    }
    for t in ALL:
        bits = int(t[1:])
        for opcode, function in binary.items():
            yield scalar(f"{opcode}.{t}", t, 2, function)
        yield scalar(f"mul.hi.{t}", t, 2, lambda a, b, n=bits: a * b >> n)
        yield scalar(f"mad.lo.{t}", t, 3, lambda a, b, c: a * b + c)
        yield scalar(f"mad.hi.{t}", t, 3, lambda a, b, c, n=bits: (a * b >> n) + c)
        yield scalar(f"sad.{t}", t, 3, lambda a, b, c: c + abs(a - b))
        if bits < 64:
            double = f"{t[0]}{2 * bits}"
            yield Row(f"mul.wide.{t} {{d}}, {{0}}, {{1}}", (t, t), double, lambda a, b: a * b)
            yield Row(
                f"mad.wide.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, t, double), double, lambda a, b, c: a * b + c
            )
        if t[0] == "s":
            yield scalar(f"neg.{t}", t, 1, lambda a: -a)
            yield scalar(f"abs.{t}", t, 1, abs)
    t = "s32"
    yield scalar("add.sat.s32", t, 2, lambda a, b: clamp(a + b, t))
    yield scalar("sub.sat.s32", t, 2, lambda a, b: clamp(a - b, t))
    yield scalar("mad.hi.sat.s32", t, 3, lambda a, b, c: clamp((a * b >> 32) + c, t))
    yield scalar("min.relu.s32", t, 2, lambda a, b: max(min(a, b), 0))
    yield scalar("max.relu.s32", t, 2, lambda a, b: max(a, b, 0))


def products_of_24_bits() -> Iterator[Row]:
    for t in ("u32", "s32"):

        def product(a: int, b: int, t: str = t) -> int:
            return decode(a, f"{t[0]}24") * decode(b, f"{t[0]}24")

        yield scalar(f"mul24.lo.{t}", t, 2, product)
        yield scalar(f"mul24.hi.{t}", t, 2, lambda a, b, p=product: p(a, b) >> 16)
        yield scalar(f"mad24.lo.{t}", t, 3, lambda a, b, c, p=product: p(a, b) + c)
        yield scalar(f"mad24.hi.{t}", t, 3, lambda a, b, c, p=product: (p(a, b) >> 16) + c)
        if t == "s32":
            yield scalar(
                "mad24.hi.sat.s32", t, 3,
                lambda a, b, c, p=product: clamp(signed(p(a, b) >> 16, 32) + c, "s32"),
            )  # fmt: skip


def dot_products() -> Iterator[Row]:
    def parts(value: int, t: str, bits: int) -> list[int]:
        return [decode(value >> i, f"{t[0]}{bits}") for i in range(0, 32, bits)]

    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            result = "s32" if "s32" in (a, b) else "u32"

            def four(x: int, y: int, c: int, a: str = a, b: str = b) -> int:
                return c + sum(p * q for p, q in zip(parts(x, a, 8), parts(y, b, 8), strict=True))

            yield Row(f"dp4a.{a}.{b} {{d}}, {{0}}, {{1}}, {{2}}", ("b32", "b32", result), result, four)
            for half, start in (("lo", 0), ("hi", 2)):

                def two(x: int, y: int, c: int, start: int = start, a: str = a, b: str = b) -> int:
                    bytes_ = parts(y, b, 8)[start : start + 2]
                    return c + sum(p * q for p, q in zip(parts(x, a, 16), bytes_, strict=True))

                yield Row(
                    f"dp2a.{half}.{a}.{b} {{d}}, {{0}}, {{1}}, {{2}}", ("b32", "b32", result), result, two
                )


def logic_and_shifts() -> Iterator[Row]:
    for t in ("b16", "b32", "b64"):
        bits = int(t[1:])
        yield scalar(f"and.{t}", t, 2, lambda a, b: a & b)
        yield scalar(f"or.{t}", t, 2, lambda a, b: a | b)
        yield scalar(f"xor.{t}", t, 2, lambda a, b: a ^ b)
        yield scalar(f"not.{t}", t, 1, lambda a: ~a)
        yield scalar(f"cnot.{t}", t, 1, lambda a: int(a == 0))
        yield Row(f"shl.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t, lambda a, n, w=bits: a << n if n < w else 0)
    for t in (*ALL, "b16", "b32", "b64"):
        yield Row(f"shr.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t, lambda a, n: a >> min(n, 64))
    for table in (0x80, 0xFE, 0x96, 0x1E, 0xCA, 0x00, 0xFF, 0x5D):
        yield Row(
            f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table}", ("b32",) * 3, "b32",
            lambda a, b, c, f=table: sum(
                (f >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32)
            ),
        )  # fmt: skip
    for opcode, combine in (("or", lambda d, q: d or q), ("and", lambda d, q: d and q)):
        yield Row(
            f"setp.ne.u32 %p2, {{2}}, 0; lop3.{opcode}.b32 _|%p1, {{0}}, {{1}}, {{2}}, 0xc0, !%p2; "
            "selp.u32 {d}, 1, 0, %p1",
            ("b32",) * 3, "u32", lambda a, b, c, f=combine: int(f(a & b != 0, c == 0)),
        )  # fmt: skip
        yield Row(
            f"setp.ne.u32 %p2, {{2}}, 0; lop3.{opcode}.b32 {{d}}|%p1, {{0}}, {{1}}, {{2}}, 0x96, %p2",
            ("b32",) * 3, "b32", lambda a, b, c: a ^ b ^ c,
        )  # fmt: skip
    counts: dict[str, Callable[[int], int]] = {"clamp": lambda n: min(n, 32), "wrap": lambda n: n & 31}
    for mode, count in counts.items():
        types = ("b32", "b32", "u32")
        yield Row(f"shf.l.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}}", types, "b32",
                  lambda a, b, n, c=count: ((b << 32 | a) << c(n)) >> 32)  # fmt: skip
        yield Row(f"shf.r.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}}", types, "b32",
                  lambda a, b, n, c=count: (b << 32 | a) >> c(n))  # fmt: skip


def bit_counts() -> Iterator[Row]:
    for bits in (32, 64):
        t = f"b{bits}"
        yield Row(f"popc.{t} {{d}}, {{0}}", (t,), "u32", int.bit_count)
        yield Row(f"clz.{t} {{d}}, {{0}}", (t,), "u32", lambda a, n=bits: n - a.bit_length())
        yield scalar(f"brev.{t}", t, 1, lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        for sign in "us":

            def highest(a: int) -> int:
                return (a if a >= 0 else ~a).bit_length() - 1

            def distance(a: int, bits: int = bits) -> int:
                return bits - 1 - highest(a) if highest(a) >= 0 else -1

            yield Row(f"bfind.{sign}{bits} {{d}}, {{0}}", (f"{sign}{bits}",), "u32", highest)
            yield Row(f"bfind.shiftamt.{sign}{bits} {{d}}, {{0}}", (f"{sign}{bits}",), "u32", distance)


def nth_set_bit(mask: int, base: int, offset: int) -> int:
    """The bit that fns finds, as its definition walks."""
    if base > 31:
        return -1
    if offset == 0:
        return base if mask >> base & 1 else -1
    left, step = abs(offset), 1 if offset > 0 else -1
    while 0 <= base < 32:
        left -= mask >> base & 1
        if left == 0:
            return base
        base += step
    return -1


def bit_fields() -> Iterator[Row]:
    def extract(a: int, position: int, length: int, sign: bool) -> int:
        position, length = position & 255, length & 255
        # An unbounded sign (or zeros) above the top bit is what PTX asks for beyond the most significant bit.
        field = (a >> position) & (1 << length) - 1
        return signed(field, length) if sign and length else field

    def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
        position, length = position & 255, length & 255
        mask = ((1 << length) - 1 << position) & (1 << bits) - 1
        return b & ~mask | a << position & mask

    for t in WIDE:
        yield Row(f"bfe.{t} {{d}}, {{0}}, {{1}}, {{2}}", (t, "u32", "u32"), t,
                  lambda a, p, n, s=t[0] == "s": extract(a, p, n, s))  # fmt: skip
    for bits in (32, 64):
        t = f"b{bits}"
        yield Row(f"bfi.{t} {{d}}, {{0}}, {{1}}, {{2}}, {{3}}", (t, t, "u32", "u32"), t,
                  lambda a, b, p, n, w=bits: insert(a, b, p, n, w))  # fmt: skip
    yield Row("bmsk.clamp.b32 {d}, {0}, {1}", ("u32", "u32"), "b32",
              lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32))  # fmt: skip
    yield Row("bmsk.wrap.b32 {d}, {0}, {1}", ("u32", "u32"), "b32",
              lambda a, b: ((1 << (b & 31)) - 1) << (a & 31))  # fmt: skip
    for t in ("u32", "s32"):

        def extend(a: int, n: int, t: str = t) -> int:
            field = a & (1 << n) - 1
            return signed(field, n) if t == "s32" and n else field

        yield Row(f"szext.clamp.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t,
                  lambda a, n, f=extend: a if n >= 32 else f(a, n))  # fmt: skip
        yield Row(f"szext.wrap.{t} {{d}}, {{0}}, {{1}}", (t, "u32"), t, lambda a, n, f=extend: f(a, n & 31))
    rng = np.random.default_rng(5)
    masks = operands(("b32",))[0]
    bases, offsets = rng.integers(0, 34, len(masks)), rng.integers(-33, 34, len(masks))
    columns = (masks, bases.astype(np.uint32), offsets.astype(np.uint32))
    yield Row("fns.b32 {d}, {0}, {1}, {2}", ("b32", "u32", "s32"), "b32", nth_set_bit, columns)


def permutations() -> Iterator[Row]:
    def permute(a: int, b: int, selector: int) -> int:
        data = (a | b << 32).to_bytes(8, "little")
        chosen = [(data[selector >> 4 * i & 7], selector >> 4 * i & 8) for i in range(4)]
        result = [(0xFF if v >> 7 else 0) if replicate else v for v, replicate in chosen]
        return int.from_bytes(bytes(result), "little")

    # The tables of the ISA: which byte of {b, a} goes to bytes 3, 2, 1, 0 for each c & 3.
    modes = {
        "f4e": ("3210", "4321", "5432", "6543"),
        "b4e": ("5670", "6701", "7012", "0123"),
        "rc8": ("0000", "1111", "2222", "3333"),
        "ecl": ("3210", "3211", "3222", "3333"),
        "ecr": ("0000", "1110", "2210", "3210"),
        "rc16": ("1010", "3232", "1010", "3232"),
    }
    yield scalar("prmt.b32", "b32", 3, permute)
    for mode, table in modes.items():
        yield scalar(f"prmt.b32.{mode}", "b32", 3, lambda a, b, c, t=table: permute(a, b, int(t[c & 3], 16)))


def carries() -> Iterator[Row]:
    """A double-width sum, difference and product built from halves; the third link of a chain."""
    for bits, scratch in ((32, "%r15"), (64, "%d15")):
        for sign in "us":
            u, double = f"u{bits}", 2 * bits
            t = f"{sign}{bits}"
            for low, high, place in (("{d}", scratch, 0), (scratch, "{d}", bits)):
                for opcode, function in (("add", int.__add__), ("sub", int.__sub__)):
                    yield Row(
                        f"{opcode}.cc.{t} {low}, {{0}}, {{2}}; {opcode}c.{t} {high}, {{1}}, {{3}}",
                        (u,) * 4, u,
                        lambda a, b, c, d, f=function, p=place, n=bits, w=double: f(a | b << n, c | d << n)
                        % (1 << w) >> p,
                    )  # fmt: skip
            yield Row(
                f"mad.lo.cc.{t} {scratch}, {{0}}, {{1}}, {{2}}; madc.hi.{t} {{d}}, {{0}}, {{1}}, {{2}}",
                (t,) * 3, t,
                lambda a, b, c, n=bits: (a * b >> n) + c + ((a * b % (1 << n)) + c % (1 << n) >> n),
            )  # fmt: skip
            yield Row(
                f"mad.hi.cc.{t} {scratch}, {{0}}, {{1}}, {{2}}; addc.{t} {{d}}, 0, 0", (t,) * 3, t,
                lambda a, b, c, n=bits: ((a * b >> n) % (1 << n)) + c % (1 << n) >> n,
            )  # fmt: skip
            yield Row(
                f"add.cc.{t} {scratch}, {{0}}, {{1}}; addc.cc.{t} {scratch}, {{1}}, {{2}}; "
                f"addc.{t} {{d}}, {{0}}, 0",
                (u,) * 3, u,
                lambda a, b, c, n=bits: a + (b + c + (a + b >> n) >> n),
            )  # fmt: skip
            yield Row(
                f"sub.cc.{t} {scratch}, {{0}}, {{1}}; subc.cc.{t} {scratch}, {{1}}, {{2}}; "
                f"subc.{t} {{d}}, {{0}}, 0",
                (u,) * 3, u,
                lambda a, b, c: a - int(b - c - (a < b) < 0),
            )  # fmt: skip
            yield Row(
                f"add.cc.{t} {scratch}, {{0}}, {{1}}; madc.lo.cc.{t} {scratch}, {{0}}, {{1}}, {{2}}; "
                f"madc.hi.{t} {{d}}, {{0}}, {{1}}, 0", (t,) * 3, t,
                lambda a, b, c, n=bits, m=1 << bits: (a * b >> n)
                + (a * b % m + c % m + (a % m + b % m >> n) >> n),
            )  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [arithmetic, products_of_24_bits, dot_products, logic_and_shifts, bit_counts, bit_fields, permutations,
     carries],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_against_integers(rows: Callable[[], Iterator[Row]]) -> None:
    check(rows())

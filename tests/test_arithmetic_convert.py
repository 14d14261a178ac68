"""Every conversion, comparison and selection against Python's integers and Fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from math import ceil, floor, trunc

import numpy as np
import pytest
from arithmetic import Row, binary_of, check, operands, packed, width
from reference import BINARIES, MODES, Binary, clamp, decode, limits

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
TO_INTEGRAL: dict[str, Callable[[Fraction], int]] = {
    "rni": round,  # Python rounds ties to even
    "rzi": trunc,
    "rmi": floor,
    "rpi": ceil,
}


def held(type_name: str) -> str:
    """The type of the register for an 8-bit one: PTX has none so small."""
    return f"{type_name[0]}16" if type_name[1:] == "8" else type_name


def among_integers() -> Iterator[Row]:
    for to in INTEGERS:
        for source in INTEGERS:
            # The source's type extends; what is left of a wider register is cut off first.
            yield Row(f"cvt.{to}.{source} {{d}}, {{0}}", (held(source),), held(to),
                      lambda a, s=source, t=to: decode(decode(a, s), t), integers(held(source)))  # fmt: skip
            yield Row(f"cvt.sat.{to}.{source} {{d}}, {{0}}", (held(source),), held(to),
                      lambda a, s=source, t=to: clamp(decode(a, s), t), integers(held(source)))  # fmt: skip


def integers(type_name: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.generic]]]:
    """Operands of one source: the random ones and the corners of every width."""
    mask = (1 << width(type_name)) - 1
    edges = [x + d & mask for t in INTEGERS for x in limits(t) for d in (-1, 0, 1)]
    return (np.concatenate([operands((type_name,))[0], np.array(edges, dtype=f"u{width(type_name) // 8}")]),)


@cache
def floats(type_name: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.generic]]]:
    """Operands of a float type: random ones, and numbers near the ends and halves of the integer types."""
    binary = BINARIES[type_name]
    edges = [Fraction(x) + Fraction(d, 2) for t in INTEGERS for x in limits(t) for d in range(-3, 4)]
    near = [binary.round(x, mode) for x in edges for mode in ("rm", "rp")]
    near += [binary.round(Fraction(n, 4), "rn", n < 0) for n in range(-40, 41)]
    return (np.concatenate([operands((type_name,))[0], np.array(near, dtype=f"u{binary.bits // 8}")]),)


def to_integers() -> Iterator[Row]:
    for source, binary in BINARIES.items():
        for to in INTEGERS:
            for mode, integral in TO_INTEGRAL.items():
                nan = 1 << width(to) - 1 if source == "f64" or width(to) == 64 else 0

                def expected(
                    a: int, binary: Binary = binary, to: str = to, nan: int = nan,
                    integral: Callable[[Fraction], int] = integral,
                ) -> int:  # fmt: skip
                    if binary.is_nan(a):
                        return nan if nan < 1 << width(to) - 1 or to[0] == "u" else nan - (1 << width(to))
                    number = binary.exact(a)
                    if number is None:
                        return limits(to)[0 if binary.negative(a) else 1]
                    return clamp(integral(number), to)

                text = f"{to}.{source} {{d}}, {{0}}"
                yield Row(f"cvt.{mode}.{text}", (source,), held(to), expected, floats(source))
                if source == "f32" and to in ("s32", "u64"):
                    flushed = lambda a, f=expected, b=binary: f(b.flush(a))  # noqa: E731
                    yield Row(f"cvt.{mode}.ftz.{text}", (source,), held(to), flushed, floats(source))


def from_integers() -> Iterator[Row]:
    for to, binary in BINARIES.items():
        for source in INTEGERS:
            for mode in MODES:
                yield Row(f"cvt.{mode}.{to}.{source} {{d}}, {{0}}", (held(source),), to,
                          lambda a, b=binary, m=mode, s=source: b.round(decode(a, s), m),
                          integers(held(source)))  # fmt: skip
        if to != "bf16":
            yield Row(f"cvt.rn.sat.{to}.s32 {{d}}, {{0}}", ("s32",), to,
                      lambda a, b=binary: b.saturate(b.round(a, "rn")))  # fmt: skip


def converted(pattern: int, to: str, source: str, mode: str) -> int:
    """A float in another format; f64 keeps a NaN's sign and payload and makes it quiet."""
    wide, narrow = BINARIES[source], BINARIES[to]
    if wide.is_nan(pattern) and to == "f64":
        shift = narrow.precision - wide.precision
        payload = (pattern & (1 << wide.precision - 1) - 1) << shift
        sign = narrow.sign if wide.negative(pattern) else 0
        return sign | narrow.infinity | payload | 1 << narrow.precision - 2
    return narrow.narrowed(wide.exact(pattern), pattern, wide, mode)


def among_floats() -> Iterator[Row]:
    lossless = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}
    for source in BINARIES:
        for to, binary in BINARIES.items():
            if source == to:
                continue
            modes = ("",) if (source, to) in lossless else MODES
            for mode in modes:
                dotted = f".{mode}" if mode else ""
                text = f"{to}.{source} {{d}}, {{0}}"
                values = (source,)

                def plain(a: int, to: str = to, source: str = source, mode: str = mode or "rn") -> int:
                    return converted(a, to, source, mode)

                yield Row(f"cvt{dotted}.{text}", values, to, plain, floats(source))
                if to != "bf16":
                    yield Row(f"cvt{dotted}.sat.{text}", values, to,
                              lambda a, f=plain, b=binary: b.saturate(f(a)), floats(source))  # fmt: skip
                if "f32" in (source, to):

                    def flushed(a: int, f: Callable[[int], int] = plain, s: str = source, t: str = to) -> int:
                        single = BINARIES["f32"]  # its NaNs become the canonical one, as ptxas 13.0 folds it
                        if s == "f32":
                            a = single.nan if single.is_nan(a) else single.flush(a)
                        return single.flush(f(a)) if t == "f32" else f(a)

                    yield Row(f"cvt{dotted}.ftz.{text}", values, to, flushed, floats(source))


def to_integral_floats() -> Iterator[Row]:
    for t, binary in BINARIES.items():
        for mode, integral in TO_INTEGRAL.items():

            def expected(
                a: int, binary: Binary = binary, integral: Callable[[Fraction], int] = integral
            ) -> int:
                number = binary.exact(a)
                if number is None:
                    return binary.no_number(a) if binary.is_nan(a) else a
                return binary.round(Fraction(integral(number)), "rn", binary.negative(a))

            yield Row(f"cvt.{mode}.{t}.{t} {{d}}, {{0}}", (t,), t, expected, floats(t))


def to_pairs() -> Iterator[Row]:
    """Two f32 into one register, the first into its upper half; with `.relu` and `.satfinite`."""
    for to in ("f16", "bf16"):
        binary = BINARIES[to]
        for mode in ("rn", "rz"):
            for extra in ("", ".relu", ".satfinite", ".relu.satfinite"):

                def one(
                    a: int, binary: Binary = binary, extra: str = extra, mode: str = mode, to: str = to
                ) -> int:
                    result = converted(a, to, "f32", mode)
                    if "satfinite" in extra and binary.is_infinite(result):
                        result -= 1
                    return binary.rectify(result) if "relu" in extra else result

                yield Row(f"cvt.{mode}{extra}.{to}.f32 {{d}}, {{0}}", ("f32",), to, one, floats("f32"))
                yield Row(f"cvt.{mode}{extra}.{to}x2.f32 {{d}}, {{0}}, {{1}}", ("f32", "f32"), f"{to}x2",
                          lambda a, b, f=one: f(a) << 16 | f(b))  # fmt: skip


# -- comparisons ------------------------------------------------------------------------------------------

ORDERED: dict[str, Callable[[Fraction | int, Fraction | int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINE: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}


def names(type_name: str) -> tuple[str, ...]:
    """The comparisons that a type has."""
    if "f" in type_name:
        return (*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan")
    return {"b": ("eq", "ne"), "s": tuple(ORDERED), "u": (*ORDERED, *UNSIGNED)}[type_name[0]]


def holds(name: str, type_name: str, a: int, b: int) -> bool:
    """The comparison of two operands, integers decoded and floats as patterns."""
    if "f" not in type_name:
        return ORDERED[UNSIGNED.get(name, name)](a, b)
    binary = binary_of(type_name)
    unordered = binary.is_nan(a) or binary.is_nan(b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return name.endswith("u")
    return ORDERED[name.removesuffix("u")](binary.value(a), binary.value(b))


COMPARABLE = ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16")


def comparisons() -> Iterator[Row]:
    """Of setp by its predicate; of set to every destination that a source has."""
    for t in COMPARABLE:
        for name in names(t):
            yield Row(f"setp.{name}.{t} %p1, {{0}}, {{1}}; selp.u32 {{d}}, 7, 9, %p1", (t, t), "u32",
                      lambda a, b, n=name, t=t: 7 if holds(n, t, a, b) else 9)  # fmt: skip
        for to in ("u16", "s16", "u32", "s32") if t in ("f16", "bf16") else ("u32", "s32", "f32"):
            yield from sets(to, t, names(t)[::3])
        for to in ("f16", "bf16"):
            yield from sets(to, t, names(t)[1:2])


def sets(to: str, t: str, chosen: tuple[str, ...]) -> Iterator[Row]:
    true = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(to, -1)
    for name in chosen:
        yield Row(f"set.{name}.{to}.{t} {{d}}, {{0}}, {{1}}", (t, t), to,
                  lambda a, b, n=name, t=t: true if holds(n, t, a, b) else 0)  # fmt: skip


def flushed_comparisons() -> Iterator[Row]:
    for t in ("f32", "f16"):
        clean = binary_of(t).flush
        for name in ("eq", "ltu", "ge"):
            yield Row(f"setp.{name}.ftz.{t} %p1, {{0}}, {{1}}; selp.u32 {{d}}, 7, 9, %p1", (t, t), "u32",
                      lambda a, b, n=name, t=t, c=clean: 7 if holds(n, t, c(a), c(b)) else 9)  # fmt: skip
            yield Row(f"set.{name}.ftz.u32.{t} {{d}}, {{0}}, {{1}}", (t, t), "u32",
                      lambda a, b, n=name, t=t, c=clean: -int(holds(n, t, c(a), c(b))))  # fmt: skip


def comparisons_of_pairs() -> Iterator[Row]:
    for t in ("f16x2", "bf16x2"):
        for name in ("eq", "neu", "lt", "ge", "nan"):
            for to, true in ((t, 0x3C00 if t == "f16x2" else 0x3F80), ("u32", 0xFFFF), ("s32", 0xFFFF)):
                both = packed(
                    f"set.{name}.{to}.{t}", t, 2,
                    lambda a, b, n=name, t=t, one=true: one if holds(n, t, a, b) else 0,
                )  # fmt: skip
                yield Row(both.instruction, both.types, to, both.expected, both.columns)
            both = packed("", t, 2, lambda a, b, n=name, t=t: int(holds(n, t, a, b)))
            yield Row(
                f"setp.{name}.{t} %p1|%p2, {{0}}, {{1}}; selp.u32 %r15, 65536, 0, %p2; "
                "selp.u32 %r16, 1, 0, %p1; or.b32 {d}, %r15, %r16",
                (t, t), "u32", both.expected, both.columns,
            )  # fmt: skip


def combinations() -> Iterator[Row]:
    """p = cmp op c; q = not cmp op c; c may be negated."""
    for name, combine in COMBINE.items():
        for negated in ("", "!"):
            for taken in ("%p1", "%p2"):
                yield Row(
                    f"setp.ne.u32 %p3, {{2}}, 0; setp.lt.{name}.s32 %p1|%p2, {{0}}, {{1}}, {negated}%p3; "
                    f"selp.u32 {{d}}, 1, 0, {taken}",
                    ("s32", "s32", "u32"), "u32",
                    lambda a, b, c, f=combine, n=negated, t=taken: int(
                        f((a < b) == (t == "%p1"), (c != 0) != (n == "!"))
                    ),
                )  # fmt: skip
            yield Row(
                f"setp.ne.u32 %p3, {{2}}, 0; set.lt.{name}.u32.s32 {{d}}, {{0}}, {{1}}, {negated}%p3",
                ("s32", "s32", "u32"), "u32",
                lambda a, b, c, f=combine, n=negated: -int(f(a < b, (c != 0) != (n == "!"))),
            )  # fmt: skip


def selections() -> Iterator[Row]:
    for t in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
        yield Row(f"setp.ne.u32 %p1, {{2}}, 0; selp.{t} {{d}}, {{0}}, {{1}}, !%p1", (t, t, "u32"), t,
                  lambda a, b, c: b if c else a)  # fmt: skip
        yield Row(f"slct.{t}.s32 {{d}}, {{0}}, {{1}}, {{2}}", (t, t, "s32"), t,
                  lambda a, b, c: a if c >= 0 else b)  # fmt: skip
        for ftz in ("", ".ftz"):

            def chosen(a: int, b: int, c: int, ftz: str = ftz) -> int:
                binary = BINARIES["f32"]
                c = binary.flush(c) if ftz else c
                return a if not binary.is_nan(c) and binary.value(c) >= 0 else b

            yield Row(f"slct{ftz}.{t}.f32 {{d}}, {{0}}, {{1}}, {{2}}", (t, t, "f32"), t, chosen)


@pytest.mark.parametrize(
    "rows",
    [among_integers, to_integers, from_integers, among_floats, to_integral_floats, to_pairs, comparisons,
     flushed_comparisons, comparisons_of_pairs, combinations, selections],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_against_exact_numbers(rows: Callable[[], Iterator[Row]]) -> None:
    check(rows())

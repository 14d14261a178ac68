"""Random statements of the whole integer instruction set.

They work on the 32-bit variables that the caller names and on the 64-bit registers %d3 and %d4, use %h0 to
%h2, %r10, %r11 and the predicate that the caller may spare, and touch 16 bytes of memory at %d2 + `room`, a
multiple of 8.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

_LONG = (
    "add.u64", "sub.s64", "mul.lo.u64", "mul.hi.u64", "mul.hi.s64", "and.b64", "or.b64", "xor.b64",
    "min.s64", "min.u64", "max.s64", "max.u64", "div.u64", "div.s64", "rem.u64", "rem.s64",
)  # fmt: skip
_LONG_UNARY = ("neg.s64", "abs.s64", "not.b64", "brev.b64", "cnot.b64", "mov.u64")
_LONG_TO_WORD = (
    "popc.b64", "clz.b64", "bfind.u64", "bfind.s64", "cvt.u32.u64", "cvt.sat.s32.s64", "cvt.sat.u8.u64",
)  # fmt: skip
_LONG_SHIFTS = ("shl.b64", "shr.u64", "shr.s64")
_TO_LONG = ("cvt.s64.s32", "cvt.u64.u32", "cvt.s64.s8", "cvt.u64.u16")
_WORD = (
    "div.u32", "div.s32", "rem.u32", "rem.s32", "mul.hi.u32", "mul.hi.s32", "mul24.lo.s32",
    "add.sat.s32", "sub.sat.s32", "bmsk.clamp.b32",
)  # fmt: skip
_WORD3 = (
    "mad.hi.u32", "mad.hi.s32", "sad.s32", "sad.u32", "bfe.u32", "bfe.s32", "prmt.b32", "dp4a.u32.s32",
    "dp2a.hi.s32.u32", "shf.l.wrap.b32", "shf.r.clamp.b32", "slct.b32.s32",
)  # fmt: skip
_WORD_UNARY = ("popc.b32", "clz.b32", "brev.b32", "bfind.s32", "bfind.shiftamt.u32")
_HALF = (
    "add.u16", "sub.s16", "mul.lo.u16", "mul.hi.s16", "min.s16", "max.u16", "div.s16", "rem.u16",
    "shr.s16", "shl.b16",
)  # fmt: skip
_COMPARE = ("eq.u64", "ne.b64", "lt.s64", "lt.u64", "ge.s64", "hi.u64", "le.s16", "gt.u16")
_CONSTANTS = (0, 1, 3, 7, 10, 16, 31, 32, 33, 63, 64, 255, 1000, 65535)


def statement(
    draw: st.DrawFn, variable: Callable[[], str], source: Callable[[], str], spare: str, room: int
) -> list[str]:
    """Instructions.  `source` gives a variable or a constant, `spare` a predicate; `room` as above."""

    def pick(choices: tuple[str, ...]) -> str:
        return draw(st.sampled_from(choices))

    def long() -> str:
        return pick(("%d3", "%d4"))

    def number() -> str:
        return str(draw(st.sampled_from(_CONSTANTS)))

    kind = pick(
        ("long", "long", "to word", "to long", "word", "word", "half", "carry", "compare", "memory", "parts")
    )
    match kind:
        case "long":
            choice = pick(("two", "constant", "shift", "one"))
            if choice == "one":
                return [f"{pick(_LONG_UNARY)} {long()}, {long()};"]
            if choice == "shift":
                amount = number() if draw(st.booleans()) else variable()
                return [f"{pick(_LONG_SHIFTS)} {long()}, {long()}, {amount};"]
            return [f"{pick(_LONG)} {long()}, {long()}, {long() if choice == 'two' else number()};"]
        case "to word":
            return [f"{pick(_LONG_TO_WORD)} {variable()}, {long()};"]
        case "to long":
            choice = pick(("cvt", "mul", "mad", "bfi"))
            if choice == "cvt":
                operation = pick(_TO_LONG)
                if operation.endswith(("8", "16")):
                    return [f"cvt.u16.u32 %h0, {variable()};", f"{operation} {long()}, %h0;"]
                return [f"{operation} {long()}, {variable()};"]
            if choice == "bfi":
                return [f"bfi.b64 {long()}, {long()}, {long()}, {number()}, {number()};"]
            name = f"{choice}.wide.{pick(('u32', 's32'))} {long()}, {variable()}, {source()}"
            return [f"{name}, {long()};" if choice == "mad" else f"{name};"]
        case "word":
            choice = pick(("two", "three", "one"))
            if choice == "one":
                return [f"{pick(_WORD_UNARY)} {variable()}, {variable()};"]
            operands = [variable(), source()] + [source()] * (choice == "three")
            return [f"{pick(_WORD if choice == 'two' else _WORD3)} {variable()}, {', '.join(operands)};"]
        case "half":
            last = f"{pick(('cvt.s32.s16', 'cvt.u32.u16', 'cvt.sat.s32.u16'))} {variable()}, %h2;"
            operation = pick(_HALF)
            b = variable() if operation.startswith("sh") else "%h1"
            return [
                f"cvt.u16.u32 %h0, {variable()};", f"cvt.u16.u32 %h1, {variable()};",
                f"{operation} %h2, %h0, {b};", last,
            ]  # fmt: skip
        case "carry":
            name, again = pick(("add addc", "sub subc", "mad.lo madc.hi")).split()
            first, second = [variable(), source()], [variable(), source()]
            if name == "mad.lo":
                first, second = [*first, source()], [*second, source()]
            return [
                f"{name}.cc.u32 {variable()}, {', '.join(first)};",
                f"{again}.cc.u32 {variable()}, {', '.join(second)};",
                f"addc.u32 {variable()}, {variable()}, 0;",
            ]  # fmt: skip
        case "compare":
            comparison = pick(_COMPARE)
            a, b = ("%h0", "%h1") if comparison.endswith("16") else (long(), long())
            lines = ["cvt.u16.u32 %h0, %v0;", "cvt.u16.u64 %h1, %d3;"] if a == "%h0" else []
            return [
                *lines,
                f"setp.{comparison} {spare}, {a}, {b};",
                f"selp.b64 {long()}, {long()}, {long()}, {spare};",
            ]
        case "parts":
            return draw(st.sampled_from((
                [f"mov.b64 {long()}, {{{variable()}, {variable()}}};"],
                [f"mov.b64 {{%r10, %r11}}, {long()};", f"xor.b32 {variable()}, %r10, %r11;"],
                [f"mov.b32 {{%h0, %h1}}, {variable()};", f"mov.b32 {variable()}, {{%h1, %h0}};"],
            )))  # fmt: skip
        case _:
            return [_store(draw, variable, long, room), _load(draw, variable, long, room)]


def _place(draw: st.DrawFn, size: int, room: int) -> str:
    return f"[%d2+{room + size * draw(st.integers(0, 16 // size - 1))}]"


def _store(draw: st.DrawFn, variable: Callable[[], str], long: Callable[[], str], room: int) -> str:
    match draw(st.sampled_from((1, 2, 4, 8, -8))):
        case 8:
            return f"st.global.u64 {_place(draw, 8, room)}, {long()};"
        case -8:
            return f"st.global.v4.u16 {_place(draw, 8, room)}, {{%h0, %h1, %h2, %h0}};"
        case 1:
            return f"st.global.u8 {_place(draw, 1, room)}, {variable()};"
        case 2:
            return f"st.global.u16 {_place(draw, 2, room)}, %h0;"
    return f"st.global.u32 {_place(draw, 4, room)}, {variable()};"


def _load(draw: st.DrawFn, variable: Callable[[], str], long: Callable[[], str], room: int) -> str:
    size = draw(st.sampled_from((1, 2, 4, 8, -8)))
    sign = draw(st.sampled_from("us"))
    if size == 8:
        return f"ld.global.u64 {long()}, {_place(draw, 8, room)};"
    if size == -8:
        return f"ld.global.v2.u32 {{%r10, {variable()}}}, {_place(draw, 8, room)};"
    return f"ld.global.{sign}{8 * size} {variable()}, {_place(draw, size, room)};"

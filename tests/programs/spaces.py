"""Statements on local, const and shared memory, by addresses of their space and generic ones.

%r6 is the thread's number in its block, %r7 the number of threads; %d6 to %d10 and %r10, %r11 are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from programs.writer import Writer

_TABLE = [0x9E3779B9 * k & 0xFFFFFFFF for k in range(8)]
MODULE = f".const .align 4 .b32 table[8] = {{{', '.join(map(str, _TABLE))}}};"
#: Every thread has four local words and a shared one; they hold something before anybody reads them.
HEAD = """.local .align 16 .b8 mine[16];
.shared .align 4 .b8 board[{threads}*4];
mov.u64 %d9, mine; mov.u32 %r12, board; mad.lo.u32 %r12, %r6, 4, %r12;
st.local.v4.u32 [%d9], {{%r6, %r8, %r0, %v7}}; st.shared.u32 [%r12], %r9;"""


def statement(w: Writer) -> list[str]:
    """Accesses that a thread may make at any time: to its own words, and to constants."""
    kind = w.pick("store", "load", "generic", "const", "const generic", "narrow")
    place = [f"and.b32 %r10, {w.variable()}, 3;", "mul.wide.u32 %d6, %r10, 4;", "add.s64 %d6, %d9, %d6;"]
    match kind:
        case "store":
            return [*place, f"st.local.u32 [%d6], {w.source()};"]
        case "load":
            return [*place, f"ld.local.u32 {w.variable()}, [%d6];"]
        case "generic":
            return [
                *place, "cvta.local.u64 %d7, %d6;", f"st.u32 [%d7], {w.variable()};",
                f"ld.local.v2.u32 {{%r10, {w.variable()}}}, [mine+{w.pick('0', '8')}];",
            ]  # fmt: skip
        case "narrow":
            sign, bits = w.pick("s", "u"), w.draw(st.sampled_from((8, 16)))
            at = w.draw(st.integers(0, 15)) // (bits // 8) * (bits // 8)
            return [
                f"st.local.u{bits} [mine+{at}], {w.variable() if bits == 8 else '%h0'};",
                f"ld.local.{sign}{bits} {w.variable()}, [mine+{at ^ bits // 8}];",
            ]
    load = ["cvta.const.u64 %d6, %d6;", f"ld.u32 {w.variable()}, [%d6];"]
    return [
        f"and.b32 %r10, {w.variable()}, 7;", "mul.wide.u32 %d6, %r10, 4;", "mov.u64 %d7, table;",
        "add.s64 %d6, %d6, %d7;",
        *(load if kind == "const generic" else [f"ld.const.u32 {w.variable()}, [%d6];"]),
    ]  # fmt: skip


def together(w: Writer) -> list[str]:
    """Threads write a word each and read another thread's, between barriers that all of them meet."""
    other = w.pick(
        f"add.u32 %r10, %r6, {w.below(200)};", f"mul.lo.u32 %r10, %r6, {w.below(9)};",
        f"mov.u32 %r10, {w.variable()};",
    )  # fmt: skip
    barrier = w.pick("bar.sync 0;", "barrier.sync 1;", "bar.sync 3;")
    read = w.pick(
        f"ld.shared.u32 {w.variable()}, [%r10];",
        f"ld.shared.{w.pick('s8', 'u8')} {w.variable()}, [%r10+{w.draw(st.integers(0, 3))}];",
        f"cvt.u64.u32 %d6, %r10; cvta.shared.u64 %d6, %d6; ld.u32 {w.variable()}, [%d6];",
    )
    return [
        "bar.sync 0;", f"st.shared.u32 [%r12], {w.variable()};", barrier, other, "rem.u32 %r10, %r10, %r7;",
        "mov.u32 %r11, board;", "mad.lo.u32 %r10, %r10, 4, %r11;", read,
    ]  # fmt: skip

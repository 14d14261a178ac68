"""Statements in which threads wait for each other in loops: for the thread before, or for a lock.

A chain has a word of `marks` for each thread of the launch, which it writes once; `kept` is what the lock
protects.  %w0 to %w2, %x0 to %x2 and %e0 are free here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs.writer import Writer

_CHAINS, _THREADS = 4, 128
MODULE = f""".global .align 4 .b32 marks[{_CHAINS * _THREADS}];
.global .align 4 .b32 lock; .global .align 4 .b32 kept[2]; .global .align 4 .b32 tries;"""
#: So that all of the variables are there.
HEAD = """.reg .b32 %w<3>; .reg .pred %x<3>; .reg .b64 %e<1>;
mov.u64 %e0, marks; mad.wide.u32 %e0, %r9, 4, %e0; ld.global.u32 %w0, [lock];
red.global.add.u32 [tries], 1; red.global.add.u32 [kept+4], 1;"""


def together(w: Writer) -> list[str]:
    """A chain through all threads of the block, by one way or by two."""
    if w.chains == _CHAINS:
        return []
    w.chains += 1
    if w.pick("one", "one", "two") == "one":
        return _link(w)
    condition, other, join = w.condition(), w.label(), w.label()
    return [f"@{condition} bra {other};", *_link(w), f"bra {join};", f"{other}:", *_link(w), f"{join}:"]


def _link(w: Writer) -> list[str]:
    """Wait for a thread some places before, if there is one, and let the next one go on."""
    back, variable, place = 1 + w.below(3), w.variable(), 4 * _THREADS * (w.chains - 1)
    wait, pass_, go = w.label(), w.label(), w.label()
    look = f"ld.volatile.global.u32 %w0, [%e0+{place - 4 * back}]; setp.eq.u32 %x1, %w0, 0;"
    add = f"add.u32 {variable}, {variable}, %w0;"
    mark = f"or.b32 %w1, {variable}, 1; st.volatile.global.u32 [%e0+{place}], %w1;"
    first = f"setp.lt.u32 %x0, %r6, {back};"
    match w.pick("around", "apart", "counting"):
        case "around":
            return [first, f"@%x0 bra {go};", f"{wait}:", look, f"@%x1 bra {wait};", add, f"{go}:", mark]
        case "apart":
            return [
                first, f"@!%x0 bra {wait};", mark, f"bra {go};",
                f"{wait}:", look, f"@%x1 bra {wait};", add, mark, f"{go}:",
            ]  # fmt: skip
    return [
        first, f"@%x0 bra {go};", f"{wait}:", look, f"@!%x1 bra {pass_};",
        "red.global.add.u32 [tries], 1;", f"bra {wait};", f"{pass_}:", add, f"{go}:", mark,
    ]  # fmt: skip


def statement(w: Writer) -> list[str]:
    """Take the lock, change what it protects, and give it back."""
    again, missed, done = w.label(), w.label(), w.label()
    take = "atom.global.cas.b32 %w0, [lock], 0, 1; setp.ne.u32 %x2, %w0, 0;"
    work = f"""ld.volatile.global.u32 %w1, [kept]; add.u32 %w1, %w1, {1 + w.below(9)};
        st.volatile.global.u32 [kept], %w1; membar.gl; atom.global.exch.b32 %w0, [lock], 0;"""
    match w.pick("spin", "attempts", "counting"):
        case "spin":
            return [f"{again}:", take, f"@%x2 bra {again};", work]
        case "attempts":
            return [
                "mov.u32 %w2, 0;", f"{again}:", take, f"@%x2 bra {missed};", work, "mov.u32 %w2, 1;",
                f"{missed}: setp.eq.u32 %x2, %w2, 0;", f"@%x2 bra {again};",
            ]  # fmt: skip
    return [
        f"{again}:", take, f"@!%x2 bra {done};", "red.global.add.u32 [tries], 1;", f"bra {again};",
        f"{done}:", work,
    ]  # fmt: skip

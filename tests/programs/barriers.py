"""Statements with barriers that count threads, reduce predicates, or are passed by those who only arrive.

They exchange words of `board` (see `spaces`) among the threads that meet; a barrier of the whole block comes
first, so that nobody still reads what is overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs.writer import Writer

_OTHER = "rem.u32 %r10, %r10, {count}; mov.u32 %r11, board; mad.lo.u32 %r10, %r10, 4, %r11;"


def together(w: Writer) -> list[str]:
    """Threads count by whole warps, so that only blocks of whole warps have more than the reductions."""
    warps, rest = divmod(w.threads, 32)
    kind = w.pick("red", "popc") if rest else w.pick("red", "popc", "some", "some", "arrive")
    if kind == "red":
        return [f"{_name(w)}.red.{w.pick('and', 'or')}.pred {w.predicate()}, {w.below(4)}, {_source(w)};"]
    if kind == "popc":
        return [f"{_name(w)}.red.popc.u32 {w.variable()}, {w.below(4)}, {_source(w)};"]
    skip = w.label()
    if kind == "some" or warps < 2:  # the first warps
        count = 32 * (1 + w.below(warps))
        return [
            "bar.sync 0;", f"setp.ge.u32 %s3, %r6, {count};", f"@%s3 bra {skip};",
            f"st.shared.u32 [%r12], {w.variable()};", f"{_name(w)}.sync {1 + w.below(3)}, {count};",
            f"add.u32 %r10, %r6, {w.below(200)};", _OTHER.format(count=count),
            f"ld.shared.u32 {w.variable()}, [%r10];", f"{skip}:",
        ]  # fmt: skip
    join, number = w.label(), 4 + w.below(3)  # the first warp stores, the second waits for it and reads
    return [
        "bar.sync 0;", "setp.lt.u32 %s3, %r6, 32;", f"@!%s3 bra {skip};",
        f"st.shared.u32 [%r12], {w.variable()};", f"{_name(w)}.arrive {number}, 64;", f"bra {join};",
        f"{skip}:",
        "setp.ge.u32 %s3, %r6, 64;", f"@%s3 bra {join};", f"{_name(w)}.sync {number}, 64;",
        f"add.u32 %r10, %r6, {w.below(200)};", _OTHER.format(count=32),
        f"ld.shared.u32 {w.variable()}, [%r10];", f"{join}:",
    ]  # fmt: skip


def _name(w: Writer) -> str:
    return w.pick("bar", "barrier")


def _source(w: Writer) -> str:
    return w.pick("", "!") + w.predicate()

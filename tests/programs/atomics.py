"""Atomic statements whose outcome does not depend on the order of threads.

`totals` and the shared `counts` have a word for each operation that commutes with itself, and what was there
before is not looked at.  Other operations work on a word that is the thread's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from programs.sizes import OWN, VARIABLES

if TYPE_CHECKING:
    from programs.writer import Writer

_COMMUTING = (
    "add.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32",
    "add.s32",
)  # fmt: skip
MODULE = ".global .align 8 .b32 totals[12] = {0, 5, 5, 5, 5, -1, 0, 0, 0, 0, 0, 0};"
#: So that `totals` is there.
HEAD = "red.global.add.u32 [totals], 1;"
_OWN = ("add.u32", "exch.b32", "min.s32", "max.u32", "and.b32", "xor.b32", "inc.u32", "dec.u32")


def statement(w: Writer) -> list[str]:
    """Atomic operations that a thread may execute at any time."""
    guard = f"@{w.condition()} " if w.pick("", "guarded") else ""
    place = f"[%d2+{4 * VARIABLES + 4 * w.below(OWN - VARIABLES)}]"
    match w.pick("total", "reduce", "long", "own", "swap", "own long"):
        case "total":
            number = w.below(len(_COMMUTING))
            operand = "6" if _COMMUTING[number] == "inc.u32" else w.source()
            return [f"{guard}atom.global.{_COMMUTING[number]} %r14, [totals+{4 * number}], {operand};"]
        case "reduce":
            number = w.below(len(_COMMUTING))
            operand = "6" if _COMMUTING[number] == "inc.u32" else w.source()
            return [f"{guard}red.global.{_COMMUTING[number]} [totals+{4 * number}], {operand};"]
        case "long":
            return [f"{guard}atom.global.add.u64 %d6, [totals+40], {w.pick('%d3', '%d4')};"]
        case "own":
            return [f"{guard}atom.global.{w.pick(*_OWN)} {w.variable()}, {place}, {w.source()};"]
        case "own long":
            return [f"{guard}atom.global.exch.b64 %d3, [%d2+{4 * VARIABLES}], %d4;"]
    return [f"{guard}atom.global.cas.b32 {w.variable()}, {place}, {w.source()}, {w.variable()};"]

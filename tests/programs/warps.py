"""Statements in which the lanes of a warp exchange values.

A block is one warp of a power of two lanes, or several whole ones, so that no lane reads from one that does
not exist.  %r13 is the mask of the warp's lanes; %r14, %r15 and %s0 to %s3 are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from programs.writer import Writer

MODULE = ""
HEAD = """shl.b32 %r13, 1, %r7; add.u32 %r13, %r13, -1; setp.ge.u32 %s0, %r7, 32;
selp.b32 %r13, -1, %r13, %s0; setp.eq.u32 %s0, 0, 0; setp.ne.u32 %s1, 0, 0;"""
_REDUCTIONS = ("add.s32", "add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32")
_LANES = ("%laneid", "%lanemask_lt", "%lanemask_ge", "%lanemask_eq", "%warpid")


def together(w: Writer) -> list[str]:
    """What all lanes execute together: shuffles, as their sources must take part, and the rest."""
    if w.draw(st.booleans()):
        return collective(w, "%r13")
    kind = w.pick("shfl", "shfl", "scan", "lanes", "activemask")
    if kind == "lanes":
        return [f"mov.u32 {w.variable()}, {w.pick(*_LANES)};"]
    if kind == "activemask":
        return [f"activemask.b32 {w.variable()};"]
    width = min(w.threads, 32)
    segment = w.draw(st.sampled_from([s for s in (1, 2, 4, 8, 16, 32) if s <= width]))
    if kind == "scan":  # the carry of a prefix sum
        return [
            f"shfl.sync.up.b32 %r14|%s2, {w.variable()}, {w.draw(st.integers(1, segment))}, "
            f"{32 - segment << 8}, %r13;",
            f"@%s2 add.u32 {w.variable()}, {w.variable()}, %r14;",
        ]
    mode = w.pick("up", "down", "bfly", "idx")
    control = 32 - segment << 8 | (0 if mode == "up" else segment - 1)
    offset = w.pick(str(w.draw(st.integers(0, 33))), w.variable(), "%r6")
    second = w.pick("", "|%s2")
    lines = [f"shfl.sync.{mode}.b32 {w.variable()}{second}, {w.variable()}, {offset}, {control}, %r13;"]
    if second:
        lines.append(f"selp.b32 {w.variable()}, {w.source()}, {w.source()}, %s2;")
    return lines


def apart(w: Writer) -> list[str]:
    """Lanes that part and find each other by a vote before that."""
    condition = w.condition()
    negated = condition.removeprefix("!") if condition.startswith("!") else f"!{condition}"
    join = w.label()
    return [
        f"vote.sync.ballot.b32 %r14, {condition}, %r13;", f"@{negated} bra {join};", *collective(w, "%r14"),
        f"{join}:",
    ]  # fmt: skip


def collective(w: Writer, members: str) -> list[str]:
    """An instruction that the lanes of a mask execute, and whose result depends on these alone."""
    match w.pick("ballot", "vote", "redux", "match", "match all"):
        case "ballot":
            return [f"vote.sync.ballot.b32 {w.variable()}, {w.pick('', '!')}{w.predicate()}, {members};"]
        case "vote":
            mode = w.pick("all", "any", "uni")
            return [f"vote.sync.{mode}.pred {w.predicate()}, {w.pick('', '!')}{w.predicate()}, {members};"]
        case "redux":
            return [f"redux.sync.{w.pick(*_REDUCTIONS)} {w.variable()}, {w.variable()}, {members};"]
        case "match":
            narrow = f"and.b32 %r15, {w.variable()}, {w.pick('1', '3', '-1')};"
            return [narrow, f"match.any.sync.b32 {w.variable()}, %r15, {members};"]
        case _:
            return [f"match.all.sync.b32 {w.variable()}|{w.predicate()}, {w.variable()}, {members};"]

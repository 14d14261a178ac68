"""Barriers that cannot open, and how to say why: faults that name block, thread and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdbg.runtime.interpreter.barriers import is_aligned
from qdbg.runtime.interpreter.collectives import FIRST_MEETING, lane_mask
from qdbg.runtime.interpreter.errors import Fault, Reason
from qdbg.runtime.interpreter.forms import Array

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.block import Block
    from qdbg.runtime.interpreter.warp import Warp


def explain(block: Block) -> Fault:
    """The fault of a block in which no thread can run and some have not exited."""
    warp = next(w for w in block.warps if w.live.any())
    lane = int(warp.live.argmax())
    waiting = sum(int(w.live.sum()) for w in block.warps)
    number = int(warp.barrier[lane])
    if number >= FIRST_MEETING:
        message = f"{warp.name(lane)} waits for {_missing(warp, lane)}; {_others(waiting)}"
        cure = "let every lane of the member mask execute the same instruction with the same mask"
        return fault(warp, lane, "deadlock", f"{message}; {cure}")
    message = f"{waiting} threads wait at barriers that can never complete, the first is {warp.name(lane)}"
    needed = int(warp.needed[lane])
    if needed:
        arrived, _ = block.arrived.get(number, (0, 0))
        there = arrived + sum(int(lanes.sum()) for _, lanes in block.at(number))
        return fault(
            warp, lane, "deadlock",
            f"{message}: {there} of the {needed} threads of barrier {number} are there; let as many reach it",
        )  # fmt: skip
    return fault(warp, lane, "deadlock", f"{message}; let every thread of the block reach the same one")


def disagreement(groups: list[tuple[Warp, Array]], ident: int, counts: list[int]) -> Fault:
    """The fault of threads that wait at one barrier for different numbers of threads."""
    wanted = " and for ".join(str(count) if count else "all threads" for count in counts)
    warp, lanes = groups[-1]
    message = f"threads wait at barrier {ident} for {wanted}; give the same number everywhere"
    return fault(warp, int(lanes.argmax()), "divergent barrier", message)


def mixture(groups: list[tuple[Warp, Array]]) -> Fault:
    """The fault of a barrier at which some threads reduce and others only wait."""
    warp, lanes = groups[0]
    message = "threads meet with .sync and with .red at one barrier, which PTX leaves undefined"
    return fault(warp, int(lanes.argmax()), "divergent barrier", f"{message}; use two barriers")


def check_alignment(warp: Warp, lanes: Array) -> None:
    """Raises `Fault` where `bar.sync` or `.aligned` is not one instruction for a warp's lanes."""
    places = sorted({int(i) for i in warp.waiting[lanes]})
    instructions = [warp.program.code[i] for i in places]
    if len(places) > 1 and any(is_aligned(i) for i in instructions):
        lines = " and ".join(str(i.line) for i in instructions)
        raise fault(
            warp, int(lanes.argmax()), "divergent barrier",
            f"lanes of warp {warp.number} met at different bar.sync instructions (lines {lines}); "
            "move the barrier to where they run together",
        )  # fmt: skip


def fault(warp: Warp, lane: int, reason: Reason, message: str) -> Fault:
    """A fault of a lane at the instruction that it waits at."""
    source, instruction = warp.program.bound.source, warp.program.code[int(warp.waiting[lane])]
    return Fault(
        f"{source.place(instruction)}: {message}: {source.quote(instruction)}",
        reason, instruction.line, warp.block.coordinates, warp.thread(lane), lane,
    )  # fmt: skip


def _missing(warp: Warp, lane: int) -> str:
    """The first lane that the meeting of `lane` lacks, and where it is."""
    together = (warp.waiting >= 0) & (warp.barrier == warp.barrier[lane]) & (warp.needed == warp.needed[lane])
    members = int(warp.needed[lane])
    missing = members & lane_mask(warp.live & ~together)
    other = (missing & -missing).bit_length() - 1
    line = warp.program.code[int(warp.waiting[other])].line
    return f"lane {other} of its member mask {members:#x}, {warp.name(other)}, which waits at PTX line {line}"


def _others(waiting: int) -> str:
    return "no thread can run" if waiting == 1 else f"none of {waiting} threads can run"

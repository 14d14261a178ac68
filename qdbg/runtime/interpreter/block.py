"""A thread block: its warps, and which of the barriers that they wait at can open.

PTX ISA 9.7.13, "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qdbg.runtime.interpreter import stuck
from qdbg.runtime.interpreter.barriers import BlockBarrier, is_aligned
from qdbg.runtime.interpreter.collectives import FIRST_MEETING, finish_meeting, meetings, open_meetings
from qdbg.runtime.interpreter.errors import Fault
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.warp import Warp, coordinates

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.memory import Memory
    from qdbg.runtime.interpreter.program import Program

#: Lanes (bool [lanes]) of a warp.
Group = tuple[Warp, Array]


class Block:
    """The running block.  `number` counts blocks with x fastest; `coordinates` is %ctaid.

    arrived: barrier -> (threads that arrived without waiting, threads that it opens for); waiting: whether
    any lane waits or any barrier has arrivals; changed: whether one came to wait or arrived just now.
    """

    def __init__(self, program: Program, memory: Memory, number: int):
        self.program, self.memory, self.number = program, memory, number
        self.coordinates = coordinates(number, program.bound.grid)
        self.arrived: dict[int, tuple[int, int]] = {}
        self.waiting = self.changed = False
        count = -(-program.bound.threads // program.lanes)
        self.warps = [Warp(self, warp) for warp in range(count)]
        for watch in program.watches:
            watch.enter(self)

    @property
    def finished(self) -> bool:
        """Whether every thread has exited."""
        return not any(warp.live.any() for warp in self.warps)

    def release(self, warp: Warp, executed: Array) -> None:
        """Open what the last instruction of `warp`, which the lanes `executed` ran, has completed."""
        exited = executed & ~warp.live
        if exited.any():
            self._note_divergence(warp, int(exited.argmax()))
        elif not self.changed:
            return
        self.changed = False
        open_meetings(warp)
        for ident in sorted(self._barriers()):
            self._open(ident)
        self.waiting = bool(self.arrived) or any(w.waiting.max() >= 0 for w in self.warps)

    def release_all(self) -> None:
        """Open everything that lanes wait at, as if the threads that are missing had exited.

        For a caller that drives the warps and knows that these will exit without coming there.
        """
        for warp in self.warps:
            for together in list(meetings(warp)):
                finish_meeting(warp, together)
        for ident in sorted(self._barriers()):
            self.arrived.pop(ident, None)
            self._finish(ident, self.at(ident))
        self.waiting = False

    def arrive(self, ident: int, count: int) -> None:
        """A warp arrives at a barrier that `count` threads open, and does not wait (bar.arrive)."""
        arrived, _ = self.arrived.get(ident, (0, 0))
        self.arrived[ident] = arrived + self.program.lanes, count
        self.waiting = self.changed = True

    def deadlock(self) -> Fault:
        """The fault to raise when no thread can run and some have not exited."""
        return stuck.explain(self)

    def at(self, ident: int) -> list[Group]:
        """The lanes that wait at a barrier of the block, for each warp that has some."""
        groups = [(w, (w.waiting >= 0) & (w.barrier == ident)) for w in self.warps]
        return [(warp, lanes) for warp, lanes in groups if lanes.any()]

    def _barriers(self) -> set[int]:
        idents = set(self.arrived)
        for warp in self.warps:
            idents.update(warp.barrier[(warp.waiting >= 0) & (warp.barrier < FIRST_MEETING)].tolist())
        return idents

    def _open(self, ident: int) -> None:
        """Open a barrier if those that it waits for are there.

        Without a count these are all threads that have not exited, with one that many, in whole warps.
        """
        groups = self.at(ident)
        arrived, needed = self.arrived.get(ident, (0, 0))
        counts = {int(n) for warp, lanes in groups for n in warp.needed[lanes]}
        if len(counts) > 1 or (arrived and counts and counts != {needed}):
            raise stuck.disagreement(groups, ident, sorted(counts | ({needed} if arrived else set())))
        needed = counts.pop() if counts else needed
        whole = [(warp, lanes) for warp, lanes in groups if not (warp.live & ~lanes).any()]
        if needed:
            complete = arrived + len(whole) * self.program.lanes >= needed
        else:
            complete = len(whole) == sum(bool(warp.live.any()) for warp in self.warps)
        if complete:
            self.arrived.pop(ident, None)
            self._finish(ident, whole)

    def _finish(self, ident: int, groups: list[Group]) -> None:
        """Let the lanes go on, with the result of a reduction if it was one."""
        parts: list[tuple[Warp, Array, BlockBarrier]] = []
        for warp, lanes in groups:
            stuck.check_alignment(warp, lanes)
            for index in sorted({int(i) for i in warp.waiting[lanes]}):
                action = self.program.operation(index).action
                assert isinstance(action, BlockBarrier)
                parts.append((warp, lanes & (warp.waiting == index), action))
        if len({action.source is None for *_, action in parts}) > 1:
            raise stuck.mixture(groups)
        holds = [action.source(warp)[lanes] for warp, lanes, action in parts if action.source is not None]
        for warp, lanes, action in parts:
            if action.reduce is not None and action.write is not None:
                action.write(warp, lanes, action.reduce(np.concatenate(holds)))
            warp.waiting[lanes] = -1
        threads = np.concatenate([warp.threads[lanes] for warp, lanes in groups] or [np.zeros(0, np.int64)])
        for watch in self.program.watches:
            watch.open(ident, threads)

    def _note_divergence(self, warp: Warp, lane: int) -> None:
        """A finding if a thread exits past a barrier at which others of its warp wait.

        Hardware goes on without it, but only one instruction for the whole warp is defined.
        """
        waiting = (warp.waiting >= 0) & (warp.barrier < FIRST_MEETING)
        for index in sorted({int(i) for i in warp.waiting[waiting]}):
            instruction = self.program.code[index]
            if is_aligned(instruction) and self.program.findings.is_new("divergent barrier", index):
                self.program.findings.add(
                    "divergent barrier", warp, index, lane,
                    "exits without this barrier, at which others of its warp wait",
                    "let all threads of a warp reach it",
                )  # fmt: skip

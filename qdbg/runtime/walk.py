"""The interpreter's lanes, led along their own paths instead of by its scheduler.

Each lane runs ahead through PTX instructions that cost the machine nothing, up to the work that the
machine is at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.interpreter import Event, Interpreter, Warp
from qdbg.runtime.interpreter.warp import coordinates
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.view import Block

Mask = NDArray[np.bool_]


class Walk:
    """Where the lanes are, and what they have computed.  `known`: register -> lanes that wrote it."""

    def __init__(self, correspondence: Correspondence, interpreter: Interpreter, bound: BoundLaunch):
        self.map = correspondence
        self.kernel = bound.kernel
        self.bound = bound
        self.interpreter = interpreter
        self._costly = np.array(sorted(correspondence.anchors), np.int64)
        self.known: dict[str, Mask] = self._nothing_known()
        self._missed = np.zeros(len(self.warp.pc), np.bool_)  # lanes without which a barrier completed

    @property
    def warp(self) -> Warp:
        """The interpreter's warp; the machine runs blocks of one warp."""
        return self.interpreter.warps[0]

    @property
    def block(self) -> Block:
        """blockIdx of the block that the interpreter is in."""
        return coordinates(self.interpreter.block, self.bound.grid)

    @property
    def issued(self) -> int:
        """PTX instructions that the warp has issued."""
        return self.interpreter.instructions

    # -- where the interpreter is -----------------------------------------------------------------------

    def position(self, lanes: Mask, anchor: int) -> int:
        """The next PTX instruction of these lanes, of which the machine will complete `anchor` next."""
        there = self._pad(lanes)
        at = {int(pc) for pc in self.warp.pc[there]}
        return at.pop() if len(at) == 1 and self.warp.runnable[there].all() else anchor

    def fronts(self) -> list[tuple[int, int]]:
        """(PTX instruction, lane mask) of every group of lanes that has not left the kernel."""
        groups: dict[int, int] = {}
        for lane in np.flatnonzero(self.warp.live):
            pc = int(self.warp.pc[lane])
            groups[pc] = groups.get(pc, 0) | 1 << int(lane)
        return sorted(groups.items())

    def skip(self, index: int, lanes: Mask) -> None:
        """Execute a free PTX instruction of these lanes."""
        self._execute(index, self._pad(lanes) & (self.warp.pc == index))

    def value(self, register: str, lane: int) -> int | None:
        """A register's bits in a lane, None before the lane wrote it."""
        return int(self.warp.registers[register][lane]) if self.known[register][lane] else None

    def words(self) -> NDArray[np.uint32]:
        """Memory as 32-bit words from MEMORY_BASE on, as far as anything is laid out."""
        end = -(-self.bound.memory_end // 4) * 4
        padded = np.zeros(end - MEMORY_BASE, np.uint8)
        content = self.interpreter.memory[MEMORY_BASE:end]
        padded[: len(content)] = content
        return padded.view(np.uint32)

    # -- history --------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """An opaque copy."""
        return self.interpreter.snapshot(), dict(self.known), self._missed.copy()

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot, which stays valid."""
        inner, known, missed = snapshot
        self.interpreter.restore(inner)
        self.known, self._missed = dict(known), missed.copy()

    # -- inside ---------------------------------------------------------------------------------------------

    def _nothing_known(self) -> dict[str, Mask]:
        return {name: np.zeros(len(self.warp.pc), np.bool_) for name in self.kernel.registers}

    def _next_block(self) -> None:
        self.interpreter.next_block()
        self.known = self._nothing_known()
        self._missed[:] = False

    def _execute(self, index: int, lanes: Mask) -> Event:
        event = self.warp.execute(index, lanes)
        for name in event.writes:
            self.known[name] = self.known[name] | event.active  # not in place: snapshots share masks
        return event

    def _arrive(self, anchor: int, lanes: Mask, uniform: bool) -> Mask:
        """Let lanes run ahead until they stand at work; those whose work `anchor` is."""
        there = self.warp.live if uniform else self._pad(lanes)
        self._catch_up(there)
        for _ in range(len(self.kernel.body)):
            stuck = there & (self.warp.waiting >= 0)
            if not stuck.any() or (uniform and self._at(anchor).any()):
                break
            # The machine went on without lanes that leave the kernel later on, which it may.
            self._missed |= self.warp.live & (self.warp.waiting < 0)
            self.warp.waiting[:] = -1
            self._catch_up(there)
        return self._at(anchor) if uniform else there

    def _at(self, index: int) -> Mask:
        """The lanes that are about to execute a PTX instruction."""
        at: Mask = self.warp.runnable & (self.warp.pc == index)
        return at

    def _catch_up(self, lanes: Mask) -> None:
        """Execute what costs nothing until each of the lanes stands at work or waits."""
        self._run_ahead(lanes)
        if (lanes & (self.warp.waiting >= 0)).any():
            self._run_ahead(self.warp.live)  # the others may be all that the barrier waits for

    def _run_ahead(self, lanes: Mask) -> None:
        for _ in range(2 * len(self.kernel.body) * len(lanes)):
            ahead = lanes & self.warp.runnable & (~np.isin(self.warp.pc, self._costly) | self._passing())
            if not ahead.any():
                return
            index = int(self.warp.pc[ahead].min())
            self._execute(index, ahead & (self.warp.pc == index))

    def _passing(self) -> Mask:
        """Lanes that stand at work which is not theirs, their guard being false."""
        passing = np.zeros_like(self._missed)
        if not self.map.optional:
            return passing
        for index in self.map.optional.intersection(self.warp.pc.tolist()):
            guard = self.kernel.body[index].guard
            assert guard is not None
            holds = self.warp.registers[guard.register].astype(np.bool_) ^ guard.negated
            passing |= (self.warp.pc == index) & ~holds
        return passing

    def _pad(self, lanes: Mask) -> Mask:
        """The machine's lanes as the interpreter counts them: its warps are as wide or wider."""
        padded = np.zeros(len(self.warp.pc), np.bool_)
        padded[: len(lanes)] = lanes
        return padded

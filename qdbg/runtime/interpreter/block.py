"""A thread block: its warps and their barriers (PTX ISA 9.7.13, "Parallel Synchronization")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.errors import Fault
from qdbg.runtime.interpreter.warp import WARP_BARRIER, Warp, coordinates

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.memory import Memory
    from qdbg.runtime.interpreter.program import Program


class Block:
    """The running block.  `number` counts blocks with x fastest; `coordinates` is %ctaid."""

    def __init__(self, program: Program, memory: Memory, number: int):
        self.program, self.memory, self.number = program, memory, number
        self.coordinates = coordinates(number, program.bound.grid)
        self.arrived: dict[int, int] = {}  # threads that arrived without waiting, a barrier
        self.waiting = False  # whether any lane waits at a barrier
        count = -(-program.bound.threads // program.lanes)
        self.warps = [Warp(self, warp) for warp in range(count)]

    @property
    def finished(self) -> bool:
        """Whether every thread has exited."""
        return not any(warp.live.any() for warp in self.warps)

    def release(self, warp: Warp) -> None:
        """Open the barriers that the last instruction of `warp` completed."""
        self._release_lanes(warp)
        self._release_barriers()
        self.waiting = any(w.waiting.max() >= 0 for w in self.warps)

    def _release_lanes(self, warp: Warp) -> None:
        """Open bar.warp.sync for lanes whose fellow members all wait there or have exited."""
        waiting = (warp.waiting >= 0) & (warp.barrier == WARP_BARRIER)
        awake = sum(1 << int(lane) for lane in np.flatnonzero(warp.live & ~waiting))
        for members in np.unique(warp.needed[waiting]):
            if not int(members) & awake:
                warp.waiting[waiting & (warp.needed == members)] = -1

    def _release_barriers(self) -> None:
        """Open each barrier at which the threads it waits for have arrived.

        Without a count these are all threads that have not exited.  With one, a warp counts whole, its
        missing and exited lanes included.
        """
        masks = [(w.waiting >= 0) & (w.barrier != WARP_BARRIER) for w in self.warps]
        idents = {int(i) for w, m in zip(self.warps, masks, strict=True) for i in w.barrier[m]}
        for ident in idents:
            here = [m & (w.barrier == ident) for w, m in zip(self.warps, masks, strict=True)]
            needed = max(int(w.needed[m].max()) for w, m in zip(self.warps, here, strict=True) if m.any())
            missing = [int((w.live & ~m).sum()) for w, m in zip(self.warps, here, strict=True)]
            present = sum(
                w.lanes - absent for w, m, absent in zip(self.warps, here, missing, strict=True) if m.any()
            )
            complete = present + self.arrived.get(ident, 0) >= needed if needed else not any(missing)
            if complete:
                for warp, mask in zip(self.warps, here, strict=True):
                    self._check_aligned(warp, mask)
                    warp.waiting[mask] = -1
                self.arrived.pop(ident, None)

    def _check_aligned(self, warp: Warp, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """`bar.sync` and `.aligned` must be one instruction for the whole warp."""
        places = {int(i) for i in warp.waiting[mask]}
        instructions = [self.program.code[i] for i in sorted(places)]
        if len(places) > 1 and any(_aligned(i) for i in instructions):
            lines = " and ".join(str(i.line) for i in instructions)
            lane = int(np.argmax(mask))
            raise self._fault(
                warp, lane, instructions[0], "divergent barrier",
                f"lanes of warp {warp.number} met at different bar.sync instructions (lines {lines}); "
                "move the barrier to where they run together",
            )  # fmt: skip

    def deadlock(self) -> Fault:
        """The fault to raise when no thread can run and some have not exited."""
        warp = next(w for w in self.warps if w.live.any())
        lane = int(np.argmax(warp.live))
        waiting = sum(int(w.live.sum()) for w in self.warps)
        instruction = self.program.code[int(warp.waiting[lane])]
        return self._fault(
            warp, lane, instruction, "deadlock",
            f"{waiting} threads wait at barriers that can never complete, the first is {warp.name(lane)}; "
            "let every thread of the block reach the same one",
        )  # fmt: skip

    def _fault(self, warp: Warp, lane: int, instruction: Instruction, reason: str, message: str) -> Fault:
        source = self.program.bound.source
        return Fault(
            f"{source.place(instruction)}: {message}: {source.quote(instruction)}",
            "deadlock" if reason == "deadlock" else "divergent barrier",
            instruction.line, self.coordinates, warp.thread(lane), lane,
        )  # fmt: skip


def _aligned(instruction: Instruction) -> bool:
    return instruction.opcode == "bar" or instruction.has("aligned")

"""The threads of the interpreter's block in a row: what the machine calls lanes, warp after warp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.interpreter import Event, Fault, Interpreter, Warp
from qdbg.runtime.interpreter.collectives import FIRST_MEETING, meetings

Mask = NDArray[np.bool_]


class Threads:
    """The warps of the current block side by side: thread w * (lanes of a warp) + i is lane i of warp w.

    Where the last warp is not full, its missing lanes count too: they have exited.
    """

    def __init__(self, interpreter: Interpreter):
        self._interpreter = interpreter
        self._count = sum(warp.lanes for warp in interpreter.warps)  # the same in every block

    @property
    def warps(self) -> list[Warp]:
        """The warps of the block that runs."""
        return self._interpreter.warps

    def __len__(self) -> int:
        return self._count

    @property
    def pc(self) -> NDArray[np.int64]:
        """The instruction that each thread executes next, negative where it has exited."""
        return np.concatenate([warp.pc for warp in self.warps])

    @property
    def waiting(self) -> NDArray[np.int64]:
        """The instruction at which a thread waits for others, -1 where it does not."""
        return np.concatenate([warp.waiting for warp in self.warps])

    @property
    def live(self) -> Mask:
        """Threads that have not exited."""
        live: Mask = self.pc >= 0
        return live

    @property
    def stuck(self) -> Mask:
        """Threads that wait for others."""
        if not self.warps[0].block.waiting:
            return np.zeros(len(self), np.bool_)
        stuck: Mask = self.waiting >= 0
        return stuck

    @property
    def runnable(self) -> Mask:
        """Threads that can go on by themselves."""
        return self.live & ~self.stuck

    def register(self, name: str) -> NDArray[np.uint64]:
        """A register's bits in every thread."""
        return np.concatenate([warp.registers[name] for warp in self.warps])

    def registers(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Several registers' bits in every thread, [names, threads]."""
        warps = [np.stack([warp.registers[name] for name in names]) for warp in self.warps]
        return np.concatenate(warps, axis=1)

    def value(self, name: str, thread: int) -> int:
        """A register's bits in one thread."""
        warp, lane = divmod(thread, self.warps[0].lanes)
        return int(self.warps[warp].registers[name][lane])

    def execute(self, index: int, threads: Mask) -> list[Event]:
        """Execute an instruction for these threads, warp after warp.  Raises as `Warp.execute` does."""
        parts = threads.reshape(len(self.warps), -1)
        warps = zip(list(self.warps), parts, strict=True)
        return [warp.execute(index, part) for warp, part in warps if part.any()]

    def joined(self, masks: list[tuple[int, Mask]]) -> Mask:
        """Threads out of (warp, its lanes)."""
        whole = np.zeros(len(self), np.bool_)
        for number, lanes in masks:
            start = number * self.warps[0].lanes
            whole[start : start + len(lanes)] |= lanes
        return whole

    def number(self, fault: Fault) -> int:
        """The thread that faulted."""
        x, y, _ = self._interpreter.bound.block
        return fault.thread[0] + x * (fault.thread[1] + y * fault.thread[2])

    def local(self, thread: int, size: int) -> NDArray[np.uint8]:
        """The first bytes of a thread's local memory; a copy."""
        memory = self.warps[0].memory
        places = memory.local_places(np.arange(size), np.full(size, thread))
        content: NDArray[np.uint8] = memory.image[places]
        return content

    def missing(self) -> NDArray[np.bool_]:
        """Whom others wait for: bool [2, threads], at a barrier of the block and at a meeting of the warp."""
        blocked = any((warp.barrier[warp.waiting >= 0] < FIRST_MEETING).any() for warp in self.warps)
        lanes = np.arange(self.warps[0].lanes)
        awaited = []
        for warp in self.warps:
            absent = np.zeros(warp.lanes, np.bool_)
            for together in meetings(warp):
                members = int(warp.needed[int(together.argmax())])
                absent |= (members >> lanes & 1).astype(np.bool_) & warp.live & ~together
            awaited.append(absent)
        return np.stack([self.runnable & blocked, np.concatenate(awaited)])

    def release(self) -> None:
        """Let all that wait go on, as if the threads that they wait for had exited."""
        self.warps[0].block.release_all()

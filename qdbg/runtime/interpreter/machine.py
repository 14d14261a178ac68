"""The interpreter of a launch: blocks one after another, the warps of a block in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Function, Instruction, Module
from qdbg.runtime.interpreter.block import Block
from qdbg.runtime.interpreter.errors import LimitReached
from qdbg.runtime.interpreter.findings import Finding
from qdbg.runtime.interpreter.memory import Memory
from qdbg.runtime.interpreter.names import Names
from qdbg.runtime.interpreter.program import Program
from qdbg.runtime.interpreter.race import RaceWatch
from qdbg.runtime.interpreter.warp import Event, Printed, Warp
from qdbg.runtime.interpreter.watch import SharedWatch, Watch
from qdbg.runtime.launch import BoundLaunch

#: The weight of the instructions that a warp may issue before the next one gets a turn; a spinning warp must
#: not starve others.
_TURN = 10_000
#: Warp instructions between two reports of progress.
_REPORT = 4096


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that a launch changes; opaque to callers and never modified."""

    block: int
    issued: int
    printed: int
    turn: int
    left: int
    image: NDArray[np.uint8]
    arrived: dict[int, tuple[int, int]]
    waiting: bool
    warps: tuple[dict[str, Any], ...]
    watches: tuple[Any, ...]


class Interpreter:
    """Runs a bound launch of a PTX module, one warp instruction at a time.

    `lanes` is the size of a warp.  With `races`, accesses of two threads that nothing orders are found too,
    which takes several times as long.
    """

    def __init__(self, module: Module, bound: BoundLaunch, lanes: int = 32, races: bool = False):
        self.bound = bound
        self._program = Program(bound, lanes)
        self._memory = Memory(bound, self._program.names.frame_bytes, self._program.stack_bytes)
        watches: list[Watch] = [SharedWatch(self._memory)] if bound.shared_bytes else []
        if races:
            watches.append(RaceWatch(self._program, self._memory))
        self._program.watches = tuple(watches)
        self._enter(0)

    def _enter(self, block: int) -> None:
        self._memory.clear_local()
        self._block = Block(self._program, self._memory, block)
        self._turn, self._left = 0, _TURN

    # -- state ----------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every thread of the last block has exited."""
        return self.block + 1 == self.bound.blocks and self._block.finished

    @property
    def block(self) -> int:
        """Number of the current block, x fastest; it stays current until the next one's first step."""
        return self._block.number

    @property
    def warps(self) -> list[Warp]:
        """The warps of the current block."""
        return self._block.warps

    @property
    def instructions(self) -> int:
        """PTX instructions issued so far, counted once a warp."""
        return self._program.issued

    @property
    def printed(self) -> Sequence[Printed]:
        """What printf in device code printed so far, in the order in which the threads did."""
        return self._program.printed

    def location(self, index: int) -> tuple[Function, Instruction]:
        """The function and instruction that a lane's pc or an event's index stands for."""
        return self._program.routine(index).function, self._program.code[index]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Warnings so far, which do not stop a launch: what the kernel does although PTX leaves it undefined.

        Each instruction is named once a kind: a read of shared memory never written, a shuffle from a lane
        that takes no part, a thread that exits past a barrier of its warp, and with `races` a race.
        """
        return tuple(self._program.findings.list)

    def names(self, index: int) -> Names:
        """The names of the function that holds the instruction at `index`, those of the kernel for EXIT."""
        return self._program.routine(max(index, 0)).names

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The bytes from address 0 to the end of shared memory, rounded up to a multiple of 16; a view."""
        return self._memory.image[: self._memory.flat_size]

    @property
    def shared(self) -> NDArray[np.uint8]:
        """The running block's shared memory; a view."""
        return self.memory[self.bound.shared_base : self.bound.memory_end]

    def array(self, name: str) -> NDArray[np.generic]:
        """The present content of an array or module variable; a view.  Raises `KeyError`."""
        for allocation in self.bound.allocations:
            if allocation.name == name:
                return self.memory[allocation.address : allocation.end].view(allocation.data.dtype)
        raise KeyError(name)

    # -- running --------------------------------------------------------------------------------------

    def step(self) -> Event | None:
        """Execute the launch's next warp instruction; None when it is over.

        Raises `Fault` (a deadlock among them) and `Unsupported`; the state is then as `Warp.execute` says.
        """
        while (event := self._step()) is None:
            if not self._block.finished:
                raise self._block.deadlock()
            if self.finished:
                return None
            self.next_block()
        return event

    def run(self, limit: int | None = None, progress: Callable[[int, int], None] | None = None) -> None:
        """Run to the end.

        `progress(blocks done, blocks)` is called now and then and may raise.  Raises `LimitReached` once
        `limit` warp instructions were issued in this call.
        """
        issued = 0
        while issued != limit:
            if progress is not None and issued % _REPORT == 0:
                progress(self.block, self.bound.blocks)
            if self.step() is None:
                return
            issued += 1
        if not self.finished:
            raise LimitReached(issued)

    def next_block(self) -> None:
        """Enter the block after the current one, all of whose threads must have exited.

        For a caller that drives the warps itself; `step` does it on its own.  Raises `ValueError` if the
        current block is not done or is the last one.
        """
        if not self._block.finished or self.finished:
            raise ValueError(f"block {self.block} has threads left, or is the last one")
        self._enter(self.block + 1)

    def _step(self) -> Event | None:
        """Step the warp whose turn it is, or the next one that can run."""
        warps = self.warps
        if self._left <= 0:
            self._turn, self._left = (self._turn + 1) % len(warps), _TURN
        for ahead in range(len(warps)):
            number = (self._turn + ahead) % len(warps)
            event = warps[number].step()
            if event is not None:
                if ahead:
                    self._turn, self._left = number, _TURN
                self._left -= self._program.operation(event.index).weight
                return event
        return None

    # -- history --------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """A copy of everything that the launch changes."""
        return Snapshot(
            self.block, self.instructions, len(self.printed), self._turn, self._left, self._memory.save(),
            dict(self._block.arrived), self._block.waiting, tuple(w.save() for w in self.warps),
            tuple(watch.save() for watch in self._program.watches),
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, which stays valid."""
        if snapshot.block != self.block:
            self._block = Block(self._program, self._memory, snapshot.block)
        self._memory.restore(snapshot.image)
        self._block.arrived, self._block.waiting = dict(snapshot.arrived), snapshot.waiting
        for warp, saved in zip(self.warps, snapshot.warps, strict=True):
            warp.load(saved)
        for watch, state in zip(self._program.watches, snapshot.watches, strict=True):
            watch.restore(state)
        self._program.issued = snapshot.issued
        del self._program.printed[snapshot.printed :]
        self._turn, self._left = snapshot.turn, snapshot.left

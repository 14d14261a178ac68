"""A kernel prepared for one launch: decoded operations, block order, and what all warps share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.runtime.interpreter.control import EXIT
from qdbg.runtime.interpreter.decode import Operation, decode
from qdbg.runtime.interpreter.operands import Names
from qdbg.runtime.launch import BoundLaunch


class Program:
    """Decoded on demand, an instruction at its first execution.

    `rank[i]` is the place of instruction i when blocks are laid out in control-flow order; `issued` counts
    warp instructions.
    """

    def __init__(self, bound: BoundLaunch, lanes: int):
        self.kernel, self.bound, self.lanes = bound.kernel, bound, lanes
        self.names = Names(bound.kernel, bound)
        self.issued = 0
        self.entry = self.follow(0)
        self._operations: list[Operation | None] = [None] * len(self.kernel.body)
        self.rank: NDArray[np.int64] = self._ranks()
        self.last_rank = np.int64(len(self.kernel.body))

    def operation(self, index: int) -> Operation:
        """The decoded instruction at `index`."""
        found = self._operations[index]
        if found is None:
            found = decode(self.names, self.lanes, self.kernel.body[index])
            self._operations[index] = found
        return found

    def follow(self, index: int) -> int:
        """A program counter; running off the end of the body exits."""
        return index if index < len(self.kernel.body) else EXIT

    def nearest(self, address: int) -> str:
        """A hint for messages: the allocation that ends or starts closest to an address."""
        allocations = self.bound.allocations
        if not allocations:
            return ""
        close = min(allocations, key=lambda a: max(a.address - address, address - a.end, 0))
        return f" (the nearest is {close.name}, {close.address:#x} to {close.end:#x})"

    def _ranks(self) -> NDArray[np.int64]:
        flow = ControlFlow(self.kernel)
        reachable = list(flow.order)
        rest = [block.index for block in flow.blocks if block.index not in set(reachable)]
        rank = np.zeros(max(len(self.kernel.body), 1), np.int64)
        place = 0
        for number in (*reachable, *rest):
            block = flow.blocks[number]
            size = block.end - block.start
            rank[block.start : block.end] = np.arange(place, place + size)
            place += size
        return rank

"""Watching what threads do to memory: reads of shared memory that nobody wrote, and room for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Space
from qdbg.runtime.interpreter.forms import Array

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.block import Block
    from qdbg.runtime.interpreter.memory import Memory
    from qdbg.runtime.interpreter.warp import Warp


class Watch:
    """Is told of every allowed access to memory and of what orders them; this one does nothing.

    Threads are numbers within the running block.
    """

    def enter(self, block: Block) -> None:
        """A block begins."""

    def access(
        self, warp: Warp, index: int, space: Space, lanes: NDArray[np.intp], located: Array, size: int
    ) -> None:
        """Lanes are about to execute the instruction `index` on `size` bytes at positions in the image."""

    def arrive(self, ident: int, threads: NDArray[np.int64]) -> None:
        """Threads arrived at a barrier of the block without waiting."""

    def open(self, ident: int, threads: NDArray[np.int64]) -> None:
        """A barrier of the block opens; these threads waited there."""

    def synchronise(self, threads: NDArray[np.int64]) -> None:
        """Threads of a warp met at bar.warp.sync."""

    def save(self) -> Any:
        """A copy of the state."""

    def restore(self, state: Any) -> None:
        """Return to a saved state, which stays valid."""


#: The opcodes that read what was there, and those that write.
_READING = ("ld", "ldu", "atom", "red")
_WRITING = ("st", "atom", "red")


class SharedWatch(Watch):
    """Notes reads of shared memory that no thread of the block has written: their value is undefined."""

    def __init__(self, memory: Memory):
        self._memory = memory
        base, size = memory.shared_window
        self._base = base
        self._written = np.zeros(-(-size // 16) * 16, np.uint8)  # 255 where a byte was written
        self._views = {unit: self._written.view(f"<u{unit}") for unit in (1, 2, 4, 8)}

    def enter(self, block: Block) -> None:
        """A block begins with nothing written."""
        self._written[:] = 0

    def access(
        self, warp: Warp, index: int, space: Space, lanes: NDArray[np.intp], located: Array, size: int
    ) -> None:
        """Check a read, remember a write."""
        if space != "shared":
            if space != "generic":
                return
            inside = self._memory.is_shared(located)
            lanes, located = lanes[inside], located[inside]
        unit = min(size, 8)
        written, places = self._views[unit], (located - self._base) // unit
        opcode = warp.program.code[index].opcode
        if opcode in _READING:
            for part in range(size // unit):
                missing = written[places + part] != (1 << 8 * unit) - 1
                if missing.any():
                    self._report(warp, index, int(lanes[missing.argmax()]), int(located[missing.argmax()]))
        if opcode in _WRITING:
            for part in range(size // unit):
                written[places + part] = (1 << 8 * unit) - 1

    def save(self) -> NDArray[np.uint8]:
        """A copy of the state."""
        return self._written.copy()

    def restore(self, state: NDArray[np.uint8]) -> None:
        """Return to a saved state, which stays valid."""
        self._written[:] = state

    def _report(self, warp: Warp, index: int, lane: int, located: int) -> None:
        findings = warp.program.findings
        if findings.is_new("uninitialised shared memory", index):
            findings.add(
                "uninitialised shared memory", warp, index, lane,
                f"reads shared address {located - self._base:#x}, which no thread of the block has written",
                "write it first",
            )  # fmt: skip

"""The machine's state as a person reads it: decoded registers, masks and memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.isa import Pattern


@dataclass(frozen=True, eq=False)
class MachineState:
    """State after a pass, as decoded from the engine.

    pc: address of the current instruction, None before the launch starts; exists: bool [lanes];
    registers: uint32 [lanes, registers]; uniforms: uint32 [uniforms]; slots: int8 [slots, lanes], 0
    or 1, -1 where never written; memory: uint32 [words], from MEMORY_BASE on; allocated: bool [words].
    """

    pc: int | None
    exists: NDArray[np.bool_]
    registers: NDArray[np.uint32]
    uniforms: NDArray[np.uint32]
    slots: NDArray[np.int8]
    memory: NDArray[np.uint32]
    allocated: NDArray[np.bool_]

    def active(self, pattern: Pattern) -> NDArray[np.bool_]:
        """The lanes that are active under a pattern, bool [lanes]."""
        mask = self.exists.copy()
        for slot in range(len(self.slots)):
            if pattern.care >> slot & 1:
                mask &= (self.slots[slot] < 0) | (self.slots[slot] == (pattern.value >> slot & 1))
        return mask

"""The machine's parameters.  A checkpoint depends on these and on nothing of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

#: Instructions (or words) between two `line` positions: the reach of the halving clock, see `fetch`.
LINE = 16
#: Threads of a warp: the reach of warp instructions such as SHFL and MASK.
WARP = 32
#: Byte address of the first word of memory; everything below faults, so that null pointers do.
MEMORY_BASE = 0x1000


@dataclass(frozen=True)
class MachineConfig:
    """Sizes of the machine; all powers of two.

    lanes: threads of a block, which run as one instruction stream (a power of two from 4 to 128);
    registers: 32-bit vector registers of a lane; uniforms: 32-bit registers and constants shared by all
    lanes; slots: divergence bits of a lane; program: instructions; words: 32-bit words of memory.
    """

    lanes: int = 128
    registers: int = 32
    uniforms: int = 128
    slots: int = 8
    program: int = 512
    words: int = 4096

    def __post_init__(self) -> None:
        if self.lanes not in (4, 8, 16, 32, 64, 128):
            raise ValueError(f"the machine has 4, 8, 16, 32, 64 or 128 lanes, not {self.lanes}")

    @property
    def warp(self) -> int:
        """Lanes of a warp: all of them in a machine narrower than that."""
        return min(self.lanes, WARP)

    @property
    def memory_end(self) -> int:
        """The first byte address past the memory."""
        return MEMORY_BASE + 4 * self.words


NANO = MachineConfig()
#: A machine small enough for the tests to run it on the stock engine.
TINY = MachineConfig(lanes=4, registers=32, uniforms=128, slots=4, program=128, words=128)

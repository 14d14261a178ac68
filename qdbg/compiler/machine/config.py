"""The machine's parameters.  A checkpoint depends on these and on nothing of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

#: Instructions (or words) between two `line` positions: the reach of the halving clock, see `fetch`.
LINE = 16
#: Byte address of the first word of memory; everything below faults, so that null pointers do.
MEMORY_BASE = 0x1000


@dataclass(frozen=True)
class MachineConfig:
    """Sizes of the machine; all powers of two.

    lanes: threads of a warp (4, 8, 16 or 32); registers: 32-bit vector registers of a lane;
    uniforms: 32-bit registers and constants shared by the warp; slots: divergence bits of a lane;
    program: instructions; words: 32-bit words of memory.
    """

    lanes: int = 32
    registers: int = 32
    uniforms: int = 128
    slots: int = 8
    program: int = 512
    words: int = 4096

    def __post_init__(self) -> None:
        if self.lanes not in (4, 8, 16, 32):
            raise ValueError(f"a warp has 4, 8, 16 or 32 lanes, not {self.lanes}")

    @property
    def memory_end(self) -> int:
        """The first byte address past the memory."""
        return MEMORY_BASE + 4 * self.words


NANO = MachineConfig()
#: A machine small enough for the tests to run it on the stock engine.
TINY = MachineConfig(lanes=4, registers=32, uniforms=128, slots=4, program=128, words=128)

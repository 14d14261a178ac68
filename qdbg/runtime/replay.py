"""What a launch left in memory, worked out from its generated tokens alone.

`stock_generate.py` hands back nothing but token ids.  Stores have no token of their own (the pass
that executes one writes the memory), so the memory must be followed: `Replay` keeps a register file
that is filled **only** from result tokens, follows **only** the pcs and branch bits that came as
tokens, and applies a store when its acknowledging token arrives, to the address that those registers
give.  It has no adder for ADD, no comparison for CBR and never reads its own memory: a loaded value,
too, is what the token says.  The one sum it forms is a store's address, (A << scale) + C + E, which
the machine forms inside the pass and does not speak of.  So a model that computed wrong values
yields wrong memory here, and one that branched wrongly yields a wrong path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.machine.isa import LANE_INDEX, NONE, Instr, Op, Program, Reg
from qdbg.compiler.machine.vocabulary import Kind, Vocabulary
from qdbg.runtime.trace import Event, Trace, TraceError

_MASK = 0xFFFFFFFF


class Replay:
    """Follows one launch token by token; `memory` is uint32 [words], word 0 at MEMORY_BASE."""

    def __init__(
        self,
        program: Program,
        vocabulary: Vocabulary,
        uniforms: Mapping[int, int],
        memory: Mapping[int, int],
        threads: int,
    ):
        """uniforms, memory, threads: what the prompt said, as for `vocabulary.prompt`."""
        config = vocabulary.config
        self.trace = Trace(program, vocabulary, threads)
        self.registers: NDArray[np.uint32] = np.zeros((config.lanes, config.registers), np.uint32)
        self.uniforms: NDArray[np.uint32] = np.zeros(config.uniforms, np.uint32)
        self.memory: NDArray[np.uint32] = np.zeros(config.words, np.uint32)
        for register, value in uniforms.items():
            self.uniforms[register] = value & _MASK
        for address, value in memory.items():
            self.memory[self._word(address)] = value & _MASK

    def feed(self, token_id: int) -> Event:
        """Take the next generated token.  Raises TraceError for one that cannot stand here."""
        event = self.trace.feed(token_id)
        instr = self.trace.program.code[event.pc]
        kind = event.token.kind
        if kind in (Kind.RESULT, Kind.LAST) and event.value is not None:
            self._write(instr.dst, event.lane, event.value)
        elif instr.op is Op.ST and kind in (Kind.ACK, Kind.STEP) and event.lane is not None:
            self._store(instr, event.lane)
        return event

    def feed_all(self, token_ids: Iterable[int]) -> None:
        """Take a whole generation."""
        for token_id in token_ids:
            self.feed(token_id)

    def _write(self, register: Reg, lane: int | None, value: int) -> None:
        if register == NONE:
            return
        if register.uniform:
            self.uniforms[register.index] = value
        elif lane is not None:
            self.registers[lane, register.index] = value

    def _read(self, register: Reg, lane: int) -> int:
        if register == NONE:
            return 0
        if register == LANE_INDEX:
            return lane
        return int(
            self.uniforms[register.index] if register.uniform else self.registers[lane, register.index]
        )

    def _store(self, instr: Instr, lane: int) -> None:
        base = self._read(instr.a, lane) << instr.scale
        address = (base + self._read(instr.c, lane) + instr.immediate) & _MASK
        self.memory[self._word(address)] = self._read(instr.dst, lane)

    def _word(self, address: int) -> int:
        """The index of the word at a byte address."""
        word, rest = divmod(address - MEMORY_BASE, 4)
        if rest or not 0 <= word < len(self.memory):
            raise TraceError(
                f"pass {self.trace.count}: the tokens acknowledge a store to {address:#x}, where no word is"
            )
        return word

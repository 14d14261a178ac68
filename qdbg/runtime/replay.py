"""What a launch left in memory, worked out from its generated tokens alone.

`stock_generate.py` hands back nothing but token ids.  Stores have no token of their own (the pass
that executes one writes the memory), so the memory must be followed: `Replay` keeps a register file
that is filled **only** from result tokens, follows **only** the pcs and branch bits that came as
tokens, and applies a store when its acknowledging token arrives.  It has no adder for ADD, no
comparison for CBR and never reads its own memory: a loaded value, too, is what the token says.  So a
model that computed wrong values yields wrong memory here, and one that branched wrongly yields a
wrong path.

Two things happen inside a pass that speaks of neither, and so are worked out here, from registers
that came as tokens.  One is a store's address, (A << scale) + C + E.  The other is the word that a
*held* instruction stores (an atomic, a byte or half word): the pass before said what the word was,
the `OLD` token; the new one is the instruction's operation on registers, of which the old word is one.
A model that did this one operation wrongly shows when the word is loaded again, not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.alu import ALIGNMENT, evaluate, inserted
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
        self._held = 0  # the address that the newest HOLD read
        for register, value in uniforms.items():
            self.uniforms[register] = value & _MASK
        for address, value in memory.items():
            self.memory[self._word(address)] = value & _MASK

    def feed(self, token_id: int) -> Event:
        """Take the next generated token.  Raises TraceError for one that cannot stand here."""
        event = self.trace.feed(token_id)
        code, lane, kind = self.trace.program.code, event.lane, event.token.kind
        instr = code[event.pc]
        if kind is Kind.OLD and lane is not None:
            self._held = self._address(instr, lane)
        if kind in (Kind.RESULT, Kind.LAST, Kind.OLD) and event.value is not None:
            self._write(instr.dst, lane, event.value)
        elif kind in (Kind.ACK, Kind.STEP) and lane is not None:
            if instr.op is Op.HOLD:
                self._store(instr, self._held, self._modified(code[event.pc + 1], lane))
            else:
                self._store(instr, self._address(instr, lane), self._second(instr, lane))
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

    def _second(self, instr: Instr, lane: int) -> int:
        """Operand B."""
        return instr.immediate & _MASK if instr.immediate_is_b else self._read(instr.b, lane)

    def _addend(self, instr: Instr) -> int:
        return 0 if instr.immediate_is_b else instr.immediate & _MASK

    def _address(self, instr: Instr, lane: int) -> int:
        """The byte address that a store or a HOLD accesses."""
        base = self._read(instr.a, lane) << instr.scale
        return (base + self._read(instr.c, lane) + self._addend(instr)) & _MASK

    def _modified(self, held: Instr, lane: int) -> int:
        """The word that a held instruction stores."""
        a, b, c = self._read(held.a, lane), self._second(held, lane), self._read(held.c, lane)
        if held.op is Op.INSERT:
            return inserted(a, b, self._held, held.width)
        return evaluate(held.op, a, b, c, self._addend(held), held.scale, held.cond)

    def _store(self, instr: Instr, address: int, value: int) -> None:
        if address % ALIGNMENT[instr.width]:
            raise self._nowhere(address)
        self.memory[self._word(address)] = value

    def _word(self, address: int) -> int:
        """The index of the word that a byte address lies in."""
        word = (address - MEMORY_BASE) // 4
        if not 0 <= word < len(self.memory):
            raise self._nowhere(address)
        return word

    def _nowhere(self, address: int) -> TraceError:
        return TraceError(
            f"pass {self.trace.count}: the tokens acknowledge a store to {address:#x}, where no word is"
        )

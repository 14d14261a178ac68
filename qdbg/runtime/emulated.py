"""The emulated machine between passes: what a launch changes, and how an instruction sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from qdbg.compiler.machine.config import MEMORY_BASE, MachineConfig
from qdbg.compiler.machine.encoding import SLOT_BASE, Word
from qdbg.compiler.machine.isa import LANE_INDEX, NONE, UNIFORM
from qdbg.compiler.machine.vocabulary import Device, Kind, Token, assemble
from qdbg.runtime.state import MachineState


def _devices() -> dict[Device, dict[int, int]]:
    return {device: {} for device in Device}


@dataclass(slots=True)
class Machine:
    """Everything that a launch changes.  Masks hold one bit a lane."""

    config: MachineConfig
    devices: dict[Device, dict[int, int]] = field(default_factory=_devices)
    registers: dict[tuple[int, int], int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)  #: slot -> lanes whose bit is written
    bits: dict[int, int] = field(default_factory=dict)  #: slot -> lanes whose bit is 1
    exists: int = 0
    pc: int | None = None
    next: int = 0  #: lanes of the current instruction from this one on are still to do
    held: int = 0  #: address that the newest HOLD read
    parts: list[int] = field(default_factory=list)  #: chunks of a value that is not complete
    device: Device = Device.MEMORY
    word: int = 0  #: where the next word of the prompt goes
    newest: Token = field(default_factory=lambda: Token(Kind.PAD))
    passes: int = 0
    decoded: dict[int, Word] = field(default_factory=dict)  #: the program, as far as it was fetched

    def copy(self) -> Machine:
        """A machine that goes on by itself.  The program, which a launch does not change, is shared."""
        return replace(
            self,
            devices={device: dict(words) for device, words in self.devices.items()},
            registers=dict(self.registers),
            written=dict(self.written),
            bits=dict(self.bits),
            parts=list(self.parts),
        )

    # -- the program --------------------------------------------------------------------------------

    @property
    def current(self) -> Word:
        """The instruction at the pc.  Raises ValueError before the first `PC`."""
        return self.fetch(self.at)

    @property
    def at(self) -> int:
        """The pc.  Raises ValueError before the first `PC`."""
        if self.pc is None:
            raise ValueError("the prompt has no PC token, so no instruction is current")
        return self.pc

    def fetch(self, pc: int) -> Word:
        """The instruction at an address, NOP where the program has none."""
        if pc not in self.decoded:
            self.decoded[pc] = Word.decode(self.devices[Device.PROGRAM].get(pc, 0))
        return self.decoded[pc]

    def start(self, pc: int) -> None:
        """Make another instruction the current one, with all its lanes to do."""
        self.pc, self.next = pc, 0

    # -- lanes ------------------------------------------------------------------------------------------

    def active(self, word: Word) -> int:
        """The lanes that are active under the instruction's pattern."""
        mask = self.exists
        for slot, written in self.written.items():
            if word.care >> slot & 1:
                wrong = self.bits[slot] if not word.value >> slot & 1 else ~self.bits[slot]
                mask &= ~(written & wrong)
        return mask

    def todo(self) -> int:
        """The lanes of the current instruction that are not finished."""
        return self.active(self.current) >> self.next << self.next

    # -- values -----------------------------------------------------------------------------------------

    def operand(self, register: int, lane: int) -> int:
        """What a register's field of the word reads as in a lane."""
        if register & UNIFORM:
            return self.devices[Device.UNIFORM].get(register & ~UNIFORM, 0)
        if register == LANE_INDEX.index:
            return lane
        return 0 if register == NONE.index else self.registers.get((lane, register), 0)

    @property
    def immediate(self) -> int:
        """The current instruction's."""
        return self.devices[Device.IMMEDIATE].get(self.at, 0)

    def allocated(self, word: int, table: Device = Device.VALID) -> bool:
        """Whether a word of memory may be accessed; table: VALID or SHARED."""
        return bool(self.devices[table].get(word // 32, 0) >> word % 32 & 1)

    def complete(self, top: int) -> int:
        """The value of which the topmost chunk has come."""
        parts, self.parts = self.parts, []
        return assemble([*parts, top])

    def write(self, register: int, lane: int, value: int) -> None:
        """Write what a destination's field of the word names; a number that is no register's discards."""
        if register & UNIFORM:
            self.devices[Device.UNIFORM][register & ~UNIFORM] = value
        elif register < self.config.registers and lane >= 0:
            self.registers[lane, register] = value

    def write_bit(self, destination: int, lane: int, bit: bool) -> None:
        """Write a lane's bit in the slot that a destination's field of the word names."""
        slot = destination - SLOT_BASE
        self.written[slot] = self.written.get(slot, 0) | 1 << lane
        self.bits[slot] = self.bits.get(slot, 0) & ~(1 << lane) | int(bit) << lane

    # -- for a person -------------------------------------------------------------------------------

    def state(self) -> MachineState:
        """The state as the decoder would give it."""
        config = self.config
        registers = np.zeros((config.lanes, config.registers), np.uint32)
        for (lane, register), value in self.registers.items():
            registers[lane, register] = value
        slots = np.full((config.slots, config.lanes), -1, np.int8)
        for slot, lanes in self.written.items():
            for lane in range(config.lanes):
                if lanes >> lane & 1:
                    slots[slot, lane] = self.bits.get(slot, 0) >> lane & 1
        uniforms = np.zeros(config.uniforms, np.uint32)
        for index, value in self.devices[Device.UNIFORM].items():
            uniforms[index] = value
        first = MEMORY_BASE // 4
        memory = np.zeros(config.words, np.uint32)
        for index, value in self.devices[Device.MEMORY].items():
            if index >= first:
                memory[index - first] = value
        allocated = np.array([self.allocated(first + i) for i in range(config.words)], np.bool_)
        exists = np.array([self.exists >> lane & 1 for lane in range(config.lanes)], np.bool_)
        return MachineState(self.pc, exists, registers, uniforms, slots, memory, allocated)

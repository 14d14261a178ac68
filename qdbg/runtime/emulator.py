"""The architecture's own model: what the machine in the weights does, pass by pass, without weights.

The emulator reads the same prompt as the model and must emit the same tokens.  It stands between the
compiler and the hardware: a wrong token there is the compiler's fault, a token that differs from
the model's is the hardware's.

A pass consumes the newest token, then emits the next one:

* `PC` sets the pc; `STEP`, `LAST` and a `BIT` marked last advance it by one; each of them starts the
  instruction now current.  No instruction runs before the first `PC`.
* `RESULT`, `ACK` and `BIT` finish the current instruction's lowest lane that is still to do; those above
  it follow.  `RESULT` writes that lane's destination register.  `LAST` arrives when the pc has moved on
  already, so the destination is the `before` field of the new instruction, and the lane the highest
  active one under *its* pattern.
* `BIT` writes the bit of its lane into the slot of the current instruction, or of the one before
  when it is marked last.
* The lanes to run are those active after the token's own effects.  A lane's value goes out in chunks,
  `MORE` for all but the topmost; `LAST` closes the last lane's unless the instruction is unchained,
  in which case `RESULT` does and one `STEP` follows.  A store happens in its own pass and emits
  `ACK`, or `STEP` for the last lane.  A uniform instruction runs once and always closes with `LAST`.
* `HOLD` emits what it read as `MORE` and `OLD`.  `OLD` writes the lane's destination, and in the same
  pass the lane does the instruction at pc + 1, which stores and emits `ACK`, or `STEP` for the last lane.
* A load or store at an address that is misaligned, or else not allocated, emits `TRAP` and writes
  nothing; uniform loads trap as the lowest active lane.  `END` follows every `TRAP`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdbg.compiler.machine.alu import ALIGNMENT, MASK, evaluate, holds, inserted, loaded, product_sum
from qdbg.compiler.machine.config import LINE, MEMORY_BASE, NANO, MachineConfig
from qdbg.compiler.machine.isa import (
    FIELDS,
    LANE_INDEX,
    LANE_OPS,
    LOADS,
    NONE,
    SLOT_BASE,
    VALUE_OPS,
    Op,
    Trap,
    Width,
)
from qdbg.compiler.machine.vocabulary import Device, Kind, Token, Vocabulary, assemble, chunks
from qdbg.runtime.engine import Progress
from qdbg.runtime.state import MachineState

_UNIFORM = 0x80
_PROGRESS_STEP = 4096


@dataclass(slots=True)
class _Word:
    """A decoded instruction word; `skip`, `target` and `slot` are meaningful for their own operations."""

    op: Op
    a: int
    b: int
    c: int
    dst: int
    before: int
    care: int
    value: int
    scale: int
    immb: int
    unchained: int
    target8: int
    cond: int
    width: int
    signed: int
    shared: int
    held: int

    @classmethod
    def decode(cls, word: int) -> _Word:
        raw = {name: word >> f.low & ((1 << f.width) - 1) for name, f in FIELDS.items()}
        op = Op(raw.pop("op")) if raw["op"] <= max(Op) else Op.NOP
        raw.pop("op", None)
        return cls(op, **raw)

    @property
    def target(self) -> int:
        return self.dst | self.target8 << 8

    @property
    def skip(self) -> int:
        return self.a | (self.scale & 1) << 8

    @property
    def uniform(self) -> bool:
        return not self.held and self.op in VALUE_OPS and bool(self.dst & _UNIFORM)


@dataclass(slots=True)
class _Machine:
    """Everything that a launch changes.  Masks hold one bit a lane."""

    devices: dict[Device, dict[int, int]]
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


class Emulator:
    """An engine that runs the architecture itself.  Any prompt of `vocabulary.prompt` is valid input."""

    name = "emulator"

    def __init__(self, config: MachineConfig = NANO):
        self.config = config
        self.vocabulary = Vocabulary(config)
        self._decoded: dict[int, _Word] = {}
        self._m = _Machine({device: {} for device in Device})

    @property
    def pc(self) -> int | None:
        """The address of the current instruction, None before the launch starts."""
        return self._m.pc

    @property
    def passes(self) -> int:
        """Decoding passes made since the prompt began; the prefill is the first."""
        return self._m.passes

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """Forget everything, read the prompt, return the first generated token.  See `Engine`."""
        self._decoded = {}
        self._m = _Machine({device: {} for device in Device})
        for count, index in enumerate(ids):
            if progress and count % _PROGRESS_STEP == 0:
                progress(count, len(ids))
            self._consume(self.vocabulary.token(index))
        return self._emit()

    def step(self) -> int:
        """One pass: take the newest token in, give the next one out."""
        self._consume(self._m.newest)
        return self._emit()

    def margin(self) -> float | None:
        """None: there are no logits."""
        return None

    def snapshot(self) -> object:
        """An opaque copy of the machine."""
        return copy.deepcopy(self._m), dict(self._decoded)

    def restore(self, snapshot: object) -> None:
        """Return to a snapshot of this emulator."""
        assert isinstance(snapshot, tuple)
        machine, self._decoded = snapshot
        self._m = copy.deepcopy(machine)

    def state(self) -> MachineState:
        """The machine's state after the newest pass."""
        config, m = self.config, self._m
        registers = np.zeros((config.lanes, config.registers), np.uint32)
        for (lane, register), value in m.registers.items():
            registers[lane, register] = value
        slots = np.full((config.slots, config.lanes), -1, np.int8)
        for slot, lanes in m.written.items():
            for lane in range(config.lanes):
                if lanes >> lane & 1:
                    slots[slot, lane] = m.bits.get(slot, 0) >> lane & 1
        uniforms = np.zeros(config.uniforms, np.uint32)
        for index, value in m.devices[Device.UNIFORM].items():
            uniforms[index] = value
        first = MEMORY_BASE // 4
        memory = np.zeros(config.words, np.uint32)
        for index, value in m.devices[Device.MEMORY].items():
            if index >= first:
                memory[index - first] = value
        allocated = np.array([self._allocated(first + i) for i in range(config.words)], np.bool_)
        exists = np.array([m.exists >> lane & 1 for lane in range(config.lanes)], np.bool_)
        return MachineState(m.pc, exists, registers, uniforms, slots, memory, allocated)

    # --- taking a token in -----------------------------------------------------------------------

    def _consume(self, token: Token) -> None:
        m = self._m
        match token.kind:
            case Kind.THREADS:
                m.exists = (1 << token.value) - 1
            case Kind.LINE:
                m.device, m.word = token.device, token.value * LINE
            case Kind.MORE:
                m.parts.append(token.value)
            case Kind.WORD:
                m.devices[m.device][m.word] = self._word(token.value)
                m.word += 1
            case Kind.PC:
                self._start(token.value)
            case Kind.STEP:
                self._start(self._pc + 1)
                self._m.written.pop(self._current().before - SLOT_BASE, None)  # after CLR
            case Kind.RESULT:
                lane = _lowest(self._todo())
                m.next = lane + 1
                self._write(self._current().dst, lane, self._value(token.value))
            case Kind.OLD:
                self._write(self._current().dst, _lowest(self._todo()), self._value(token.value))
            case Kind.LAST:
                self._start(self._pc + 1)
                here = self._current()
                lane = self._active(here.care, here.value).bit_length() - 1
                self._write(here.before, lane, self._value(token.value))
            case Kind.ACK:
                m.next = _lowest(self._todo()) + 1
            case Kind.BIT:
                if token.last:
                    self._start(self._pc + 1)
                    slot = self._current().before
                else:
                    m.next, slot = token.lane + 1, self._current().dst
                self._write_bit(slot - SLOT_BASE, token.lane, token.taken)
        m.newest = token

    @property
    def _pc(self) -> int:
        if self._m.pc is None:
            raise ValueError("the prompt has no PC token, so no instruction is current")
        return self._m.pc

    def _start(self, pc: int) -> None:
        self._m.pc, self._m.next = pc, 0

    def _value(self, top: int) -> int:
        parts, self._m.parts = self._m.parts, []
        return assemble([*parts, top])

    def _word(self, top: int) -> int:
        if self._m.device is not Device.PROGRAM:
            return self._value(top)
        parts, self._m.parts = self._m.parts, []
        return sum(part << 11 * i for i, part in enumerate([*parts, top]))

    def _write(self, register: int, lane: int, value: int) -> None:
        if register & _UNIFORM:
            self._m.devices[Device.UNIFORM][register & ~_UNIFORM] = value
        elif register < self.config.registers and lane >= 0:
            self._m.registers[lane, register] = value

    def _write_bit(self, slot: int, lane: int, bit: bool) -> None:
        m = self._m
        m.written[slot] = m.written.get(slot, 0) | 1 << lane
        m.bits[slot] = m.bits.get(slot, 0) & ~(1 << lane) | int(bit) << lane

    # --- running an instruction ------------------------------------------------------------------

    def _current(self) -> _Word:
        return self._fetch(self._pc)

    def _fetch(self, pc: int) -> _Word:
        if pc not in self._decoded:
            self._decoded[pc] = _Word.decode(self._m.devices[Device.PROGRAM].get(pc, 0))
        return self._decoded[pc]

    def _active(self, care: int, value: int) -> int:
        m, mask = self._m, self._m.exists
        for slot, written in m.written.items():
            if care >> slot & 1:
                wrong = m.bits[slot] if not value >> slot & 1 else ~m.bits[slot]
                mask &= ~(written & wrong)
        return mask

    def _todo(self) -> int:
        """Lanes of the current instruction that are not finished, as a mask."""
        here, first = self._current(), self._m.next
        return self._active(here.care, here.value) >> first << first

    def _emit(self) -> int:
        m = self._m
        m.passes += 1
        if m.newest.kind in (Kind.TRAP, Kind.END):
            token = Token(Kind.END)
        elif m.pc is None:
            token = Token(Kind.PAD)
        elif m.newest.kind is Kind.OLD:
            token = self._finish_hold()
        elif (here := self._current()).op in LANE_OPS and not here.held:
            token = self._run_lane(here)
        else:
            token = self._run_control(here)
        m.newest = token
        return self.vocabulary[token]

    def _run_control(self, here: _Word) -> Token:
        match here.op:
            case _ if here.held:
                return Token(Kind.STEP)
            case Op.BR:
                return Token(Kind.PC, here.target if self._active(here.care, here.value) else here.skip)
            case Op.UBR if holds(here.cond, self._operand(here.a, 0), self._b(here, 0)):
                return Token(Kind.PC, here.target)
            case Op.HALT:
                return Token(Kind.END)
            case Op.TRAP:
                first = _lowest(self._active(here.care, here.value))
                return Token(Kind.TRAP, self._immediate & 7, lane=first)
        return Token(Kind.STEP)

    def _run_lane(self, here: _Word) -> Token:
        todo = self._todo()
        if here.uniform:
            return self._value_token(here, _lowest(todo), Kind.LAST)
        if not todo:
            return Token(Kind.STEP)
        lane, last = _lowest(todo), todo & todo - 1 == 0
        if here.op is Op.CBR:
            taken = holds(here.cond, self._operand(here.a, lane), self._b(here, lane))
            return Token(Kind.BIT, lane=lane, taken=taken, last=last)
        if here.op is Op.ST:
            address = self._address(here, lane)
            if (trap := self._fault(here, address)) is not None:
                return Token(Kind.TRAP, int(trap), lane=lane)
            self._m.devices[Device.MEMORY][address // 4] = self._b(here, lane)
            return Token(Kind.STEP if last else Kind.ACK)
        if here.op is Op.HOLD:
            return self._value_token(here, lane, Kind.OLD)
        return self._value_token(here, lane, Kind.LAST if last and not here.unchained else Kind.RESULT)

    def _value_token(self, here: _Word, lane: int, final: Kind) -> Token:
        """The next chunk of the lane's value."""
        if here.op in LOADS:
            address = self._address(here, lane)
            if (trap := self._fault(here, address)) is not None:
                return Token(Kind.TRAP, int(trap), lane=lane)
            value = self._m.devices[Device.MEMORY].get(address // 4, 0)
            if here.op is Op.LD:
                value = loaded(value, address, Width(here.width), bool(here.signed))
            elif here.op is Op.LDA:
                value = value + self._b(here, lane) & MASK
            else:
                self._m.held = address
        else:
            value = self._compute(here, lane)
        parts, done = chunks(value), len(self._m.parts)
        return Token(final if done == len(parts) - 1 else Kind.MORE, parts[done])

    def _compute(self, here: _Word, lane: int) -> int:
        b = self._b(here, lane)
        match here.op:
            case Op.MASK:
                warp = here.scale if here.uniform else lane // self.config.warp
                mask = self._active(here.care, here.value)
                return mask >> warp * self.config.warp & (1 << self.config.warp) - 1
            case Op.SHFL:
                return self._operand(here.a, b % self.config.lanes)
            case Op.INSERT:
                return inserted(self._operand(here.a, lane), b, self._m.held, Width(here.width))
        a, c, e = self._operand(here.a, lane), self._operand(here.c, lane), self._addend(here)
        return evaluate(here.op, a, b, c, e, here.scale, here.cond)

    def _finish_hold(self) -> Token:
        """The held instruction for the lane whose old value has just arrived."""
        todo = self._todo()
        self._m.pc = self._pc + 1
        self._m.devices[Device.MEMORY][self._m.held // 4] = self._compute(self._current(), _lowest(todo))
        self._m.pc -= 1
        return Token(Kind.ACK if todo & todo - 1 else Kind.STEP)

    def _address(self, here: _Word, lane: int) -> int:
        a, c = self._operand(here.a, lane), self._operand(here.c, lane)
        return product_sum(here.op, a, 0, c, self._addend(here), here.scale) & MASK

    def _fault(self, here: _Word, address: int) -> Trap | None:
        if address % ALIGNMENT[Width(here.width)]:
            return Trap.MISALIGNED
        table = Device.SHARED if here.shared else Device.VALID
        return None if self._allocated(address // 4, table) else Trap.OUT_OF_BOUNDS

    def _allocated(self, word: int, table: Device = Device.VALID) -> bool:
        return bool(self._m.devices[table].get(word // 32, 0) >> word % 32 & 1)

    @property
    def _immediate(self) -> int:
        return self._m.devices[Device.IMMEDIATE].get(self._pc, 0)

    def _addend(self, here: _Word) -> int:
        return 0 if here.immb else self._immediate

    def _b(self, here: _Word, lane: int) -> int:
        return self._immediate if here.immb else self._operand(here.b, lane)

    def _operand(self, register: int, lane: int) -> int:
        if register & _UNIFORM:
            return self._m.devices[Device.UNIFORM].get(register & ~_UNIFORM, 0)
        if register == LANE_INDEX.index:
            return lane
        return 0 if register == NONE.index else self._m.registers.get((lane, register), 0)


def _lowest(mask: int) -> int:
    """The lowest lane of a mask, 0 if it has none."""
    return max((mask & -mask).bit_length() - 1, 0)

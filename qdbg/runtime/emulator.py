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

from collections.abc import Sequence

from qdbg.compiler.machine.alu import ALIGNMENT, MASK, evaluate, holds, inserted, loaded, product_sum
from qdbg.compiler.machine.config import LINE, NANO, MachineConfig
from qdbg.compiler.machine.encoding import SLOT_BASE, Word
from qdbg.compiler.machine.isa import LANE_OPS, LOADS, Op, Trap, Width
from qdbg.compiler.machine.vocabulary import CHUNK, Device, Kind, Token, Vocabulary, chunks
from qdbg.runtime.emulated import Machine
from qdbg.runtime.engine import Progress
from qdbg.runtime.state import MachineState

_PROGRESS_STEP = 4096


class Emulator:
    """An engine that runs the architecture itself.  Any prompt of `vocabulary.prompt` is valid input."""

    name = "emulator"

    def __init__(self, config: MachineConfig = NANO):
        self.config = config
        self.vocabulary = Vocabulary(config)
        self._m = Machine(config)

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
        self._m = Machine(self.config)
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
        return self._m.copy()

    def restore(self, snapshot: object) -> None:
        """Return to a snapshot of this emulator."""
        assert isinstance(snapshot, Machine)
        self._m = snapshot.copy()

    def state(self) -> MachineState:
        """The machine's state after the newest pass."""
        return self._m.state()

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
                m.start(token.value)
            case Kind.STEP:
                m.start(m.at + 1)
                m.written.pop(m.current.before - SLOT_BASE, None)  # after CLR
            case Kind.RESULT:
                lane = _lowest(m.todo())
                m.next = lane + 1
                m.write(m.current.dst, lane, m.complete(token.value))
            case Kind.OLD:
                m.write(m.current.dst, _lowest(m.todo()), m.complete(token.value))
            case Kind.LAST:
                m.start(m.at + 1)
                here = m.current
                lane = m.active(here).bit_length() - 1
                m.write(here.before, lane, m.complete(token.value))
            case Kind.ACK:
                m.next = _lowest(m.todo()) + 1
            case Kind.BIT:
                if token.last:
                    m.start(m.at + 1)
                    destination = m.current.before
                else:
                    m.next, destination = token.lane + 1, m.current.dst
                m.write_bit(destination, token.lane, token.taken)
        m.newest = token

    def _word(self, top: int) -> int:
        """A word of the prompt; the program's have chunks of equal size."""
        if self._m.device is not Device.PROGRAM:
            return self._m.complete(top)
        parts, self._m.parts = self._m.parts, []
        return sum(part << CHUNK * i for i, part in enumerate([*parts, top]))

    # --- running an instruction ------------------------------------------------------------------

    def _emit(self) -> int:
        m = self._m
        m.passes += 1
        if m.newest.kind in (Kind.TRAP, Kind.END):
            token = Token(Kind.END)
        elif m.pc is None:
            token = Token(Kind.PAD)
        elif m.newest.kind is Kind.OLD:
            token = self._finish_hold()
        elif (here := m.current).op in LANE_OPS and not here.held:
            token = self._run_lane(here)
        else:
            token = self._run_control(here)
        m.newest = token
        return self.vocabulary[token]

    def _run_control(self, here: Word) -> Token:
        m = self._m
        match here.op:
            case _ if here.held:
                return Token(Kind.STEP)
            case Op.BR:
                return Token(Kind.PC, here.target if m.active(here) else here.skip)
            case Op.UBR if holds(here.cond, m.operand(here.a, 0), self._b(here, 0)):
                return Token(Kind.PC, here.target)
            case Op.HALT:
                return Token(Kind.END)
            case Op.TRAP:
                first = _lowest(m.active(here))
                return Token(Kind.TRAP, m.immediate & 7, lane=first)
        return Token(Kind.STEP)

    def _run_lane(self, here: Word) -> Token:
        m = self._m
        todo = m.todo()
        if here.uniform:
            return self._value_token(here, _lowest(todo), Kind.LAST)
        if not todo:
            return Token(Kind.STEP)
        lane, last = _lowest(todo), todo & todo - 1 == 0
        if here.op is Op.CBR:
            taken = holds(here.cond, m.operand(here.a, lane), self._b(here, lane))
            return Token(Kind.BIT, lane=lane, taken=taken, last=last)
        if here.op is Op.ST:
            address = self._address(here, lane)
            if (trap := self._fault(here, address)) is not None:
                return Token(Kind.TRAP, int(trap), lane=lane)
            m.devices[Device.MEMORY][address // 4] = self._b(here, lane)
            return Token(Kind.STEP if last else Kind.ACK)
        if here.op is Op.HOLD:
            return self._value_token(here, lane, Kind.OLD)
        return self._value_token(here, lane, Kind.LAST if last and not here.unchained else Kind.RESULT)

    def _value_token(self, here: Word, lane: int, final: Kind) -> Token:
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

    def _compute(self, here: Word, lane: int) -> int:
        m = self._m
        b = self._b(here, lane)
        match here.op:
            case Op.MASK:
                warp = here.scale if here.uniform else lane // self.config.warp
                mask = m.active(here)
                return mask >> warp * self.config.warp & (1 << self.config.warp) - 1
            case Op.SHFL:
                return m.operand(here.a, b % self.config.lanes)
            case Op.INSERT:
                return inserted(m.operand(here.a, lane), b, m.held, Width(here.width))
        a, c, e = m.operand(here.a, lane), m.operand(here.c, lane), self._addend(here)
        return evaluate(here.op, a, b, c, e, here.scale, here.cond)

    def _finish_hold(self) -> Token:
        """The held instruction for the lane whose old value has just arrived."""
        m = self._m
        todo = m.todo()
        m.pc = m.at + 1
        m.devices[Device.MEMORY][m.held // 4] = self._compute(m.current, _lowest(todo))
        m.pc -= 1
        return Token(Kind.ACK if todo & todo - 1 else Kind.STEP)

    def _address(self, here: Word, lane: int) -> int:
        m = self._m
        a, c = m.operand(here.a, lane), m.operand(here.c, lane)
        return product_sum(here.op, a, 0, c, self._addend(here), here.scale) & MASK

    def _fault(self, here: Word, address: int) -> Trap | None:
        if address % ALIGNMENT[Width(here.width)]:
            return Trap.MISALIGNED
        table = Device.SHARED if here.shared else Device.VALID
        return None if self._m.allocated(address // 4, table) else Trap.OUT_OF_BOUNDS

    def _addend(self, here: Word) -> int:
        return 0 if here.immb else self._m.immediate

    def _b(self, here: Word, lane: int) -> int:
        return self._m.immediate if here.immb else self._m.operand(here.b, lane)


def _lowest(mask: int) -> int:
    """The lowest lane of a mask, 0 if it has none."""
    return max((mask & -mask).bit_length() - 1, 0)

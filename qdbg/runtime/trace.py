"""What the generated tokens mean: each one attributed to an instruction, a lane and a PTX register.

The tokens alone say where the machine is.  `Trace` replays the control rules of
`qdbg.compiler.machine.isa` over them: which lanes are active under an instruction's pattern, whose
turn it is, when the instruction is finished.  It reads no engine state, so it costs nothing and
works for every engine.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import WARP, MachineConfig
from qdbg.compiler.machine.isa import LANE_OPS, VALUE_OPS, Instr, Op, Pattern, Program, Trap
from qdbg.compiler.machine.vocabulary import Kind, Token, Vocabulary, assemble
from qdbg.runtime.numbers import show
from qdbg.runtime.view import Block


class TraceError(Exception):
    """A token that the program cannot produce; `str()` is one sentence naming pass and token."""


@dataclass(frozen=True, slots=True)
class Event:
    """One generated token and what it says.

    number: the forward pass that produced it, from 1; pc: the instruction it belongs to; lane: whose
    work it reports, None for the block's; register: the PTX register (or half of one) that it belongs to,
    if any; value: the 32-bit value or the branch outcome that is complete with it; finished: the
    instruction is done for all lanes; margin: logit less the runner-up's, if the engine has logits.
    """

    number: int
    token: Token
    pc: int
    lane: int | None
    register: str | None
    value: int | None
    finished: bool
    margin: float | None = None


class Trace:
    """Follows one launch token by token."""

    def __init__(self, program: Program, vocabulary: Vocabulary, threads: int):
        """threads: how many lanes exist."""
        config: MachineConfig = vocabulary.config
        self.program = program
        self.vocabulary = vocabulary
        self.exists: NDArray[np.bool_] = np.arange(config.lanes) < threads
        self.slots: NDArray[np.int8] = np.full((config.slots, config.lanes), -1, np.int8)
        self.pc = program.entry
        self.count = 0  #: tokens seen
        self.ended = False
        self.trap: tuple[int, Trap, int] | None = None  #: lane, reason, pc
        self._block = dict.fromkeys(program.block_index.values(), 0)
        self._parts: list[int] = []
        self._stores = False  # the lane's OLD has come: it has done the held instruction, too
        self.lanes: NDArray[np.bool_] = self.exists  #: active when the instruction at hand began
        self._waiting: list[int] = []
        self._start(self.pc)

    @property
    def instruction(self) -> Instr:
        """The instruction that the next token belongs to."""
        return self.program.code[self.pc]

    @property
    def block(self) -> Block:
        """blockIdx of the block that is running."""
        x, y, z = (self._block.get(self.program.block_index.get(axis, -1), 0) for axis in "xyz")
        return x, y, z

    def active(self, pattern: Pattern) -> NDArray[np.bool_]:
        """Lanes active under a pattern, bool [lanes]."""
        mask = self.exists.copy()
        for slot, bits in enumerate(self.slots):
            if pattern.care >> slot & 1:
                mask &= (bits < 0) | (bits == (pattern.value >> slot & 1))
        return mask

    def copy(self) -> Trace:
        """An independent copy."""
        twin = copy.copy(self)
        twin.slots = self.slots.copy()
        twin._block = dict(self._block)
        twin._parts = list(self._parts)
        twin._waiting = list(self._waiting)
        return twin

    def feed(self, token_id: int, margin: float | None = None) -> Event:
        """Take the next generated token.  Raises TraceError if it makes no sense where it stands."""
        token = self.vocabulary.token(token_id)
        self.count += 1
        pc, instr, lane = self.pc, self.instruction, None
        value: int | None = None
        finished = False
        match token.kind:
            case Kind.MORE if instr.op in LANE_OPS:
                lane = self._next_lane(token)
                self._parts.append(token.value)
            case Kind.RESULT | Kind.LAST if instr.op in VALUE_OPS and not instr.held:
                lane = self._next_lane(token)
                value = self._assembled(token)
                self._done(lane)
                if instr.dst.uniform and instr.dst.index in self._block:
                    self._block[instr.dst.index] = value
                finished = token.kind is Kind.LAST
            case Kind.OLD if instr.op is Op.HOLD and not self._stores:
                lane = self._next_lane(token)
                value = self._assembled(token)
                self._stores = True
            case Kind.BIT if instr.op is Op.CBR and token.lane in self._waiting[:1]:
                lane, value, finished = token.lane, int(token.taken), token.last
                self._done(lane)
                self.slots[instr.slot, lane] = token.taken
            case Kind.ACK if instr.op is Op.ST or self._stores:
                lane = self._next_lane(token)
                self._done(lane)
                self._stores = False
            case Kind.STEP:
                finished = True
                if instr.op is Op.CLR:
                    self.slots[instr.slot] = -1
                elif (instr.op is Op.ST or self._stores) and self._waiting:
                    lane = self._waiting[0]
                    self._done(lane)
                elif instr.held:  # not reached by an OLD: there is nothing to do
                    self._waiting = []
            case Kind.PC if instr.op in (Op.BR, Op.UBR):
                finished = True
            case Kind.TRAP:
                lane, self._waiting = token.lane, []
                self.trap = (lane, Trap(token.value), pc)
            case Kind.END if instr.op is Op.HALT or self.trap is not None:
                self.ended = finished = True
            case _:
                raise self._error(token)
        if finished and self._waiting:  # without their turn
            raise self._error(token)
        if finished and not self.ended:
            self._start(token.value if token.kind is Kind.PC else pc + 1)
        return Event(self.count, token, pc, lane, instr.result, value, finished, margin)

    def _start(self, pc: int) -> None:
        if not 0 <= pc < len(self.program.code):
            raise TraceError(f"pass {self.count}: execution went on at {pc}, past the end of the program")
        self.pc = pc
        instr = self.instruction
        self.lanes = self.active(instr.pattern)
        self._waiting = [] if instr.uniform else [int(i) for i in np.flatnonzero(self.lanes)]
        self._parts, self._stores = [], False

    def _assembled(self, last: Token) -> int:
        """The value that is complete with this token."""
        parts, self._parts = self._parts, []
        return assemble([*parts, last.value])

    def _next_lane(self, token: Token) -> int | None:
        """The lane whose turn it is; None for an instruction of the whole block."""
        if self.instruction.uniform:
            return None
        if not self._waiting:
            raise self._error(token)
        return self._waiting[0]

    def _done(self, lane: int | None) -> None:
        if lane is not None:
            self._waiting = [other for other in self._waiting if other != lane]

    def _error(self, token: Token) -> TraceError:
        return TraceError(
            f"pass {self.count}: token {token} makes no sense at instruction {self.pc} ({self.instruction})"
        )


def meaning(event: Event, type_: str = "b32", warps: int = 1) -> str:
    """A token in a few words, e.g. `l3 %r4 = 3`; type_: the PTX type of its register.

    With several warps in the block a lane's own stands in front of it: `w1 l3`.
    """
    token = event.token
    who = "warp" if warps == 1 else "block"
    if event.lane is not None:
        who = f"l{event.lane}" if warps == 1 else "w{} l{}".format(*divmod(event.lane, WARP))
    who = who.ljust(4 if warps == 1 else 6)
    name = event.register or "value"
    match token.kind:
        case Kind.PC:
            return f"go to {token.value}"
        case Kind.MORE:
            return f"{who} {name} low {token.value:#x}"
        case Kind.RESULT | Kind.LAST | Kind.OLD:
            return f"{who} {name} = {show(event.value, type_)}"
        case Kind.BIT:
            return f"{who} condition {'true' if token.taken else 'false'}"
        case Kind.ACK:
            return f"{who} stored"
        case Kind.STEP:
            return f"{who} stored" if event.lane is not None else "next instruction"
        case Kind.TRAP:
            return f"{who} traps: {Trap(token.value).name.lower().replace('_', ' ')}"
        case _:
            return "end of the launch"

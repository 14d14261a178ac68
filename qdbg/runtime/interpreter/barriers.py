"""Barriers of a block and of a warp: bar, barrier (PTX ISA 9.7.13, "bar", "barrier", "bar.warp.sync").

A warp arrives at a barrier of the block when all of its threads that have not exited have: it then counts
whole, with its missing lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Immediate, Instruction, Operand
from qdbg.runtime.interpreter.collectives import Collective, meeting_number
from qdbg.runtime.interpreter.data import Action, allow, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.operands import Decoder, Read, Write

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

_BARRIERS = 16
_REDUCTIONS: dict[str, tuple[str, Callable[[Array], int | bool]]] = {
    "popc": ("u32", lambda holds: int(holds.sum())),
    "and": ("pred", lambda holds: bool(holds.all())),
    "or": ("pred", lambda holds: bool(holds.any())),
}


@dataclass(frozen=True)
class BlockBarrier:
    """The action of bar.sync and bar.red: the active lanes wait.

    When the barrier opens, `reduce` makes one value of what `source` reads in all the threads that waited
    (bool [threads]), and `write` gives it to each; all three are None for bar.sync.
    """

    ident: Read
    count: Read
    source: Read | None = None
    reduce: Callable[[Array], Array] | None = None
    write: Write | None = None

    def __call__(self, warp: Warp, active: Array) -> None:
        """The active lanes arrive and wait; raises `Fault` for a barrier or a count that cannot be."""
        ident, count = self.ident(warp), self.count(warp)
        check(warp, active, ident, count)
        warp.wait_at_barrier(active, ident, count)


def is_aligned(instruction: Instruction) -> bool:
    """Whether a whole warp must execute the instruction together."""
    return instruction.opcode == "bar" or instruction.has("aligned")


def check(warp: Warp, active: Array, ident: Array, count: Array) -> None:
    """Raises `Fault` for the first active lane whose barrier number or thread count PTX does not allow."""
    wrong = active & ((ident >= _BARRIERS) | (count % warp.lanes != 0))
    if wrong.any():
        lane = int(wrong.argmax())
        if ident[lane] >= _BARRIERS:
            why = f"waits at barrier {ident[lane]}; use one of the {_BARRIERS}, 0 to {_BARRIERS - 1}"
        else:
            why = (
                f"waits at a barrier for {count[lane]} threads, which are not whole warps; "
                f"give a multiple of {warp.lanes}"
            )
        raise warp.fault(f"{warp.name(lane)} {why}", "bad barrier", lane)


@builder("bar", "barrier")
def _bar(decoder: Decoder) -> Action:
    instruction = decoder.instruction
    allow(decoder, "sync", "arrive", "red", "warp", "cta", "aligned", *_REDUCTIONS)
    kinds = [m for m in instruction.modifiers if m in ("sync", "arrive", "red")]
    if len(kinds) != 1:
        raise Refusal("needs one of .sync, .arrive, .red")
    if instruction.has("warp"):
        return _warp_barrier(decoder)
    if kinds == ["arrive"]:
        return _arrive(decoder)
    if kinds == ["red"]:
        return _reduce(decoder)
    if instruction.types or instruction.has(*_REDUCTIONS):
        raise Refusal("synchronises with an operation, which only .red has")
    return BlockBarrier(*_barrier(decoder, list(instruction.operands)))


def _barrier(decoder: Decoder, operands: list[Operand]) -> tuple[Read, Read]:
    """Readers of a barrier's number and of the threads that it waits for, 0 meaning all of the block."""
    if not 1 <= len(operands) <= 2:
        raise Refusal("takes the number of a barrier and at most a number of threads")
    count = operands[1] if len(operands) == 2 else Immediate(0)
    return decoder.read(operands[0], "u32"), decoder.read(count, "u32")


def _warp_barrier(decoder: Decoder) -> Action:
    if not decoder.instruction.has("sync"):
        raise Refusal("is a warp barrier without .sync, which PTX does not have")
    (members,) = decoder.instruction.operands

    def compute(warp: Warp, together: Array) -> tuple[Array, ...]:
        for watch in warp.program.watches:
            watch.synchronise(warp.threads[together])
        return ()

    number = meeting_number(decoder.instruction.name)
    return Collective(number, decoder.read(members, "u32"), (), compute)


def _arrive(decoder: Decoder) -> Action:
    """Threads wait for the others of their warp only, and then count at the barrier as one warp."""
    if len(decoder.instruction.operands) != 2:
        raise Refusal("needs the number of a barrier and a number of threads")
    operands = _barrier(decoder, list(decoder.instruction.operands))

    def compute(warp: Warp, together: Array, ident: Array, count: Array) -> tuple[Array, ...]:
        check(warp, together, ident, count)
        first = int(together.argmax())
        warp.block.arrive(int(ident[first]), int(count[first]))
        for watch in warp.program.watches:
            watch.arrive(int(ident[first]), warp.threads[together])
        return ()

    everyone = decoder.read(Immediate((1 << decoder.lanes) - 1), "u32")
    return Collective(meeting_number(decoder.instruction.name), everyone, operands, compute)


def _reduce(decoder: Decoder) -> Action:
    instruction = decoder.instruction
    operations = [m for m in instruction.modifiers if m in _REDUCTIONS]
    if len(operations) != 1 or instruction.types != (_REDUCTIONS[operations[0]][0],):
        raise Refusal("needs .popc.u32, .and.pred or .or.pred")
    type_name, function = _REDUCTIONS[operations[0]]
    destination, *between, source = instruction.operands
    ident, count = _barrier(decoder, between)

    def reduce(holds: Array) -> Array:
        dtype = np.bool_ if type_name == "pred" else np.uint32
        return np.full(decoder.lanes, function(holds), dtype)

    holds, write = decoder.read(source, "pred"), decoder.write(destination, type_name)
    return BlockBarrier(ident, count, holds, reduce, write)

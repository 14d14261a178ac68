"""From a PTX instruction to an operation that a warp can run; what is not known traps when executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdbg.compiler.ptx.ir import Instruction, Register
from qdbg.compiler.source import Source
from qdbg.runtime.interpreter import (
    approximate,
    atomics,
    barriers,
    bits,
    calls,
    compare,
    control,
    convert,
    float16,
    float32,
    float64,
    integer,
    lop3,
    patterns,
    warp_ops,
)
from qdbg.runtime.interpreter.bounds import ErrorBound
from qdbg.runtime.interpreter.data import BUILDERS, Action
from qdbg.runtime.interpreter.errors import Refusal, Unsupported
from qdbg.runtime.interpreter.forms import Array, Form, find_form
from qdbg.runtime.interpreter.names import Names
from qdbg.runtime.interpreter.operands import Decoder, Read

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

#: The modules whose import fills the tables, one a family of instructions.
FAMILIES = (
    *(approximate, atomics, barriers, bits, calls, compare, control, convert),
    *(float16, float32, float64, integer, lop3, patterns, warp_ops),
)

#: Modifiers of loads that other threads' stores are meant to be seen by.
_OBSERVING = ("volatile", "relaxed", "acquire", "mmio")


@dataclass(frozen=True, slots=True)
class Operation:
    """A decoded instruction: `action` for the lanes where `guard` holds; `writes` names its destinations.

    `weight` is how much it tries the patience of the lanes and warps that wait meanwhile; `error` is what
    the ISA lets hardware differ by in the result of an approximate instruction.
    """

    action: Action
    writes: tuple[str, ...]
    guard: Read | None
    weight: int
    error: ErrorBound | None = None


def decode(names: Names, lanes: int, instruction: Instruction) -> Operation:
    """Look an instruction up in the tables and bind its operands."""
    decoder = Decoder(names, lanes, instruction)
    guard = instruction.guard
    read_guard = None
    try:
        if guard is not None:
            read_guard = decoder.read(Register(guard.register, guard.negated), "pred")
        action, error = _action(decoder)
        return Operation(action, tuple(decoder.written), read_guard, _weight(instruction), error)
    except Refusal as refusal:
        why = str(refusal)
    except (ValueError, LookupError):  # too few or too many types or operands for the opcode
        why = "is malformed or not supported yet"
    return Operation(_refuse(names.bound.source, instruction, why), (), read_guard, 1)


def _weight(instruction: Instruction) -> int:
    """1, or more if a loop around the instruction may be waiting for what another lane does."""
    if instruction.opcode == "nanosleep":
        return 4096
    observes = instruction.opcode == "ld" and instruction.has(*_OBSERVING)
    return 128 if observes or instruction.opcode in ("atom", "red") else 1


def error_bound(instruction: Instruction) -> ErrorBound | None:
    """What the ISA lets hardware differ by in the result of an instruction; None where it is exact.

    None too for an instruction that the interpreter refuses.
    """
    try:
        form = find_form(instruction)
    except ValueError:
        return None
    return form.error if form else None


def _action(decoder: Decoder) -> tuple[Action, ErrorBound | None]:
    instruction = decoder.instruction
    build = BUILDERS.get(instruction.opcode)
    if build is not None:
        return build(decoder), None
    form = find_form(instruction)
    if form is None:
        raise Refusal("is not supported yet")
    return _element_wise(decoder, form), form.error


def _element_wise(decoder: Decoder, form: Form) -> Action:
    destination, *sources = decoder.instruction.operands
    if len(sources) != len(form.sources):
        raise Refusal(f"takes {len(form.sources)} source operands, not {len(sources)}")
    reads = [decoder.read(source, t) for source, t in zip(sources, form.sources, strict=True)]
    write = decoder.write(destination, form.result)
    function = form.function
    if form.carry_in or form.carry_out:
        return _with_carry(form, reads, write)

    def action(warp: Warp, active: Array) -> None:
        write(warp, active, function(*[read(warp) for read in reads]))

    return action


def _with_carry(form: Form, reads: list[Read], write: Callable[[Warp, Array, Array], None]) -> Action:
    def action(warp: Warp, active: Array) -> None:
        operands = [read(warp) for read in reads]
        if form.carry_in:
            operands.append(warp.carry)
        result = form.function(*operands)
        if form.carry_out:
            result, carry = result
            warp.carry = (warp.carry & ~active) | (carry & active)
        write(warp, active, result)

    return action


def _refuse(source: Source, instruction: Instruction, why: str) -> Action:
    def action(warp: Warp, active: Array) -> None:
        raise Unsupported(source, instruction, why)

    return action

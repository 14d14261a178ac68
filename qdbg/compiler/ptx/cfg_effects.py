"""Which registers an instruction reads and writes (PTX ISA section 9: the destination comes first)."""

from __future__ import annotations

from collections.abc import Iterator

from .ir import Address, Arguments, Instruction, Operand, Pair, Register, Vector

#: Instructions whose first operand is a source although it is written like a destination.
#: Stores and `red` are not among them: their first operand is an address, which only reads.
_NO_DESTINATION = frozenset({
    "bar", "barrier", "bra", "brx", "call", "cp", "exit", "nanosleep", "pmevent", "ret", "stackrestore",
    "sured", "sust", "trap",
})  # fmt: skip


def writes(instruction: Instruction) -> tuple[str, ...]:
    """The registers that `instruction` may write, without repetition."""
    destination = _destination(instruction)
    return () if destination is None else tuple(dict.fromkeys(_registers(destination)))


def reads(instruction: Instruction) -> tuple[str, ...]:
    """The registers whose old value matters, without repetition.

    They include the guard, and what a guarded instruction writes: a lane whose guard is false keeps it.
    """
    found: list[str] = []
    if instruction.guard is not None:
        found += [instruction.guard.register, *writes(instruction)]
    sources = instruction.operands if _destination(instruction) is None else instruction.operands[1:]
    for operand in sources:
        found += _registers(operand)
    return tuple(dict.fromkeys(found))


def _destination(instruction: Instruction) -> Operand | None:
    """The first operand if it receives the result, or None."""
    if not instruction.operands:
        return None
    first = instruction.operands[0]
    if instruction.opcode == "call":
        # `call (returned), f, (given)`: an opening list that is followed by the callee holds results.
        has_result = isinstance(first, Arguments) and len(instruction.operands) > 1
        return first if has_result else None
    reduces = instruction.opcode in ("bar", "barrier") and instruction.has("red")
    if instruction.opcode in _NO_DESTINATION and not reduces:
        return None
    return first if isinstance(first, Register | Vector | Pair) else None


def _registers(operand: Operand | None) -> Iterator[str]:
    match operand:
        case Register(name):
            yield name
        case Address(Register(name)):
            yield name
        case Vector(elements) | Arguments(elements):
            for element in elements:
                yield from _registers(element)
        case Pair(first, second):
            yield from _registers(first)
            yield from _registers(second)
        case _:
            pass

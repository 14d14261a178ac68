"""The arrays that a launch leaves behind, in the form of `run --json`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.ptx.cfg_effects import reads, writes
from qdbg.compiler.ptx.ir import Address, Function, Instruction, Operand, Register, Symbol
from qdbg.runtime.launch import Allocation, BoundLaunch
from qdbg.runtime.values import DTYPES

#: PTX opcodes that write to an address, their first address operand.
_WRITERS = frozenset({"st", "atom", "red"})
_TYPE_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "bytes"}


def content(memory: NDArray[np.uint32], allocation: Allocation) -> NDArray[np.generic]:
    """An allocation's elements out of the machine's memory (uint32 [words], word 0 at MEMORY_BASE)."""
    start = allocation.address - MEMORY_BASE
    return memory.view(np.uint8)[start : start + allocation.size].view(allocation.data.dtype)


def outputs(bound: BoundLaunch, memory: NDArray[np.uint32]) -> dict[str, dict[str, Any]]:
    """Every array that the kernel may write or that the file has an expectation for, in launch order.

    memory: uint32 [words], word 0 at MEMORY_BASE.
    """
    return {a.name: described(content(memory, a)) for a in written(bound)}


def described(array: NDArray[np.generic]) -> dict[str, Any]:
    """An array as {"dtype", "shape", "data"}; floats read back to the same bits, but for a NaN's payload."""
    data = array.tolist()
    if array.dtype.kind == "f":
        # The shortest decimal of the element's own precision; JSON has no NaN and no infinity.
        data = [float(str(x)) if np.isfinite(x) else str(x) for x in array]
    return {"dtype": _TYPE_NAMES[array.dtype], "shape": list(array.shape), "data": data}


def written(bound: BoundLaunch) -> list[Allocation]:
    """The arrays that may be written: the kernel stores through their parameter, or a value is expected."""
    roots = _stored_through(bound.kernel)
    expected = {expectation.name for expectation in bound.expectations}
    if roots is None:
        return list(bound.allocations)
    offsets = bound.parameter_offsets
    addresses = {
        int.from_bytes(bound.parameters[offsets[root] : offsets[root] + 8], "little")
        for root in roots & offsets.keys()
    }
    return [a for a in bound.allocations if a.address in addresses or a.name in roots | expected]


def _stored_through(kernel: Function) -> set[str] | None:
    """Parameters and variables whose address reaches a store's; None where that cannot be told.

    A register carries the names that its value was computed from, to a fixpoint.  A pointer that was
    itself loaded from memory has none, and may point anywhere; so may what a called function writes.
    """
    carried: dict[str, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for instruction in kernel.body:
            sources = _sources(instruction, carried)
            for name in writes(instruction):
                before = carried.setdefault(name, set())
                changed |= not sources <= before
                before |= sources
    roots: set[str] = set()
    for instruction in kernel.body:
        if instruction.opcode == "call":
            return None
        if instruction.opcode not in _WRITERS or instruction.has("shared", "local"):
            continue
        address = next(o for o in instruction.operands if isinstance(o, Address))
        names = _names(address, carried)
        if not names:
            return None
        roots |= names
    return roots


def _sources(instruction: Instruction, carried: dict[str, set[str]]) -> set[str]:
    """What an instruction's result is computed from; a load from memory takes nothing from its address."""
    if instruction.opcode == "ld" and not instruction.has("param"):
        return set()
    found: set[str] = set()
    for operand in instruction.operands[1:]:
        found |= _names(operand, carried)
    for name in reads(instruction):
        found |= carried.get(name, set())
    return found


def _names(operand: Operand, carried: dict[str, set[str]]) -> set[str]:
    match operand:
        case Symbol(name) | Address(base=Symbol(name)):
            return {name}
        case Register(name) | Address(base=Register(name)):
            return carried.get(name, set())
    return set()

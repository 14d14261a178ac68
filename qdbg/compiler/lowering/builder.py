"""Blocks under construction: the one place where PTX instructions turn into operations."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from qdbg.compiler.lowering.ir import (
    MASK,
    Block,
    Blocks,
    Exit,
    Jump,
    Operation,
    Terminator,
    Value,
    copy_of,
    high_half,
    renumbered,
)
from qdbg.compiler.lowering.types import Type
from qdbg.compiler.machine.isa import NEVER, Cond, Op, Width
from qdbg.compiler.ptx.ir import TYPE_BITS

_OPEN = Jump(-1)


def is_temporary(value: Value) -> TypeGuard[str]:
    """Whether a value is a virtual register that lives within one PTX instruction."""
    return isinstance(value, str) and value.startswith(".")


class Builder:
    """Appends operations to the newest block.

    `at` is the index of the PTX instruction that is being translated; operations that write a register
    of the PTX program, or half of one, are marked as producing its result.
    """

    def __init__(self, ptx_registers: dict[str, str]):
        self.ptx_registers = ptx_registers
        wide = [name for name, kind in ptx_registers.items() if TYPE_BITS[kind] == 64]
        self.results = frozenset({*ptx_registers, *map(high_half, wide)})
        self.blocks: Blocks = []
        self.at: tuple[int, ...] = ()
        self.exit = self.reserve()
        self.blocks[self.exit].end = Exit()
        self.entry = self.current = self.reserve()
        self._order = [self.current]
        self._temporaries = 0

    # --- blocks ----------------------------------------------------------------------------------

    def reserve(self) -> int:
        """A new, empty block, to be filled later."""
        self.blocks.append(Block(_OPEN))
        return len(self.blocks) - 1

    @property
    def open(self) -> bool:
        """Whether the current block still lacks a terminator."""
        return self.blocks[self.current].end == _OPEN

    def close(self, end: Terminator) -> None:
        """End the current block."""
        self.blocks[self.current].end = end

    def enter(self, block: int) -> None:
        """Continue in `block`, falling into it if the current block is still open."""
        if self.open:
            self.close(Jump(block))
        self.current = block
        self._order.append(block)

    def finished(self) -> Blocks:
        """The blocks, the entry first and the others in the order of the source."""
        return renumbered(self.blocks, list(dict.fromkeys([*self._order, *range(len(self.blocks))])))

    @property
    def operations(self) -> list[Operation]:
        """The current block's operations."""
        return self.blocks[self.current].operations

    # --- operations ------------------------------------------------------------------------------

    def temporary(self) -> str:
        """A fresh virtual register."""
        self._temporaries += 1
        return f".{self._temporaries}"

    def emit(self, operation: Operation) -> None:
        """Append an operation on behalf of the instruction `at`."""
        self.operations.append(replace(operation, ptx=self.at, result=self._result(operation.dst)))

    def _result(self, dst: str | None) -> str | None:
        return dst if dst in self.results else None

    def copy(self, dst: str, value: Value) -> None:
        """`dst = value`."""
        self.emit(copy_of(dst, value))

    def write(self, dst: str, value: Value) -> None:
        """`dst = value`, without a copy where the operation that computes it can write `dst` itself.

        It can if the value is a temporary that this instruction has just computed, and no operation since
        reads what `dst` held before.  The temporary is gone then: nothing may read it any more.
        """
        operations = self.operations
        for place in range(len(operations) - 1, -1, -1):
            operation = operations[place]
            own = operation.once or (operation.op is Op.SHFL and dst in operation.sources)
            if operation.dst == value and is_temporary(value) and operation.ptx == self.at and not own:
                later = [o.substitute({value: dst}) for o in operations[place + 1 :]]
                operations[place:] = [replace(operation, dst=dst, result=self._result(dst)), *later]
                return
            if dst in operation.sources or operation.dst == dst or operation.ptx != self.at:
                break
        self.copy(dst, value)

    def op(self, op: Op, a: Value, b: Value = 0, c: Value = 0, dst: str | None = None, **more: int) -> str:
        """Append an operation and return its destination, a temporary unless given."""
        dst = dst or self.temporary()
        self.emit(Operation(op, dst, a, b, c, **more))  # type: ignore[arg-type]
        return dst

    def modify(
        self, op: Op, base: Value, offset: int = 0, *, old: str | None = None, a: Value | None = None,
        b: Value = 0, c: Value = 0, cond: Cond = NEVER, width: Width = Width.WORD, shared: bool = False,
    ) -> str:  # fmt: skip
        """Replace the word at `base + offset` by `op(a, b, c)` and return the register with the old word.

        `a` is the old word unless given; `old` is where to put that, a temporary unless given.  The two
        operations belong together, see `isa`: nothing may come between them.
        """
        if old is None or old in (a, b, c):  # the new word is computed after the old one has been written
            kept = self.modify(
                op, base, offset, old=self.temporary(), a=a, b=b, c=c, cond=cond, width=width, shared=shared
            )
            if old is not None:
                self.copy(old, kept)
            return kept
        self.emit(Operation(Op.HOLD, old, base, addend=offset, width=width, shared=shared))
        a = old if a is None else a
        self.emit(Operation(op, None, a, b, c, cond=cond, width=width, held=True))
        return old

    def in_front(self, operation: Operation) -> str:
        """Compute an operation once, at the end of the entry block, and return its destination.

        Its operands must be values known there.
        """
        self._temporaries += 1
        dst = f"%front{self._temporaries}"  # it lives on, as a temporary does not
        self.blocks[self.entry].operations.append(replace(operation, dst=dst))
        return dst

    def complement(self, value: Value) -> Value:
        """`value` with all bits turned over."""
        return self.op(Op.XOR, value, MASK)

    def extended(self, value: Value, kind: Type) -> Value:
        """The 32 bits that a value of a narrower type stands for."""
        if kind.bits >= 32 or kind.kind == "p":
            return value
        if isinstance(value, int):
            value &= (1 << kind.bits) - 1
            return (value - (kind.signed and value >> (kind.bits - 1) << kind.bits)) & MASK
        if kind.signed:
            return self.op(Op.SX8 if kind.bits == 8 else Op.SX16, value)
        return self.op(Op.AND, value, (1 << kind.bits) - 1)

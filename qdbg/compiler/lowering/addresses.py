"""Selection for generic addresses: PTX ISA 9.7.9, cvta and isspacep; 6.4.1, "Generic Addressing".

A generic address is a byte address of the machine's memory.  Those of global and const memory are the same
in their own space; in the other spaces addresses count from the start of a window.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, scalar
from qdbg.compiler.lowering.wide import Wide, constant
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction

_ADDRESS = Type("u", 64)


class Addresses(Translation):
    """One method per opcode."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"cvta": self._cvta, "isspacep": self._isspacep}

    def _cvta(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        window = self.operands.window(_space(i))
        if kind.bits == 32:
            word = self.low(i.operands[1])
            moved = self.op(Op.SUB, window, c=word) if i.has("to") else self.op(Op.ADD, word, c=window)
            return self.finish(i, moved, kind)
        address = self.wide(i.operands[1], kind)
        change = self.math.difference if i.has("to") else lambda a, b: self.math.add(a, b)[0]
        shift = constant(window) if isinstance(window, int) else Wide(window)
        return self.finish(i, change(address, shift), kind)

    def _isspacep(self, i: Instruction) -> None:
        """Parameter and local memory lie behind everything else."""
        geometry = self.operands.geometry
        address = self.wide(i.operands[1], _ADDRESS)
        shared = geometry.shared_base, geometry.shared_base + geometry.shared_bytes
        outside: Value
        match _space(i):
            case "shared":
                inside = self._within(address, *shared)
            case "param":
                inside = self._within(address, geometry.parameters, geometry.local)
            case "local":
                inside = self._within(address, geometry.local, MASK)
            case "global" if "const" not in self.operands.spaces.values():
                outside = self._within(address, geometry.parameters, MASK)
                outside = self.op(Op.OR, outside, self._within(address, *shared))
                inside = self.op(Op.XOR, outside, 1)
            case _:
                raise Unsupported
        self.finish(i, inside, Type("p", 1))

    def _within(self, address: Wide, start: int, end: int) -> Value:
        """1 where start <= address < end."""
        near = self.op(Op.SET, self.op(Op.ADD, address.low, addend=-start & MASK), end - start, cond=Cond.LT)
        return self.op(Op.AND, near, self.op(Op.SET, address.high, 0, cond=Cond.EQ))


def _space(i: Instruction) -> str:
    spaces = ("shared", "local", "param", "const", "global")
    return next(m.split("::")[0] for m in i.modifiers if m.split("::")[0] in spaces)

"""Selection for prmt, which picks four of the eight bytes of two words (PTX ISA 9.7.9, prmt)."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type
from qdbg.compiler.lowering.wide import constant
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.ptx.ir import Instruction

#: The selectors that a mode stands for, by c & 3.
_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
_SIGN = 8  #: in a selector's digit: the byte's sign eight times, instead of the byte


class Permute(Translation):
    """Byte permutation."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"prmt": self._permute}

    def _permute(self, i: Instruction) -> None:
        a, b, selector = (self.low(o) for o in i.operands[1:4])
        mode = next((_MODES[m] for m in i.modifiers if m in _MODES), None)
        if mode is not None:
            table = sum(choice << 16 * place for place, choice in enumerate(mode))
            if isinstance(selector, int):
                selector = mode[selector & 3]
            else:
                place = self.op(Op.SHL, self.op(Op.AND, selector, 3), 4)
                selector = self.math.shift_right(constant(table), place, False).low
        if isinstance(selector, int):
            result = self._fixed(a, b, [selector >> 4 * place & 15 for place in range(4)])
        else:
            result = self._variable(a, b, selector)
        self.finish(i, result, Type("b", 32))

    def _fixed(self, a: Value, b: Value, digits: list[int]) -> Value:
        """Neighbours that stay neighbours move together."""
        total: Value = 0
        start = 0
        while start < 4:
            end = start + 1
            first = digits[start]
            while end < 4 and not first & _SIGN and digits[end] == first + end - start and digits[end] & 3:
                end += 1
            source, place = (b if first & 4 else a), first & 3
            if first & _SIGN:
                moved: Value = self.op(Op.SHRS, self.op(Op.SHL, source, 24 - 8 * place), 31)
            else:
                moved = self.op(Op.SHRU, source, 8 * place)
            inside = (1 << 8 * (end - start)) - 1
            if end < 4 and (place + end - start < 4 or first & _SIGN):  # else what is above falls off or is 0
                moved = self.op(Op.AND, moved, inside)
            total = self.op(Op.MAD, moved, 1 << 8 * start, total)
            start = end
        return total

    def _variable(self, a: Value, b: Value, selector: Value) -> Value:
        parts: list[Value] = []
        for place in range(4):
            digit = self.op(Op.SHRU, selector, 4 * place)
            source = self.op(Op.SEL, b, a, self.op(Op.SHRU, digit, 2))
            shift = self.op(Op.SHL, self.op(Op.AND, digit, 3), 3)
            byte = self.op(Op.SX8, self.op(Op.SHRU, source, shift))
            sign = self.op(Op.SHRS, byte, 31)
            parts.append(self.op(Op.SEL, sign, byte, self.op(Op.SHRU, digit, 3)))
        return self.packed(parts, 8)

"""Selection for fields of bits: PTX ISA 9.7.1 from bfe on, and copysign, 9.7.3."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, scalar
from qdbg.compiler.lowering.wide import Wide, constant
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction


class Fields(Translation):
    """One method per opcode."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "bfe": self._extract,
            "bfi": self._insert,
            "bmsk": self._mask,
            "szext": self._extend,
            "copysign": self._copysign,
        }

    def _byte(self, value: Value) -> Value:
        return value & 255 if isinstance(value, int) else self.op(Op.AND, value, 255)

    def _extract(self, i: Instruction) -> None:
        """Position and length are bytes; what lies above the value is its sign, or 0 (PTX ISA 9.7.1, bfe)."""
        kind = scalar(i, wide=True)
        place, length = self._byte(self.low(i.operands[2])), self._byte(self.low(i.operands[3]))
        if kind.bits == 64:
            return self.finish(i, self._extracted(self.wide(i.operands[1], kind), place, length, kind), kind)
        word = self.word(i.operands[1], kind)
        if isinstance(place, int) and isinstance(length, int) and not kind.signed:
            field = self.op(Op.AND, self.op(Op.SHRU, word, place), (1 << min(length, 32)) - 1)
            return self.finish(i, field, kind)
        if not kind.signed:
            ones = self._ones(length)
            return self.finish(i, self.op(Op.AND, self.op(Op.SHRU, word, place), ones), kind)
        if place == 0 and length in (8, 16):
            return self.finish(i, self.builder.extended(word, Type("s", length)), kind)
        # The field goes to the top and comes down with its sign; a length of 0 shifts everything out.
        if isinstance(place, int) and isinstance(length, int):
            spare = 32 - min(length, 32)
            if place + length <= 32:
                top = self.op(Op.SHL, word, spare - place if length else 32)
                return self.finish(i, self.op(Op.SHRS, top, spare), kind)
            rest: Value = spare
        else:
            rest = self.op(Op.SUB, self._at_most(length, 32), c=32)
        top = self.op(Op.SHL, self.op(Op.SHRS, word, place), rest)
        return self.finish(i, self.op(Op.SHRS, top, rest), kind)

    def _at_most(self, value: Value, limit: int) -> Value:
        if isinstance(value, int):
            return min(value, limit)
        return self.op(Op.PICK, value, limit, cond=Cond.LT)

    def _extracted(self, a: Wide, place: Value, length: Value, kind: Type) -> Wide:
        shifted = self.math.shift_right(a, place, kind.signed)
        if not kind.signed:
            return self.math.each(Op.AND, shifted, self._wide_ones(length))
        most = self._at_most(length, 64)
        rest = 64 - most if isinstance(most, int) else self.op(Op.SUB, most, c=64)
        return self.math.shift_right(self.math.shift_left(shifted, rest), rest, True)

    def _ones(self, length: Value) -> Value:
        """The `length` low bits of 32."""
        return self.builder.complement(self.op(Op.SHL, MASK, length))

    def _wide_ones(self, length: Value) -> Wide:
        """The `length` low bits of 64."""
        if isinstance(length, int):
            return constant((1 << min(length, 64)) - 1)
        return self.math.each(Op.XOR, self.math.shift_left(Wide(MASK, MASK), length), Wide(MASK, MASK))

    def _insert(self, i: Instruction) -> None:
        """a goes into b, cut off at the top (PTX ISA 9.7.1, bfi)."""
        kind = scalar(i, wide=True)
        place, length = self._byte(self.low(i.operands[3])), self._byte(self.low(i.operands[4]))
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            field = self.math.shift_left(self._wide_ones(length), place)
            if isinstance(place, int) and isinstance(length, int):
                field = constant((1 << length) - 1 << place)
            shifted = self.math.shift_left(a, place)
            return self.finish(i, Wide(*(self._blend(*v) for v in zip(shifted, b, field, strict=True))), kind)
        word, into = self.low(i.operands[1]), self.low(i.operands[2])
        if isinstance(place, int) and isinstance(length, int):
            mask: Value = ((1 << length) - 1 << place) & MASK
        else:
            mask = self.op(Op.SHL, self._ones(length), place)
        return self.finish(i, self._blend(self.op(Op.SHL, word, place), into, mask), kind)

    def _blend(self, a: Value, b: Value, mask: Value) -> Value:
        """a where the mask is 1, else b."""
        return self.op(Op.XOR, b, self.op(Op.AND, self.op(Op.XOR, a, b), mask))

    def _mask(self, i: Instruction) -> None:
        """`length` ones from a place on; `.wrap` takes both modulo 32 (PTX ISA 9.7.1, bmsk)."""
        place, length = self.low(i.operands[1]), self.low(i.operands[2])
        if i.has("wrap"):
            place, length = self.op(Op.AND, place, 31), self.op(Op.AND, length, 31)
        self.finish(i, self.op(Op.SHL, self._ones(length), place), Type("u", 32))

    def _extend(self, i: Instruction) -> None:
        """The low bits, so many as b says, extended; all of a from 32 on, or b modulo 32 (PTX ISA, szext)."""
        kind = scalar(i)
        word, length = self.low(i.operands[1]), self.low(i.operands[2])
        if i.has("wrap"):
            length = self.op(Op.AND, length, 31)
        if not kind.signed:
            return self.finish(i, self.op(Op.AND, word, self._ones(length)), kind)
        spare = self.op(Op.SUB, self._at_most(length, 32), c=32)
        return self.finish(i, self.op(Op.SHRS, self.op(Op.SHL, word, spare), spare), kind)

    def _copysign(self, i: Instruction) -> None:
        """The sign of the first operand on the magnitude of the second (PTX ISA 9.7.3, copysign)."""
        kind = scalar(i, wide=True, floating=True)
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, Wide(b.low, self._blend(a.high, b.high, 1 << 31)), kind)
        return self.finish(i, self._blend(self.low(i.operands[1]), self.low(i.operands[2]), 1 << 31), kind)

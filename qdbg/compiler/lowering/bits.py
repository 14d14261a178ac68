"""Selection for logic, shifts and bit fields: PTX ISA 9.7.8, and 9.7.1 from popc on."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, scalar
from qdbg.compiler.lowering.wide import Wide, constant
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Immediate, Instruction

LOGIC = {"and": Op.AND, "or": Op.OR, "xor": Op.XOR}
_U32 = Type("u", 32)


class Bits(Translation):
    """One method per opcode."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "and": self._logic,
            "or": self._logic,
            "xor": self._logic,
            "not": self._not,
            "cnot": self._cnot,
            "lop3": self._lop3,
            "shl": self._shl,
            "shr": self._shr,
            "shf": self._funnel,
            "popc": self._popc,
            "clz": self._clz,
            "brev": self._brev,
            "bfind": self._bfind,
            "bfe": self._extract,
            "bfi": self._insert,
            "bmsk": self._mask,
            "copysign": self._copysign,
        }

    # --- logic ---------------------------------------------------------------------------------------

    def _logic(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, self.math.each(LOGIC[i.opcode], a, b), kind)
        return self.finish(
            i, self.op(LOGIC[i.opcode], self.low(i.operands[1]), self.low(i.operands[2])), kind
        )

    def _not(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if kind.bits == 64:
            ones = Wide(MASK, MASK)
            return self.finish(i, self.math.each(Op.XOR, self.wide(i.operands[1], kind), ones), kind)
        return self.finish(i, self.op(Op.XOR, self.low(i.operands[1]), 1 if kind.kind == "p" else MASK), kind)

    def _cnot(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if kind.bits == 64:
            zero = self.math.compare(self.wide(i.operands[1], kind), Cond.EQ, constant(0))
            return self.finish(i, Wide(zero), kind)
        return self.finish(i, self.op(Op.SET, self.word(i.operands[1], kind), 0, cond=Cond.EQ), kind)

    def _lop3(self, i: Instruction) -> None:
        """f(a, b, c) = f0 ^ (c & (f0 ^ f1)), where f0 and f1 are functions of a and b for c = 0 and 1.

        The table's index has a as its highest bit and c as its lowest.
        """
        table = i.operands[4]
        if len(i.operands) != 5 or not isinstance(table, Immediate):
            raise Unsupported
        a, b, c = (self.low(o) for o in i.operands[1:4])
        low = sum((table.value >> (2 * k) & 1) << k for k in range(4))
        high = sum((table.value >> (2 * k + 1) & 1) << k for k in range(4))
        masked = self.op(Op.AND, self._function(low ^ high, a, b), c)
        self.finish(i, self.op(Op.XOR, masked, self._function(low, a, b)), _U32)

    def _function(self, table: int, a: Value, b: Value) -> Value:
        """A function of two values; bit 2*x + y of the table is f(x, y)."""
        op, complement = self.op, self.builder.complement
        if table & 1:
            return complement(self._function(table ^ 0xF, a, b)) if table != 0xF else MASK
        match table:
            case 0b0000:
                return 0
            case 0b1100:
                return a
            case 0b1010:
                return b
            case 0b1000:
                return op(Op.AND, a, b)
            case 0b0110:
                return op(Op.XOR, a, b)
            case 0b1110:
                return op(Op.OR, a, b)
            case 0b0100:
                return op(Op.AND, a, complement(b))
            case _:
                return op(Op.AND, complement(a), b)

    # --- shifts --------------------------------------------------------------------------------------

    def _shl(self, i: Instruction) -> None:
        kind, n = scalar(i, wide=True), self.low(i.operands[2])
        if kind.bits == 64:
            return self.finish(i, self.math.shift_left(self.wide(i.operands[1], kind), n), kind)
        return self.finish(i, self.op(Op.SHL, self.low(i.operands[1]), n), kind)

    def _shr(self, i: Instruction) -> None:
        kind, n = scalar(i, wide=True), self.low(i.operands[2])
        if kind.bits == 64:
            shifted = self.math.shift_right(self.wide(i.operands[1], kind), n, kind.signed)
            return self.finish(i, shifted, kind)
        shift = Op.SHRS if kind.signed else Op.SHRU
        return self.finish(i, self.op(shift, self.word(i.operands[1], kind), n), kind)

    def _funnel(self, i: Instruction) -> None:
        """A word out of {b, a} shifted; a is the low one (PTX ISA 9.7.8, shf)."""
        a, b, n = (self.low(o) for o in i.operands[1:4])
        if isinstance(n, int):
            n = n & 31 if i.has("wrap") else min(n, 32)
        else:
            n = self.op(Op.AND, n, 31) if i.has("wrap") else self.op(Op.PICK, n, 32, cond=Cond.LT)
        rest = 32 - n if isinstance(n, int) else self.op(Op.SUB, n, c=32)
        near, far, up, down = (b, a, n, rest) if i.has("l") else (b, a, rest, n)
        self.finish(i, self.op(Op.OR, self.op(Op.SHL, near, up), self.op(Op.SHRU, far, down)), _U32)

    # --- counting ------------------------------------------------------------------------------------

    def _popc(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        a = self._halves(i, kind)
        ones = self.op(Op.POPC, a.low)
        self.finish(i, self.op(Op.ADD, ones, c=self.op(Op.POPC, a.high)) if kind.bits == 64 else ones, _U32)

    def _halves(self, i: Instruction, kind: Type) -> Wide:
        """The first operand of an instruction for 32 and 64 bits."""
        if kind.bits < 32:
            raise Unsupported
        return self.wide(i.operands[1], kind) if kind.bits == 64 else Wide(self.low(i.operands[1]))

    def _zeros(self, a: Wide, kind: Type) -> Value:
        """How many zeros are above the highest one; the type's width for 0."""
        if kind.bits == 32:
            return self.op(Op.CLZ, a.low)
        below = self.op(Op.ADD, self.op(Op.CLZ, a.low), addend=32)
        return self.op(Op.CHOOSE, self.op(Op.CLZ, a.high), 32, below, cond=Cond.EQ)

    def _clz(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        self.finish(i, self._zeros(self._halves(i, kind), kind), _U32)

    def _brev(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        a = self._halves(i, kind)
        if kind.bits == 64:
            return self.finish(i, Wide(self.op(Op.BREV, a.high), self.op(Op.BREV, a.low)), kind)
        return self.finish(i, self.op(Op.BREV, a.low), kind)

    def _bfind(self, i: Instruction) -> None:
        """The highest bit that differs from the sign, or that is 1; all ones where there is none."""
        kind = scalar(i, wide=True)
        a = self._halves(i, kind)
        if kind.signed:
            sign = self.op(Op.SHRS, a.high if kind.bits == 64 else a.low, 31)
            a = self.math.each(Op.XOR, a, Wide(sign, sign))
        zeros = self._zeros(a, kind)
        if i.has("shiftamt"):
            found = self.op(Op.CHOOSE, zeros, kind.bits, MASK, cond=Cond.EQ)
        else:
            found = self.op(Op.SUB, zeros, c=kind.bits - 1)
        self.finish(i, found, _U32)

    # --- fields --------------------------------------------------------------------------------------

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
            outside = self.op(Op.SHL, MASK, length)
            field = self.op(Op.AND, self.op(Op.SHRU, word, place), self.builder.complement(outside))
            return self.finish(i, field, kind)
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
            return self.math.each(Op.AND, shifted, self._ones(length))
        most = self._at_most(length, 64)
        rest = 64 - most if isinstance(most, int) else self.op(Op.SUB, most, c=64)
        return self.math.shift_right(self.math.shift_left(shifted, rest), rest, True)

    def _ones(self, length: Value) -> Wide:
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
            field = self.math.shift_left(self._ones(length), place)
            if isinstance(place, int) and isinstance(length, int):
                field = constant((1 << length) - 1 << place)
            shifted = self.math.shift_left(a, place)
            return self.finish(i, Wide(*(self._blend(*v) for v in zip(shifted, b, field, strict=True))), kind)
        word, into = self.low(i.operands[1]), self.low(i.operands[2])
        if isinstance(place, int) and isinstance(length, int):
            mask: Value = ((1 << length) - 1 << place) & MASK
        else:
            mask = self.op(Op.SHL, self.builder.complement(self.op(Op.SHL, MASK, length)), place)
        return self.finish(i, self._blend(self.op(Op.SHL, word, place), into, mask), kind)

    def _blend(self, a: Value, b: Value, mask: Value) -> Value:
        """a where the mask is 1, else b."""
        return self.op(Op.XOR, b, self.op(Op.AND, self.op(Op.XOR, a, b), mask))

    def _mask(self, i: Instruction) -> None:
        """`length` ones from a place on; `.wrap` takes both modulo 32 (PTX ISA 9.7.1, bmsk)."""
        place, length = self.low(i.operands[1]), self.low(i.operands[2])
        if i.has("wrap"):
            place, length = self.op(Op.AND, place, 31), self.op(Op.AND, length, 31)
        ones = self.builder.complement(self.op(Op.SHL, MASK, length))
        self.finish(i, self.op(Op.SHL, ones, place), _U32)

    def _copysign(self, i: Instruction) -> None:
        """The sign of the first operand on the magnitude of the second (PTX ISA 9.7.3, copysign)."""
        kind = scalar(i, wide=True, floating=True)
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, Wide(b.low, self._blend(a.high, b.high, 1 << 31)), kind)
        return self.finish(i, self._blend(self.low(i.operands[1]), self.low(i.operands[2]), 1 << 31), kind)

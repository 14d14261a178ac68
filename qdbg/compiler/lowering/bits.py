"""Selection for logic and shifts, PTX ISA 9.7.8, and for counting and finding bits, 9.7.1 from popc on."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, NEGATIVE, Value
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
            "fns": self._fns,
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

    def _fns(self, i: Instruction) -> None:
        """Where the n-th one of a mask is, from a base upward or, for n < 0, downward (PTX ISA 9.7.1, fns).

        The base itself counts; for n = 0 it is the only one looked at.  All ones where there is none.
        """
        mask, base, n = (self.low(operand) for operand in i.operands[1:4])
        down = self.op(Op.SET, n, 0, cond=NEGATIVE)
        mask = self.op(Op.SEL, self.op(Op.BREV, mask), mask, down)
        base = self.op(Op.SEL, self.op(Op.SUB, base, addend=31), base, down)
        span = self.op(Op.SEL, MASK, 1, self.op(Op.SET, n, 0, cond=Cond.LT | Cond.GT))
        mask = self.op(Op.AND, mask, self.op(Op.SHL, span, base))
        count = self.op(Op.PICK, n, self.op(Op.SUB, n), cond=Cond.GT | Cond.SIGNED)
        count = self.op(Op.PICK, count, 1, cond=Cond.GT)
        exists = self.op(Op.SET, count, self.op(Op.POPC, mask), cond=Cond.LT | Cond.EQ)
        place = self._place(mask, count)
        place = self.op(Op.SEL, self.op(Op.SUB, place, addend=31), place, down)
        self.finish(i, self.op(Op.SEL, place, MASK, exists), _U32)

    def _place(self, mask: Value, count: Value) -> Value:
        """Where the one is that is number `count`, from 1; the mask has so many."""
        place: Value = 0
        for half in (16, 8, 4, 2, 1):
            below = self.op(Op.POPC, self.op(Op.AND, mask, (1 << half) - 1))
            above = self.op(Op.SET, count, below, cond=Cond.GT)
            skipped = self.op(Op.MAD, above, half)
            mask = self.op(Op.SHRU, mask, skipped)
            count = self.op(Op.SUB, self.op(Op.MAD, above, below), c=count)
            place = self.op(Op.ADD, place, c=skipped)
        return place

"""64-bit arithmetic as sequences of 32-bit operations.

A 64-bit value is a pair of words.  The low half of a PTX register keeps its name, the high half lives in
a virtual register of its own, see `high_half`.  Both halves are always computed; what nobody observes,
such as the high halves of addresses, is dropped as dead code.

Within a sequence the operations that look at low halves only come before those that may overwrite one:
see `Builder.write`.
"""

from __future__ import annotations

from typing import NamedTuple

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.machine.isa import Cond, Op


class Wide(NamedTuple):
    """The halves of a 64-bit value; `high` is 0 where only 32 bits count."""

    low: Value
    high: Value = 0


ZERO = Wide(0)


def constant(value: int) -> Wide:
    """A 64-bit constant."""
    return Wide(value & MASK, value >> 32 & MASK)


class WideMath:
    """Operations on pairs.  Carries and borrows are values 0 or 1."""

    def __init__(self, builder: Builder):
        self.builder, self.op = builder, builder.op

    # --- sums ----------------------------------------------------------------------------------------

    def add_word(self, a: Value, b: Value, carry: Value = 0) -> tuple[Value, Value]:
        """a + b + carry of words, and the carry out."""
        first = self.op(Op.ADDH, a, c=b)
        total = self.op(Op.ADD, a, c=b)
        if carry == 0:
            return total, first
        second = self.op(Op.ADDH, total, c=carry)
        return self.op(Op.ADD, total, c=carry), self.op(Op.ADD, first, c=second)

    def sub_word(self, a: Value, b: Value, borrow: Value = 0) -> tuple[Value, Value]:
        """a - b - borrow of words, and the borrow out."""
        first = self.op(Op.SET, a, b, cond=Cond.LT)
        total = self.op(Op.SUB, b, c=a)
        if borrow == 0:
            return total, first
        second = self.op(Op.SET, total, borrow, cond=Cond.LT)
        return self.op(Op.SUB, borrow, c=total), self.op(Op.ADD, first, c=second)

    def add(self, a: Wide, b: Wide, carry: Value = 0) -> tuple[Wide, Value]:
        """a + b + carry, and the carry out."""
        low, middle = self.add_word(a.low, b.low, carry)
        high, out = self.add_word(a.high, b.high, middle)
        return Wide(low, high), out

    def sub(self, a: Wide, b: Wide, borrow: Value = 0) -> tuple[Wide, Value]:
        """a - b - borrow, and the borrow out."""
        low, middle = self.sub_word(a.low, b.low, borrow)
        high, out = self.sub_word(a.high, b.high, middle)
        return Wide(low, high), out

    def difference(self, a: Wide, b: Wide) -> Wide:
        """a - b; a constant b is added instead, whose carry is cheaper."""
        if isinstance(b.low, int) and isinstance(b.high, int):
            return self.add(a, constant(-(b.low | b.high << 32)))[0]
        return self.sub(a, b)[0]

    def negated(self, a: Wide) -> Wide:
        """-a = ~a + 1: the high half borrows unless the low one is 0."""
        zero = self.op(Op.SET, a.low, 0, cond=Cond.EQ)
        return Wide(self.op(Op.SUB, a.low), self.op(Op.SUB, a.high, c=zero, addend=MASK))

    # --- products ------------------------------------------------------------------------------------

    def product(self, a: Value, b: Value, signed: bool, c: Wide = ZERO) -> Wide:
        """The 64-bit product of words plus c."""
        top = self.op(Op.MADS if signed else Op.MADH, a, b, c.low)
        return Wide(self.op(Op.MAD, a, b, c.low), self.op(Op.ADD, top, c=c.high))

    def multiply(self, a: Wide, b: Wide, c: Wide = ZERO) -> Wide:
        """The low 64 bits of a * b + c."""
        top = self.op(Op.MADH, a.low, b.low, c.low)
        top = self.op(Op.MAD, a.low, b.high, top)
        top = self.op(Op.MAD, a.high, b.low, top)
        return Wide(self.op(Op.MAD, a.low, b.low, c.low), self.op(Op.ADD, top, c=c.high))

    def multiply_high(self, a: Wide, b: Wide, signed: bool, c: Wide = ZERO) -> Wide:
        """The high 64 bits of the 128-bit product plus c.

        A sum of a product of words and two words fits 64 bits, so the schoolbook's carries need no room.
        """
        corner = self.op(Op.MADH, a.low, b.low, c.low)
        first, carried = self._product_sum(a.high, b.low, corner)
        _, middle = self._product_sum(a.low, b.high, first, c.high)
        low, high = self._product_sum(a.high, b.high, carried, middle)
        result = Wide(low, high)
        if signed:  # a negative a counts as a + 2^64, so b is too much in the high half, and vice versa
            for x, y in ((a, b), (b, a)):
                sign = self.op(Op.SHRS, x.high, 31)
                excess = Wide(self.op(Op.AND, y.low, sign), self.op(Op.AND, y.high, sign))
                result = self.difference(result, excess)
        return result

    def _product_sum(self, a: Value, b: Value, c: Value, d: Value = 0) -> tuple[Value, Value]:
        """Both words of a * b + c + d."""
        low, high = self.op(Op.MAD, a, b, c), self.op(Op.MADH, a, b, c)
        if d == 0:
            return low, high
        carry = self.op(Op.ADDH, low, c=d)
        return self.op(Op.ADD, low, c=d), self.op(Op.ADD, high, c=carry)

    # --- shifts --------------------------------------------------------------------------------------

    def shift_left(self, a: Wide, n: Value) -> Wide:
        """a << n, 0 from 64 on; n is unsigned."""
        if isinstance(n, int):
            if n >= 32:
                return Wide(0, self.op(Op.SHL, a.low, n - 32))
            rest = self.op(Op.SHRU, a.low, 32 - n)
            return Wide(self.op(Op.SHL, a.low, n), self.op(Op.MAD, a.high, 1 << n, rest))
        # Shifts by 32 and more give 0, and so do those by a negative, hence huge amount: of the two ways
        # from one half to the other at most one counts (at 32 both do, and agree).
        over = self._crossing(Op.SHRU, Op.SHL, a.low, n)
        high = self.op(Op.OR, self.op(Op.SHL, a.high, n), over)
        return Wide(self.op(Op.SHL, a.low, n), high)

    def shift_right(self, a: Wide, n: Value, signed: bool) -> Wide:
        """a >> n, the sign or 0 from 64 on; n is unsigned."""
        shift = Op.SHRS if signed else Op.SHRU
        if isinstance(n, int):
            if n >= 32:
                return Wide(self.op(shift, a.high, n - 32), self.op(Op.SHRS, a.high, 31) if signed else 0)
            rest = self.op(Op.SHRU, a.low, n)
            low = rest if n == 0 else self.op(Op.MAD, a.high, 1 << 32 - n, rest)
            return Wide(low, self.op(shift, a.high, n))
        if not signed:
            over = self._crossing(Op.SHL, Op.SHRU, a.high, n)
            low = self.op(Op.OR, self.op(Op.SHRU, a.low, n), over)
            return Wide(low, self.op(Op.SHRU, a.high, n))
        near = self.op(Op.OR, self.op(Op.SHRU, a.low, n), self.op(Op.SHL, a.high, self.op(Op.SUB, n, c=32)))
        far = self.op(Op.SHRS, a.high, self.op(Op.ADD, n, addend=-32 & MASK))
        small = self.op(Op.SET, n, 32, cond=Cond.LT)
        return Wide(self.op(Op.SEL, near, far, small), self.op(Op.SHRS, a.high, n))

    def _crossing(self, short: Op, far: Op, half: Value, n: Value) -> Value:
        """What a shift by n brings into the other half."""
        return self.op(
            Op.OR,
            self.op(short, half, self.op(Op.SUB, n, c=32)),
            self.op(far, half, self.op(Op.ADD, n, addend=-32 & MASK)),
        )

    # --- comparison and selection --------------------------------------------------------------------

    def compare(self, a: Wide, cond: Cond, b: Wide) -> Value:
        """1 where a cond b, else 0."""
        order = cond & (Cond.LT | Cond.EQ | Cond.GT)
        if order in (Cond.EQ, Cond.LT | Cond.GT):
            join = Op.AND if order == Cond.EQ else Op.OR
            return self.op(
                join, self.op(Op.SET, a.low, b.low, cond=order), self.op(Op.SET, a.high, b.high, cond=order)
            )
        low = self.op(Op.SET, a.low, b.low, cond=order)
        high = self.op(Op.SET, a.high, b.high, cond=cond)
        same = self.op(Op.SET, a.high, b.high, cond=Cond.EQ)
        return self.op(Op.SEL, low, high, same)

    def select(self, a: Wide, b: Wide, chooser: Value) -> Wide:
        """a where bit 0 of the chooser is set, else b."""
        return Wide(self.op(Op.SEL, a.low, b.low, chooser), self.op(Op.SEL, a.high, b.high, chooser))

    def each(self, op: Op, a: Wide, b: Wide) -> Wide:
        """An operation on each half by itself."""
        return Wide(self.op(op, a.low, b.low), self.op(op, a.high, b.high))

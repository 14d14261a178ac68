"""Selection for div and rem (PTX ISA 9.7.1).  Division by zero gives all ones in both, as on hardware.

Of 16 and 32 bits, by a reciprocal: everything that depends on the divisor alone comes first, so that it is
computed once for all lanes where they share the divisor.  By a constant, see `magic`.  Signed division is
that of the magnitudes.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.magic import divided, divided_signed, divided_wide
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, scalar
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction

_AT_LEAST = Cond.GT | Cond.EQ
#: 1/x for x in [1/2, 1) is about 48/17 - 32/17 x, at most 1/17 of it wrong; in units of 2^-31, modulo 2^32.
INTERCEPT = (48 << 31) // 17 & MASK
SLOPE = (32 << 31) // 17


class Division(Translation):
    """Division without a loop: of up to 32 bits, or by a constant."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"div": self._divide, "rem": self._divide}

    def _divide(self, i: Instruction) -> None:
        kind = division_type(i)
        if kind.bits == 64:
            wide = self.wide(i.operands[2], kind)
            if not (isinstance(wide.low, int) and isinstance(wide.high, int)):
                raise Unsupported
            return self._by_constant(i, kind, wide.low | wide.high << 32)
        n, d = self.word(i.operands[1], kind), self.word(i.operands[2], kind)
        if isinstance(d, int):
            return self._by_constant(i, kind, d)
        return self.finish(i, (self._quotient if i.opcode == "div" else self._rest)(n, d, kind.signed), kind)

    def _by_constant(self, i: Instruction, kind: Type, d: int) -> None:
        """d: the divisor's bits."""
        divides = i.opcode == "div"
        width = max(kind.bits, 32)
        if kind.signed and d >> width - 1:
            d -= 1 << width
        if kind.bits == 64:
            wide = self.wide(i.operands[1], kind)
            return self.finish(i, divided_wide(self.math, wide, d, kind.signed, divides), kind)
        n = self.word(i.operands[1], kind)
        if d == 0:
            return self.finish(i, MASK, kind)
        quotient = divided_signed(self.op, n, d) if kind.signed else divided(self.op, n, d)
        return self.finish(i, quotient if divides else self.op(Op.MAD, quotient, -d & MASK, n), kind)

    # --- by a divisor in a register ------------------------------------------------------------------

    def _quotient(self, n: Value, d: Value, signed: bool) -> Value:
        """The estimate by the reciprocal is exact or 1 too small; a zero divisor turns that 1 into -1."""
        zero = self.op(Op.SET, d, 0, cond=Cond.EQ)
        one = self.op(Op.MAD, zero, -2 & MASK, 1)  # of d = 0 the estimate is 0, and short
        if not signed:
            negated, reciprocal = self._reciprocal(d)
            estimate = self.op(Op.MADH, n, reciprocal)
            return self.op(Op.MAD, self._short(n, d, negated, estimate), one, estimate)
        d_sign, n_sign = self.op(Op.SHRS, d, 31), self.op(Op.SHRS, n, 31)
        d, n = self._magnitude(d, d_sign), self._magnitude(n, n_sign)
        minus_one = self.op(Op.MAD, zero, 2, MASK)
        negated, reciprocal = self._reciprocal(d)
        estimate = self.op(Op.MADH, n, reciprocal)
        quotient = self.op(Op.MAD, self._short(n, d, negated, estimate), one, estimate)
        sign = self.op(Op.XOR, n_sign, d_sign)
        return self.op(Op.MAD, sign, minus_one, self.op(Op.XOR, quotient, sign))

    def _rest(self, n: Value, d: Value, signed: bool) -> Value:
        """n - q * d.  Of a zero divisor everything is chosen so that it comes out as -1."""
        zero = self.op(Op.SET, d, 0, cond=Cond.EQ)
        ones = self.op(Op.SUB, zero)
        if not signed:
            return self._positive_rest(n, d, ones)
        n_sign = self.op(Op.SHRS, n, 31)
        minus_one = self.op(Op.MAD, zero, 2, MASK)
        rest = self._positive_rest(
            self._magnitude(n, n_sign), self._magnitude(d, self.op(Op.SHRS, d, 31)), ones
        )
        return self.op(Op.MAD, n_sign, minus_one, self.op(Op.XOR, rest, n_sign))

    def _positive_rest(self, n: Value, d: Value, ones: Value) -> Value:
        negated, reciprocal = self._reciprocal(d)
        negated, reciprocal = self.op(Op.OR, negated, ones), self.op(Op.OR, reciprocal, ones)
        estimate = self.op(Op.MADH, n, reciprocal, ones)  # of d = 0: n
        rest = self.op(Op.MAD, estimate, negated, n)  # of d = 0: 0
        short = self.op(Op.SET, rest, d, cond=_AT_LEAST)
        return self.op(Op.MAD, short, negated, rest)

    def _short(self, n: Value, d: Value, negated: Value, estimate: Value) -> Value:
        """1 where the quotient is one more than the estimate, else 0."""
        return self.op(Op.SET, self.op(Op.MAD, estimate, negated, n), d, cond=_AT_LEAST)

    def _magnitude(self, value: Value, sign: Value) -> Value:
        return self.op(Op.SUB, sign, c=self.op(Op.XOR, value, sign))

    def _reciprocal(self, d: Value) -> tuple[Value, Value]:
        """-d, and floor((2^32 - 1) / d); of d = 0 the latter is 1.

        Newton's iteration for 1/d squares the relative error.  From 1/17 it takes three rounds to less than
        2^-32, but what the last one cuts off may leave the result 1 too small.
        """
        zeros = self.op(Op.CLZ, d)
        scaled = self.op(Op.SHL, d, zeros)
        guess = self.op(Op.SUB, self.op(Op.MADH, scaled, SLOPE), addend=INTERCEPT)
        half = self.op(Op.MADH, guess, self.op(Op.SUB, self.op(Op.MADH, scaled, guess)))
        down = self.op(Op.XOR, zeros, 31)
        reciprocal: Value = self.op(Op.SHRU, self.op(Op.ADD, half, scale=1), down)
        negated = self.op(Op.SUB, d)
        for _ in range(2):  # from below: 2^32 - d * reciprocal is positive
            error = self.op(Op.MAD, negated, reciprocal)
            reciprocal = self.op(Op.ADD, reciprocal, c=self.op(Op.MADH, reciprocal, error))
        left = self.op(Op.MAD, negated, reciprocal, MASK)
        return negated, self.op(Op.ADD, reciprocal, c=self.op(Op.SET, left, d, cond=_AT_LEAST))


def division_type(i: Instruction) -> Type:
    """The type of an integer division.  Raises Unsupported for others."""
    kind = scalar(i, wide=True)
    if kind.kind not in ("s", "u") or kind.bits < 16:
        raise Unsupported
    return kind

"""Selection for div and rem of 64 bits by a divisor in a register: a loop.

Every round takes from what is left of the dividend as much as a 32-bit reciprocal of the divisor's leading
bits is sure of, which is all but about 2^-29 of it.  So two or three rounds do, and small quotients take one.
"""

from __future__ import annotations

from qdbg.compiler.lowering.division import INTERCEPT, SLOPE, division_type
from qdbg.compiler.lowering.ir import MASK, Branch, Jump, Value
from qdbg.compiler.lowering.magic import signed_as
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.wide import ZERO, Wide
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction


class LongDivision(Translation):
    """Division that opens blocks of its own."""

    def applies(self, i: Instruction) -> bool:
        """Whether the instruction is one of these."""
        if i.opcode not in ("div", "rem") or not i.has("u64", "s64"):
            return False
        return any(isinstance(half, str) for half in self.wide(i.operands[2], division_type(i)))

    def translate(self, i: Instruction) -> None:
        """Append the division; goes on in another block."""
        kind = division_type(i)
        n, d = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
        zero = self.math.compare(d, Cond.EQ, ZERO)
        ones = self.op(Op.SUB, zero)
        n_sign, d_sign = (self.op(Op.SHRS, x.high, 31) if kind.signed else 0 for x in (n, d))
        if kind.signed:
            n = signed_as(self.math, n, Wide(n_sign, n_sign))
            d = signed_as(self.math, d, Wide(d_sign, d_sign))
        d = Wide(self.op(Op.OR, d.low, zero), d.high)  # 0 becomes 1: the loop must end
        quotient, rest = self._divided(n, d)
        divides = i.opcode == "div"
        result, sign = (quotient, self.op(Op.XOR, n_sign, d_sign)) if divides else (rest, n_sign)
        if kind.signed:
            result = signed_as(self.math, result, Wide(sign, sign))
        self.finish(i, self.math.each(Op.OR, result, Wide(ones, ones)), kind)

    def _divided(self, n: Wide, d: Wide) -> tuple[Wide, Wide]:
        """Quotient and rest of unsigned numbers; d is not 0."""
        builder, math = self.builder, self.math
        scale, down = self._reciprocal(d)
        minus = math.negated(d)
        rest, quotient = self._variable(n), self._variable(ZERO)
        head, body, after = builder.reserve(), builder.reserve(), builder.reserve()
        builder.enter(head)
        builder.close(Branch(math.compare(rest, Cond.LT, d), Cond.EQ, 0, body, after))
        builder.enter(body)
        top = self.op(Op.MADH, rest.low, scale)
        scaled = Wide(self.op(Op.MAD, rest.high, scale, top), self.op(Op.MADH, rest.high, scale, top))
        found = math.shift_right(scaled, down, False)
        some = self.op(Op.SET, found.high, 0, cond=Cond.EQ)  # at least 1: d is not more than what is left
        found = Wide(self.op(Op.PICK, found.low, some, cond=Cond.GT), found.high)
        self._assign(quotient, math.add(quotient, found)[0])
        self._assign(rest, math.multiply(found, minus, rest))
        builder.close(Jump(head))
        builder.enter(after)
        return quotient, rest

    def _variable(self, value: Wide) -> Wide:
        """Registers that start as a value and may change."""
        variable = Wide(self.builder.temporary(), self.builder.temporary())
        self._assign(variable, value)
        return variable

    def _assign(self, variable: Wide, value: Wide) -> None:
        for register, word in zip(variable, value, strict=True):
            assert isinstance(register, str)
            self.builder.copy(register, word)

    def _reciprocal(self, d: Wide) -> tuple[Value, Value]:
        """(v, k) such that x * v >> 32 + k is x / d or a little less, for all x.

        v is 2^63 / (t + 1) or a little less, t being d's leading 32 bits: d < (t + 1) * 2^(k - 31).  Cutting
        off makes the error of a round less than 1 too large, hence the new value at most 2; t + 1 adds 2.
        """
        below = self.op(Op.ADD, self.op(Op.CLZ, d.low), addend=32)
        zeros = self.op(Op.CHOOSE, self.op(Op.CLZ, d.high), 32, below, cond=Cond.EQ)
        leading = self.math.shift_left(d, zeros).high
        value: Value = self.op(Op.SUB, self.op(Op.MADH, leading, SLOPE), addend=INTERCEPT)
        for _ in range(3):  # Newton's iteration
            error = self.op(Op.SUB, self.op(Op.MADH, leading, value))
            value = self.op(Op.ADD, self.op(Op.MADH, value, error), scale=1)
        return self.op(Op.ADD, value, addend=-8 & MASK), self.op(Op.SUB, zeros, c=63)

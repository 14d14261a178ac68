"""Selection for integer arithmetic: PTX ISA 9.7.1 (but for division and bit fields) and 9.7.2, carries."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import NEGATIVE, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, scalar, types
from qdbg.compiler.lowering.wide import ZERO, Wide
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction, Operand

#: The virtual register of the carry flag CC.CF: 0 or 1, after a subtraction the borrow.
CARRY = "CC.CF"


class Arithmetic(Translation):
    """One method per opcode; each appends the operations that leave the result in its destination."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "add": self._add,
            "addc": self._add,
            "sub": self._add,
            "subc": self._add,
            "mul": self._multiply,
            "mad": self._multiply,
            "madc": self._multiply,
            "mul24": self._multiply24,
            "mad24": self._multiply24,
            "neg": self._neg,
            "abs": self._abs,
            "min": self._min_max,
            "max": self._min_max,
            "sad": self._sad,
            "dp4a": self._dot,
            "dp2a": self._dot,
        }

    # --- sums ----------------------------------------------------------------------------------------

    def _add(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        carries = i.opcode.endswith("c")
        if i.has("sat"):
            if kind != Type("s", 32):
                raise Unsupported
            saturated = self._saturated(self.low(i.operands[1]), self.low(i.operands[2]), i.opcode == "sub")
            return self.finish(i, saturated, kind)
        subtracts = i.opcode.startswith("sub")
        if i.has("cc") or carries:
            carry: Value = CARRY if carries else 0
            return self._chain(i, kind, self._number(i.operands[1], kind), 2, subtracts, carry)
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, self.math.difference(a, b) if subtracts else self.math.add(a, b)[0], kind)
        first, second = self.low(i.operands[1]), self.low(i.operands[2])
        result = self.op(Op.SUB, second, c=first) if subtracts else self.op(Op.ADD, first, c=second)
        return self.finish(i, result, kind)

    def _number(self, operand: Operand, kind: Type) -> Wide:
        """An operand as 64 bits, of which those of its type count."""
        return self.wide(operand, kind) if kind.bits == 64 else Wide(self.low(operand))

    def _chain(self, i: Instruction, kind: Type, a: Wide, place: int, subtracts: bool, carry: Value) -> None:
        """a + or - operand `place` with a carry in; the carry out goes to the flag if `.cc` asks for it."""
        if kind.bits < 32:
            raise Unsupported
        b = self._number(i.operands[place], kind)
        if kind.bits == 64:
            result, out = (self.math.sub if subtracts else self.math.add)(a, b, carry)
            self.finish(i, result, kind)
        else:
            word, out = (self.math.sub_word if subtracts else self.math.add_word)(a.low, b.low, carry)
            self.finish(i, word, kind)
        if i.has("cc"):
            self.builder.write(CARRY, out)

    def _saturated(self, a: Value, b: Value, subtracts: bool = False) -> Value:
        """a + b or a - b clamped to the range of s32."""
        total = self.op(Op.SUB, b, c=a) if subtracts else self.op(Op.ADD, a, c=b)
        # Overflow: the sum's sign differs from those of both summands.
        other = self.op(Op.XOR, a, b) if subtracts else self.op(Op.XOR, total, b)
        overflow = self.op(Op.AND, self.op(Op.XOR, total, a), other)
        limit = self.op(Op.XOR, self.op(Op.SHRS, total, 31), 1 << 31)
        return self.op(Op.SEL, limit, total, self.op(Op.SET, overflow, 0, cond=NEGATIVE))

    # --- products ------------------------------------------------------------------------------------

    def _multiply(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        adds = i.opcode != "mul"
        if i.has("cc") or i.opcode == "madc":
            carry: Value = CARRY if i.opcode == "madc" else 0
            return self._chain(i, kind, self._product(i, kind), 3, False, carry)
        if i.has("wide"):
            if kind.bits == 64:
                raise Unsupported
            a, b = self.word(i.operands[1], kind), self.word(i.operands[2], kind)
            double = Type(kind.kind, 2 * kind.bits)
            if kind.bits == 32:
                c = self.wide(i.operands[3], double) if adds else ZERO
                return self.finish(i, self.math.product(a, b, kind.signed, c), double)
            return self.finish(i, self.op(Op.MAD, a, b, self.low(i.operands[3]) if adds else 0), double)
        if i.has("sat"):
            if kind != Type("s", 32) or not (i.has("hi") and adds):
                raise Unsupported
            total = self._saturated(self._product(i, kind).low, self.low(i.operands[3]))
            return self.finish(i, total, kind)
        if i.has("lo"):  # the product and the sum are one pass
            if kind.bits == 64:
                a64, b64 = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
                c = self.wide(i.operands[3], kind) if adds else ZERO
                return self.finish(i, self.math.multiply(a64, b64, c), kind)
            a, b = self.low(i.operands[1]), self.low(i.operands[2])
            return self.finish(i, self.op(Op.MAD, a, b, self.low(i.operands[3]) if adds else 0), kind)
        product = self._product(i, kind)
        if kind.bits == 64:
            total64 = self.math.add(product, self.wide(i.operands[3], kind))[0] if adds else product
            return self.finish(i, total64, kind)
        return self.finish(i, self.op(Op.ADD, product.low, c=self.low(i.operands[3]) if adds else 0), kind)

    def _product(self, i: Instruction, kind: Type) -> Wide:
        """The half of the product of the first two operands that `.lo` or `.hi` names."""
        if not i.has("lo", "hi"):
            raise Unsupported
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.math.multiply_high(a, b, kind.signed) if i.has("hi") else self.math.multiply(a, b)
        x, y = self.word(i.operands[1], kind), self.word(i.operands[2], kind)
        if i.has("lo"):
            return Wide(self.op(Op.MAD, x, y))
        if kind.bits == 32:
            return Wide(self.op(Op.MADS if kind.signed else Op.MADH, x, y))
        return Wide(self.op(Op.SHRU, self.op(Op.MAD, x, y), kind.bits))

    def _multiply24(self, i: Instruction) -> None:
        """The low 24 bits of each operand; `.hi` is bits 47 to 16 of the product (PTX ISA 9.7.1, mul24)."""
        kind = scalar(i)
        if kind.bits != 32 or kind.kind == "b":
            raise Unsupported
        a, b = (self._low24(self.low(operand), kind) for operand in i.operands[1:3])
        product = self.math.product(a, b, kind.signed)
        half = self.math.shift_right(product, 16, False).low if i.has("hi") else product.low
        if i.opcode == "mul24":
            return self.finish(i, half, kind)
        c = self.low(i.operands[3])
        if not i.has("sat"):
            return self.finish(i, self.op(Op.ADD, half, c=c), kind)
        if not (kind.signed and i.has("hi")):
            raise Unsupported
        return self.finish(i, self._saturated(half, c), kind)

    def _low24(self, word: Value, kind: Type) -> Value:
        if kind.signed:
            return self.op(Op.SHRS, self.op(Op.SHL, word, 8), 8)
        return self.op(Op.AND, word, 0xFFFFFF)

    # --- the rest ------------------------------------------------------------------------------------

    def _neg(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if kind.bits == 64:
            return self.finish(i, self.math.negated(self.wide(i.operands[1], kind)), kind)
        return self.finish(i, self.op(Op.SUB, self.low(i.operands[1])), kind)

    def _abs(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if kind.bits == 64:
            value = self.wide(i.operands[1], kind)
            negative = self.op(Op.SET, value.high, 0, cond=NEGATIVE)
            return self.finish(i, self.math.select(self.math.negated(value), value, negative), kind)
        word = self.word(i.operands[1], kind)
        cond = Cond.GT | Cond.SIGNED
        return self.finish(i, self.op(Op.PICK, word, self.op(Op.SUB, word), cond=cond), kind)

    def _min_max(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        cond = (Cond.LT if i.opcode == "min" else Cond.GT) | (Cond.SIGNED if kind.signed else Cond(0))
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, self.math.select(a, b, self.math.compare(a, cond, b)), kind)
        x, y = self.word(i.operands[1], kind), self.word(i.operands[2], kind)
        picked = self.op(Op.PICK, x, y, cond=cond)
        if i.has("relu"):  # nothing below 0
            picked = self.op(Op.PICK, picked, 0, cond=Cond.GT | Cond.SIGNED)
        return self.finish(i, picked, kind)

    def _sad(self, i: Instruction) -> None:
        """c + |a - b|, the difference being exact (PTX ISA 9.7.1, sad)."""
        kind = scalar(i, wide=True)
        sign = Cond.SIGNED if kind.signed else Cond(0)
        if kind.bits == 64:
            a, b, c = (self.wide(operand, kind) for operand in i.operands[1:4])
            less = self.math.compare(a, Cond.LT | sign, b)
            low, high = self.math.select(a, b, less), self.math.select(b, a, less)
            return self.finish(i, self.math.add(self.math.sub(high, low)[0], c)[0], kind)
        x, y = self.word(i.operands[1], kind), self.word(i.operands[2], kind)
        low_, high_ = self.op(Op.PICK, x, y, cond=Cond.LT | sign), self.op(Op.PICK, x, y, cond=Cond.GT | sign)
        difference = self.op(Op.SUB, low_, c=high_)
        return self.finish(i, self.op(Op.ADD, difference, c=self.low(i.operands[3])), kind)

    def _dot(self, i: Instruction) -> None:
        """c plus the products of four bytes, or of two halves of a with two bytes of b."""
        a_kind, b_kind = types(i)
        if {a_kind.bits, b_kind.bits} != {32} or "b" in (a_kind.kind, b_kind.kind):
            raise Unsupported
        a, b, total = (self.low(operand) for operand in i.operands[1:4])
        wide, first = (8, 0) if i.opcode == "dp4a" else (16, 2 if i.has("hi") else 0)
        for place in range(32 // wide):
            x = self.field(a, place * wide, Type(a_kind.kind, wide))
            y = self.field(b, (first + place) * 8, Type(b_kind.kind, 8))
            total = self.op(Op.MAD, x, y, total)
        self.finish(i, total, Type("s" if "s" in (a_kind.kind, b_kind.kind) else "u", 32))

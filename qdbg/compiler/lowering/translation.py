"""What all instruction selectors share: operands read and results written as their PTX types say.

A 16-bit or 8-bit value lives in the low bits of its register.  In a register of just that width the bits
above are arbitrary; in a wider one they are what the type's extension makes them (PTX ISA 9.4.1).  Reading
an operand extends it where the result depends on the rest.
"""

from __future__ import annotations

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import Value, high_half
from qdbg.compiler.lowering.operands import Operands
from qdbg.compiler.lowering.types import Type, Unsupported
from qdbg.compiler.lowering.wide import Wide, WideMath, constant
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.ptx.ir import TYPE_BITS, Immediate, Instruction, Operand, Pair, Register


class Translation:
    """Base of the selectors: each translates instructions with `builder`, reading `operands`."""

    def __init__(self, builder: Builder, operands: Operands):
        self.builder, self.operands = builder, operands
        self.op, self.math = builder.op, WideMath(builder)

    # --- reading -------------------------------------------------------------------------------------

    def low(self, operand: Operand) -> Value:
        """The low word of an operand; above a narrow type's bits it is arbitrary.  Raises Unsupported."""
        return self.operands.value(operand)

    def word(self, operand: Operand, kind: Type) -> Value:
        """An operand of at most 32 bits, extended to 32 as its type says."""
        return self.builder.extended(self.low(operand), kind)

    def wide(self, operand: Operand, kind: Type) -> Wide:
        """An operand extended to 64 bits as its type says."""
        if kind.bits < 64:
            return self.widened(self.word(operand, kind), kind)
        match operand:
            case Immediate(value):
                return constant(value)
            case Register(name) if name in self.operands.constants:
                return constant(self.operands.constants[name])
            case Register(name):
                held = TYPE_BITS[self.builder.ptx_registers[name]]
                if held == 64:
                    return Wide(name, high_half(name))
                return Wide(self.builder.extended(name, Type("u", held)))
        return Wide(self.low(operand))

    def widened(self, word: Value, kind: Type) -> Wide:
        """A word that already stands for a value of a type of at most 32 bits, as 64 bits."""
        return Wide(word, self.op(Op.SHRS, word, 31) if kind.signed else 0)

    # --- writing -------------------------------------------------------------------------------------

    def write(self, operand: Operand, value: Value | Wide, kind: Type) -> None:
        """A result of type `kind`: a Wide of 64 bits, else a word whose low bits count."""
        if operand == Pair(None, None):  # `_`
            return
        if not isinstance(operand, Register):
            raise Unsupported
        name = operand.name
        held = TYPE_BITS[self.builder.ptx_registers[name]]
        if held < kind.bits:
            raise Unsupported
        if not isinstance(value, Wide):
            if kind.bits < held:
                value = self.builder.extended(value, kind)
            value = self.widened(value, kind) if held == 64 else Wide(value)
        self.builder.write(name, value.low)
        if held == 64:
            self.builder.write(high_half(name), value.high)

    def finish(self, i: Instruction, value: Value | Wide, kind: Type) -> None:
        """Write an instruction's only result."""
        self.write(i.operands[0], value, kind)

    # --- parts of words ------------------------------------------------------------------------------

    def field(self, word: Value, place: int, kind: Type) -> Value:
        """The bits of a narrower type from bit `place` of a word on, extended."""
        if place + kind.bits == 32:
            return self.op(Op.SHRS if kind.signed else Op.SHRU, word, place)
        return self.builder.extended(self.op(Op.SHRU, word, place), kind)

    def packed(self, parts: list[Value], bits: int) -> Value:
        """A word made of parts whose low `bits` bits count, the first one lowest."""
        total: Value = self.builder.extended(parts[0], Type("u", bits))
        for place, part in enumerate(parts[1:], 1):
            top = (place + 1) * bits == 32  # what is above falls off by itself
            piece = part if top else self.builder.extended(part, Type("u", bits))
            total = self.op(Op.MAD, piece, 1 << place * bits, total)
        return total

"""Which PTX types the machine computes with, and why 64-bit values need only 32 bits.

Every register holds 32 bits.  A 64-bit PTX value lives there by its low half, which is exact as long
as nothing looks at the high one: the low half of a sum, product, logic operation, left shift, select or
widening depends on the low halves of the operands alone, and memory has 32-bit addresses.  What does
look higher (a 64-bit comparison, right shift, division, store, ...) is `Unsupported` and becomes a trap
where it stands.  So no value can reach an observer of bits that were not computed, and no whole-program
analysis is needed to know it: the property is one of single instructions.

A 16-bit or 8-bit value lives in the low bits of its register, the rest being arbitrary; instructions
whose result depends on the rest extend their operands first.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction


class Unsupported(Exception):
    """The machine lacks this instruction: it becomes a trap, taken when it is executed."""


@dataclass(frozen=True, slots=True)
class Type:
    """A PTX fundamental type: `kind` is one of s u b f or p(redicate), `bits` its width."""

    kind: str
    bits: int

    @property
    def signed(self) -> bool:
        """Whether comparisons and extensions are signed."""
        return self.kind == "s"


def types(instruction: Instruction) -> list[Type]:
    """The type modifiers in order."""
    return [Type(name[0], TYPE_BITS[name]) for name in instruction.types if name not in ("b128",)]


def scalar(instruction: Instruction, *, wide: bool = False, floating: bool = False) -> Type:
    """The instruction's only type: an integer of at most 32 bits.

    `wide` admits 64 bits, where the low half of the result needs low halves only; `floating` admits
    f32 (and f64 if wide), where bits are moved and not interpreted.
    """
    found = types(instruction)
    if len(found) != 1:
        raise Unsupported
    kind = found[0]
    if kind.bits > (64 if wide else 32) or (kind.kind == "f" and not floating):
        raise Unsupported
    if instruction.types[0] in ("f16x2", "bf16", "bf16x2", "f16"):
        raise Unsupported
    return kind

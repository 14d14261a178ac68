"""The PTX types that instructions work on (PTX ISA 5.2), and what is said of one that the machine lacks."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction


class Unsupported(Exception):
    """The machine lacks this instruction: it becomes a trap, taken when it is executed.

    what: what exactly is missing, "the function `malloc`"; empty where that is the instruction itself.
    """

    def __init__(self, what: str = ""):
        super().__init__(what)
        self.what = what


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
    """The type modifiers in order, without b128."""
    names = [name for name in instruction.types if name != "b128"]
    return [Type("f" if "f" in name else name[0], TYPE_BITS[name]) for name in names]


def scalar(instruction: Instruction, *, wide: bool = False, floating: bool = False) -> Type:
    """The instruction's only type: an integer of at most 32 bits.  Raises Unsupported for any other.

    `wide` admits 64 bits as well; `floating` f32 (and f64 if wide), for instructions that move bits and do
    not interpret them.
    """
    found = types(instruction)
    if len(found) != 1:
        raise Unsupported
    kind = found[0]
    if kind.bits > (64 if wide else 32) or (kind.kind == "f" and not floating):
        raise Unsupported
    if floating and instruction.types[0] in ("f16", "f16x2", "bf16", "bf16x2"):
        raise Unsupported
    return kind

"""Selection for loads and stores: PTX ISA 9.7.9, ld and st.

An access moves one or more elements, which lie one behind another and are aligned as a whole.  It becomes
accesses to single words or their parts, of which the first checks the alignment of them all.
"""

from __future__ import annotations

from qdbg.compiler.lowering.ir import Operation, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, types
from qdbg.compiler.lowering.wide import Wide
from qdbg.compiler.machine.isa import Op, Width
from qdbg.compiler.ptx.ir import Address, Instruction, Operand, Symbol, Vector

_SPACES = ("global", "shared", "const", "local", "param")
#: Modifiers of loads and stores that change nothing for a machine that has no caches and runs in order.
_HARMLESS = frozenset({
    "shared::cta", "cta", "cluster", "gpu", "sys", "nc", "volatile", "relaxed", "acquire", "release", "weak",
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "v2", "v4",
})  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4}
#: Bytes of an access -> the width whose alignment is that of the whole.
_WHOLE = {1: Width.BYTE, 2: Width.HALF, 4: Width.WORD, 8: Width.PAIR, 16: Width.QUAD}


class Memory(Translation):
    """Loads and stores of 8 to 128 bits in at most four elements."""

    def load(self, i: Instruction) -> None:
        """ld, ldu."""
        kind, elements = self._elements(i, i.operands[0])
        address = i.operands[1]
        if (
            i.has("param", "param::entry")
            and isinstance(address, Address)
            and isinstance(address.base, Symbol)
        ):
            values: list[Value | Wide] = self._parameters(address, kind, len(elements))
        else:
            values = self._loaded(i, kind, len(elements))
        for element, value in zip(elements, values, strict=True):
            if element is not None:
                self.write(element, value, kind)

    def store(self, i: Instruction) -> None:
        """st."""
        kind, elements = self._elements(i, i.operands[1])
        base, offset, shared = self._address(i, i.operands[0])
        first = _WHOLE[len(elements) * kind.bits // 8]
        present = [element for element in elements if element is not None]
        if len(present) != len(elements):
            raise Unsupported
        for place, word in enumerate(self._words(present, kind)):
            width, at = (first if place == 0 else Width.WORD), offset + 4 * place
            if width in (Width.BYTE, Width.HALF):
                self.builder.modify(Op.INSERT, base, at, b=word, width=width, shared=shared)
            else:
                self.builder.emit(
                    Operation(Op.ST, None, base, word, addend=at & 0xFFFFFFFF, width=width, shared=shared)
                )

    # --- what is moved -------------------------------------------------------------------------------

    def _elements(self, i: Instruction, operand: Operand) -> tuple[Type, tuple[Operand | None, ...]]:
        """The type of an element, and the elements."""
        if set(i.modifiers) - _HARMLESS - {*_SPACES, "param::entry", *i.types}:
            raise Unsupported
        if i.has("b128"):
            raise Unsupported
        (kind,) = types(i)
        count = next((_VECTORS[m] for m in i.modifiers if m in _VECTORS), 1)
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        if len(elements) != count:
            raise ValueError
        if count * kind.bits // 8 not in _WHOLE:
            raise Unsupported
        return kind, elements

    def _address(self, i: Instruction, operand: Operand) -> tuple[Value, int, bool]:
        """Base and offset, and whether the access must stay within shared memory."""
        named = next((s for s in _SPACES for m in i.modifiers if m.split("::")[0] == s), "generic")
        space = self.operands.space(operand, named)
        base, offset = self.operands.address(operand, space)
        return base, offset, space == "shared"

    # --- loads ---------------------------------------------------------------------------------------

    def _loaded(self, i: Instruction, kind: Type, count: int) -> list[Value | Wide]:
        base, offset, shared = self._address(i, i.operands[1])
        size = kind.bits // 8
        narrow = {1: Width.BYTE, 2: Width.HALF}.get(size, Width.WORD)

        def part(at: int) -> Value:
            width = _WHOLE[count * size] if at == 0 else narrow
            operation = Operation(
                Op.LD,
                self.builder.temporary(),
                base,
                addend=offset + at & 0xFFFFFFFF,
                width=width,
                signed=kind.signed,
                shared=shared,
                volatile=i.has("volatile", "relaxed", "acquire"),
            )
            self.builder.emit(operation)
            assert operation.dst is not None
            if at == 0 and width != narrow and size < 4:  # a whole word that begins with the first element
                return self.builder.extended(operation.dst, kind)
            return operation.dst

        if size < 8:
            return [part(size * n) for n in range(count)]
        return [Wide(part(size * n), part(size * n + 4)) for n in range(count)]

    def _parameters(self, operand: Operand, kind: Type, count: int) -> list[Value | Wide]:
        """Elements of the parameter space, whose words are uniform registers from the start."""
        found: list[Value | Wide] = []
        for n in range(count):
            word, byte = self.operands.parameter(operand, n * kind.bits // 8)
            if byte % (min(kind.bits, 32) // 8):
                raise Unsupported
            if kind.bits == 64:
                found.append(Wide(word, self.operands.parameter(operand, n * 8 + 4)[0]))
            else:
                found.append(word if kind.bits == 32 else self.field(word, 8 * byte, kind))
        return found

    # --- stores --------------------------------------------------------------------------------------

    def _words(self, elements: list[Operand], kind: Type) -> list[Value]:
        """What is stored, as words; the last one may be a byte or a half."""
        if kind.bits == 64:
            return [half for element in elements for half in self.wide(element, kind)]
        parts = [self.low(element) for element in elements]
        if kind.bits == 32 or len(parts) == 1:
            return parts
        each = 32 // kind.bits
        return [self.packed(parts[at : at + each], kind.bits) for at in range(0, len(parts), each)]

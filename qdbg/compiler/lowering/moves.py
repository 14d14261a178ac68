"""Selection for comparison and selection (PTX ISA 9.7.6), moves and conversions (9.7.9)."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.bits import LOGIC
from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, scalar, types
from qdbg.compiler.lowering.wide import Wide, constant
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction, Operand, Pair, Register, Vector

_COMPARISONS = {
    "eq": Cond.EQ,
    "ne": Cond.LT | Cond.GT,
    "lt": Cond.LT,
    "le": Cond.LT | Cond.EQ,
    "gt": Cond.GT,
    "ge": Cond.GT | Cond.EQ,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_PREDICATE = Type("p", 1)


class Moves(Translation):
    """One method per opcode."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "setp": self._setp,
            "set": self._set,
            "selp": self._selp,
            "slct": self._slct,
            "mov": self._mov,
            "cvt": self._cvt,
        }

    # --- comparison and selection --------------------------------------------------------------------

    def _setp(self, i: Instruction) -> None:
        first = i.operands[0]
        pair = (
            first if isinstance(first, Pair) else Pair(first if isinstance(first, Register) else None, None)
        )
        name, kind = self._comparison(i)
        # Both results are computed before either is written: the combining predicate may be one of them.
        outcomes = []
        for target, condition in ((pair.first, name), (pair.second, name ^ (Cond.LT | Cond.EQ | Cond.GT))):
            if target is not None:
                outcomes.append((target, self._combined(i, self._compared(i, condition, kind))))
        for target, outcome in outcomes:
            self.write(target, outcome, _PREDICATE)

    def _set(self, i: Instruction) -> None:
        to, *others = types(i)
        if to.bits != 32 or to.kind == "b" or len(others) != 1:
            raise Unsupported
        outcome = self._combined(i, self._compared(i, *self._comparison(i)))
        if to.kind == "f":
            return self.finish(i, self.op(Op.MAD, outcome, 0x3F800000), to)  # 1.0f
        return self.finish(i, self.op(Op.SUB, outcome), to)

    def _comparison(self, i: Instruction) -> tuple[Cond, Type]:
        kind = types(i)[-1]
        if kind.kind in ("f", "p"):
            raise Unsupported
        name = next((m for m in i.modifiers if m in _COMPARISONS or m in _UNSIGNED_NAMES), None)
        if name is None:
            raise Unsupported
        signed = Cond.SIGNED if kind.signed and name in _COMPARISONS else Cond(0)
        return _COMPARISONS[_UNSIGNED_NAMES.get(name, name)] | signed, kind

    def _compared(self, i: Instruction, cond: Cond, kind: Type) -> Value:
        if kind.bits == 64:
            return self.math.compare(self.wide(i.operands[1], kind), cond, self.wide(i.operands[2], kind))
        return self.op(Op.SET, self.word(i.operands[1], kind), self.word(i.operands[2], kind), cond=cond)

    def _combined(self, i: Instruction, outcome: Value) -> Value:
        if len(i.operands) == 3:
            return outcome
        logic = next(LOGIC[m] for m in i.modifiers if m in LOGIC)
        return self.op(logic, outcome, self.low(i.operands[3]))

    def _selp(self, i: Instruction) -> None:
        kind = scalar(i, wide=True, floating=True)
        self._select(i, kind, self.low(i.operands[3]))

    def _select(self, i: Instruction, kind: Type, chooser: Value) -> None:
        if kind.bits == 64:
            a, b = self.wide(i.operands[1], kind), self.wide(i.operands[2], kind)
            return self.finish(i, self.math.select(a, b, chooser), kind)
        return self.finish(
            i, self.op(Op.SEL, self.low(i.operands[1]), self.low(i.operands[2]), chooser), kind
        )

    def _slct(self, i: Instruction) -> None:
        """a where c >= 0, else b; -0.0 counts as 0 and NaN as negative (PTX ISA 9.7.6, slct)."""
        kind, tested = types(i)
        c = self.low(i.operands[3])
        if tested == Type("s", 32):
            chooser = self.op(Op.SET, c, 0, cond=Cond.GT | Cond.EQ | Cond.SIGNED)
        elif tested == Type("f", 32):
            positive = self.op(Op.SET, c, 0x7F800000, cond=Cond.LT | Cond.EQ)
            zeros = 1 << 23 if i.has("ftz") else 1  # .ftz takes negative subnormals for -0.0
            zero = self.op(Op.SET, self.op(Op.ADD, c, addend=1 << 31), zeros, cond=Cond.LT)
            chooser = self.op(Op.OR, positive, zero)
        else:
            raise Unsupported
        self._select(i, kind, chooser)

    # --- moves ---------------------------------------------------------------------------------------

    def _mov(self, i: Instruction) -> None:
        kind = scalar(i, wide=True, floating=True)
        target, source = i.operands
        if isinstance(target, Vector):
            return self._unpack(target.elements, source, kind)
        if isinstance(source, Vector):
            return self._pack(i, source.elements, kind)
        return self.finish(i, self.wide(source, kind) if kind.bits == 64 else self.low(source), kind)

    def _pack(self, i: Instruction, elements: tuple[Operand | None, ...], kind: Type) -> None:
        """The first element is the least significant (PTX ISA 9.7.9, mov)."""
        bits = kind.bits // len(elements)
        parts = [self.low(element) for element in elements if element is not None]
        if bits == 32:
            return self.finish(i, Wide(*parts), kind)
        each = 32 // bits
        words = [self.packed(parts[at : at + each], bits) for at in range(0, len(parts), each)]
        return self.finish(i, Wide(*words) if kind.bits == 64 else words[0], kind)

    def _unpack(self, elements: tuple[Operand | None, ...], source: Operand, kind: Type) -> None:
        bits = kind.bits // len(elements)
        whole = self.wide(source, kind) if kind.bits == 64 else Wide(self.low(source))
        part = Type("b", bits)
        found = []
        for place, element in enumerate(elements):
            word, at = divmod(place * bits, 32)
            if element is not None:
                found.append((element, self.field(whole[word], at, part)))
        for element, value in found:
            self.write(element, value, part)

    # --- conversions ---------------------------------------------------------------------------------

    def _cvt(self, i: Instruction) -> None:
        """The source's type extends, the destination's truncates, or clamps with `.sat`."""
        to, source = types(i)
        if "f" in (to.kind, source.kind):
            raise Unsupported
        if source.bits == 64:
            whole = self.wide(i.operands[1], source)
            if i.has("sat"):
                whole = self._clamped(whole, source, to)
            return self.finish(i, whole if to.bits == 64 else whole.low, to)
        word = self.low(i.operands[1])
        if i.has("sat") or to.bits > source.bits or (to.bits == source.bits and to.signed != source.signed):
            word = self.builder.extended(word, source)
        if i.has("sat"):
            word = self._clamped_word(word, source, to)
        return self.finish(i, self.widened(word, source) if to.bits == 64 else word, to)

    def _clamped_word(self, word: Value, source: Type, to: Type) -> Value:
        low, high = _range(to)
        least, most = _range(source)
        sign = Cond.SIGNED if source.signed else Cond(0)
        if least < low:
            word = self.op(Op.PICK, word, low & MASK, cond=Cond.GT | sign)
        if most > high:
            word = self.op(Op.PICK, word, high & MASK, cond=Cond.LT | sign)
        return word

    def _clamped(self, value: Wide, source: Type, to: Type) -> Wide:
        low, high = _range(to)
        least, most = _range(source)
        sign = Cond.SIGNED if source.signed else Cond(0)
        for limit, beyond, order in ((low, least < low, Cond.GT), (high, most > high, Cond.LT)):
            if beyond:
                bound = constant(limit)
                value = self.math.select(value, bound, self.math.compare(value, order | sign, bound))
        return value


def _range(kind: Type) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if kind.signed:
        return -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1
    return 0, (1 << kind.bits) - 1

"""Selection for atomic operations: PTX ISA 9.7.13, atom and red.

Lanes execute an instruction one after another, so what one operation of the ALU computes is atomic as it is:
a HOLD and its other half.  64-bit values take two such pairs; each hands the old words on in the order of the
lanes, so that together they say what one of 64 bits would.  Whatever is not done word by word runs in a loop,
for one lane at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import LANE, MASK, Operation, Value
from qdbg.compiler.lowering.types import Type, Unsupported, types
from qdbg.compiler.lowering.warp import Collective
from qdbg.compiler.lowering.wide import Wide
from qdbg.compiler.machine.isa import NEVER, Cond, Op, Width
from qdbg.compiler.ptx.ir import Instruction

_BITWISE = {"and": Op.AND, "or": Op.OR, "xor": Op.XOR}
_ORDER = {"min": Cond.LT, "max": Cond.GT}
#: The types that an operation has and that the machine does.
_TYPES = {
    "add": ("u32", "s32", "u64"), "inc": ("u32",), "dec": ("u32",), "cas": ("b16", "b32", "b64"),
    "exch": ("b32", "b64"), **dict.fromkeys(_ORDER, ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(_BITWISE, ("b32", "b64")),
}  # fmt: skip
_SPACES = ("global", "shared")
#: Memory is sequentially consistent.
_HARMLESS = ("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys")


class Atomics(Collective):
    """atom and red."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"atom": self._atomic, "red": self._atomic}

    def _atomic(self, i: Instruction) -> None:
        returns = i.opcode == "atom"
        target, *operands = i.operands[returns:]
        name = next((m for m in i.modifiers if m in _TYPES), "")
        named = next((m.split("::")[0] for m in i.modifiers if m.split("::")[0] in _SPACES), "generic")
        unknown = {m for m in i.modifiers if m.split("::")[0] not in _SPACES} - {name, *_HARMLESS, *i.types}
        if unknown or len(i.types) != 1 or i.types[0] not in _TYPES.get(name, ()):
            raise Unsupported
        (kind,) = types(i)
        space = self.operands.space(target, named)
        base, offset = self.operands.address(target, space)
        place = _Place(self, base, offset, space == "shared")
        values = [self.wide(o, kind) if kind.bits == 64 else Wide(self.low(o)) for o in operands]
        old = (
            self._pair(place, name, kind, values)
            if kind.bits == 64
            else self._word(place, name, kind, values)
        )
        if returns:
            self.write(i.operands[0], old if kind.bits == 64 else old.low, kind)

    # --- words ---------------------------------------------------------------------------------------

    def _word(self, place: _Place, name: str, kind: Type, values: list[Wide]) -> Wide:
        x = values[0].low
        if name in ("inc", "dec"):
            return Wide(self._alone(lambda: self._counted(place, name, x))[0])
        if kind.bits == 16:
            return Wide(self._alone(lambda: self._swapped_half(place, values, kind))[0])
        if name == "cas":
            return Wide(place.modify(Op.CHOOSE, b=x, c=values[1].low, cond=Cond.EQ))
        if name in _ORDER:
            sign = Cond.SIGNED if kind.signed else Cond(0)
            return Wide(place.modify(Op.PICK, b=x, cond=_ORDER[name] | sign))
        return Wide(self._single(place, name, x))

    def _single(self, place: _Place, name: str, x: Value, at: int = 0, width: Width = Width.WORD) -> Value:
        """Operations that treat every word of a value alike, and addition."""
        if name == "exch":
            return place.modify(Op.ADD, at, width, a=x)
        if name == "add":
            return place.modify(Op.ADD, at, width, c=x)
        return place.modify(_BITWISE[name], at, width, b=x)

    def _counted(self, place: _Place, name: str, limit: Value) -> list[Value]:
        """inc: 0 from the limit on; dec: the limit instead of what is not below it, as 0 - 1 is not."""
        old = place.load()
        next_ = self.op(Op.ADD, old, addend=1 if name == "inc" else MASK)
        if name == "inc":
            new = self.op(Op.SEL, next_, 0, self.op(Op.SET, old, limit, cond=Cond.LT))
        else:
            new = self.op(Op.PICK, next_, limit, cond=Cond.LT)
        place.store(new)
        return [old]

    def _swapped_half(self, place: _Place, values: list[Wide], kind: Type) -> list[Value]:
        old = place.load(width=Width.HALF)
        compare = self.builder.extended(values[0].low, kind)
        new = self.op(Op.CHOOSE, old, compare, values[1].low, cond=Cond.EQ)
        place.modify(Op.INSERT, width=Width.HALF, b=new)
        return [old]

    # --- pairs of words ------------------------------------------------------------------------------

    def _pair(self, place: _Place, name: str, kind: Type, values: list[Wide]) -> Wide:
        x = values[0]
        if name in ("cas", *_ORDER):
            return Wide(*self._alone(lambda: self._swapped_pair(place, name, kind, values)))
        low = self._single(place, name, x.low, 0, Width.PAIR)
        high = x.high
        if name == "add":
            high = self.op(Op.ADD, x.high, c=self.op(Op.ADDH, low, c=x.low))
        return Wide(low, self._single(place, name, high, 4))

    def _swapped_pair(self, place: _Place, name: str, kind: Type, values: list[Wide]) -> list[Value]:
        old = Wide(place.load(0, Width.PAIR), place.load(4))
        if name == "cas":
            swap, new = self.math.compare(old, Cond.EQ, values[0]), values[1]
        else:
            order = Cond.GT if name == "min" else Cond.LT
            new = values[0]
            swap = self.math.compare(old, order | (Cond.SIGNED if kind.signed else Cond(0)), new)
        for at, word in enumerate(self.math.select(new, old, swap)):
            place.store(word, 4 * at)
        return list(old)

    # --- one lane at a time --------------------------------------------------------------------------

    def _alone(self, body: Callable[[], list[Value]]) -> list[Value]:
        """Run `body` for each lane by itself; the results survive the loop."""
        found: list[Value] = []
        self.for_each([LANE], lambda: found.extend(body()))
        return found


class _Place:
    """A word of memory, or several that lie one behind another."""

    def __init__(self, at: Atomics, base: Value, offset: int, shared: bool):
        self.builder = at.builder
        self.base, self.offset, self.shared = base, offset, shared

    def modify(
        self, op: Op, at: int = 0, width: Width = Width.WORD, *, a: Value | None = None, b: Value = 0,
        c: Value = 0, cond: Cond = NEVER,
    ) -> str:  # fmt: skip
        """See `Builder.modify`; `at` is in bytes."""
        return self.builder.modify(
            op, self.base, self.offset + at & MASK, a=a, b=b, c=c, cond=cond, width=width, shared=self.shared
        )

    def load(self, at: int = 0, width: Width = Width.WORD) -> Value:
        """The word at byte `at`."""
        found = self.builder.temporary()
        self.builder.emit(self._access(Op.LD, found, 0, at, width))
        return found

    def store(self, word: Value, at: int = 0) -> None:
        """Replace the word at byte `at`."""
        self.builder.emit(self._access(Op.ST, None, word, at))

    def _access(self, op: Op, dst: str | None, b: Value, at: int, width: Width = Width.WORD) -> Operation:
        address = self.offset + at & MASK
        return Operation(
            op, dst, self.base, b, addend=address, width=width, shared=self.shared, volatile=op is Op.LD
        )

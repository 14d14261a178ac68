"""Instruction selection for values: PTX ISA 9.7.1 integer arithmetic, 9.7.6 comparison, 9.7.8 logic and
shift, 9.7.9 moves and conversions."""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import MASK, Value
from qdbg.compiler.lowering.narrowing import Type, Unsupported, scalar, types
from qdbg.compiler.lowering.operands import Operands
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Immediate, Instruction, Operand, Pair, Register

_COMPARISONS = {
    "eq": Cond.EQ,
    "ne": Cond.LT | Cond.GT,
    "lt": Cond.LT,
    "le": Cond.LT | Cond.EQ,
    "gt": Cond.GT,
    "ge": Cond.GT | Cond.EQ,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_LOGIC = {"and": Op.AND, "or": Op.OR, "xor": Op.XOR}


class Arithmetic:
    """One method per opcode; each appends the operations that leave the result in its destination."""

    def __init__(self, builder: Builder, operands: Operands):
        self.builder, self.operands = builder, operands

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "add": self._add,
            "sub": self._sub,
            "mul": self._mul,
            "mad": self._mul,
            "neg": self._neg,
            "abs": self._abs,
            "min": self._min_max,
            "max": self._min_max,
            "and": self._logic,
            "or": self._logic,
            "xor": self._logic,
            "not": self._not,
            "cnot": self._cnot,
            "lop3": self._lop3,
            "shl": self._shl,
            "shr": self._shr,
            "setp": self._setp,
            "set": self._set,
            "selp": self._selp,
            "mov": self._mov,
            "cvt": self._cvt,
            "cvta": self._cvta,
        }

    def _value(self, operand: Operand) -> Value:
        return self.operands.value(operand)

    def _extended(self, operand: Operand, kind: Type) -> Value:
        return self.builder.extended(self._value(operand), kind)

    # --- arithmetic --------------------------------------------------------------------------------

    def _add(self, i: Instruction) -> None:
        dst, a, b = self._plain(i)
        self.builder.op(Op.ADD, a, c=b, dst=dst)

    def _sub(self, i: Instruction) -> None:
        dst, a, b = self._plain(i)
        self.builder.op(Op.SUB, b, c=a, dst=dst)

    def _plain(self, i: Instruction) -> tuple[str, Value, Value]:
        """Destination and operands of an operation whose low half needs low halves only."""
        scalar(i, wide=True)
        if i.has("sat", "cc") or i.opcode in ("addc", "subc"):
            raise Unsupported
        return destination(i), self._value(i.operands[1]), self._value(i.operands[2])

    def _mul(self, i: Instruction) -> None:
        kind = scalar(i, wide=True)
        if i.has("hi", "sat", "cc") or not i.has("lo", "wide") or (i.has("wide") and kind.bits == 64):
            raise Unsupported
        read = kind if i.has("wide") else Type(kind.kind, 32)
        a, b = self._extended(i.operands[1], read), self._extended(i.operands[2], read)
        c = self._value(i.operands[3]) if i.opcode == "mad" else 0
        self.builder.op(Op.MAD, a, b, c, dst=destination(i))

    def _neg(self, i: Instruction) -> None:
        scalar(i, wide=True)
        self.builder.op(Op.SUB, self._value(i.operands[1]), dst=destination(i))

    def _abs(self, i: Instruction) -> None:
        value = self._extended(i.operands[1], scalar(i))
        self._pick(i, Cond.GT | Cond.SIGNED, value, self.builder.op(Op.SUB, value))

    def _min_max(self, i: Instruction) -> None:
        kind = scalar(i)
        if i.has("relu"):
            raise Unsupported
        cond = (Cond.LT if i.opcode == "min" else Cond.GT) | (Cond.SIGNED if kind.signed else Cond(0))
        self._pick(i, cond, self._extended(i.operands[1], kind), self._extended(i.operands[2], kind))

    def _pick(self, i: Instruction, cond: Cond, a: Value, b: Value) -> None:
        self.builder.op(Op.PICK, a, b, cond=cond, dst=destination(i))

    # --- logic and shifts --------------------------------------------------------------------------

    def _logic(self, i: Instruction) -> None:
        scalar(i, wide=True)
        a, b = self._value(i.operands[1]), self._value(i.operands[2])
        self.builder.op(_LOGIC[i.opcode], a, b, dst=destination(i))

    def _not(self, i: Instruction) -> None:
        ones = 1 if scalar(i, wide=True).kind == "p" else MASK
        self.builder.op(Op.XOR, self._value(i.operands[1]), ones, dst=destination(i))

    def _cnot(self, i: Instruction) -> None:
        value = self._extended(i.operands[1], Type("b", scalar(i).bits))
        self.builder.op(Op.SET, value, 0, cond=Cond.EQ, dst=destination(i))

    def _lop3(self, i: Instruction) -> None:
        """f(a, b, c) = f0 ^ (c & (f0 ^ f1)), where f0 and f1 are functions of a and b for c = 0 and 1.

        The table's index has a as its highest bit and c as its lowest.
        """
        table = i.operands[4]
        if len(i.operands) != 5 or not isinstance(table, Immediate):
            raise Unsupported
        a, b, c = (self._value(o) for o in i.operands[1:4])
        low = sum((table.value >> (2 * k) & 1) << k for k in range(4))
        high = sum((table.value >> (2 * k + 1) & 1) << k for k in range(4))
        masked = self.builder.op(Op.AND, self._function(low ^ high, a, b), c)
        self.builder.op(Op.XOR, masked, self._function(low, a, b), dst=destination(i))

    def _function(self, table: int, a: Value, b: Value) -> Value:
        """A function of two values; bit 2*x + y of the table is f(x, y)."""
        op = self.builder.op
        if table & 1:
            return self.builder.complement(self._function(table ^ 0xF, a, b)) if table != 0xF else MASK
        match table:
            case 0b0000:
                return 0
            case 0b1100:
                return a
            case 0b1010:
                return b
            case 0b1000:
                return op(Op.AND, a, b)
            case 0b0110:
                return op(Op.XOR, a, b)
            case 0b1110:
                return op(Op.OR, a, b)
            case 0b0100:
                return op(Op.AND, a, self.builder.complement(b))
            case _:
                return op(Op.AND, self.builder.complement(a), b)

    def _shl(self, i: Instruction) -> None:
        scalar(i, wide=True)
        a, amount = self._value(i.operands[1]), self._value(i.operands[2])
        self.builder.op(Op.SHL, a, amount, dst=destination(i))

    def _shr(self, i: Instruction) -> None:
        kind = scalar(i)
        value, amount = self._extended(i.operands[1], kind), self._value(i.operands[2])
        self.builder.op(Op.SHRS if kind.signed else Op.SHRU, value, amount, dst=destination(i))

    # --- comparison and selection ------------------------------------------------------------------

    def _setp(self, i: Instruction) -> None:
        first = i.operands[0]
        pair = first if isinstance(first, Pair) else Pair(Register(destination(i)), None)
        a, cond, b = self._comparison(i)
        # Both results are computed before either is written: the combining predicate may be one of them.
        outcomes = []
        for target, condition in ((pair.first, cond), (pair.second, cond ^ (Cond.LT | Cond.EQ | Cond.GT))):
            if target is not None:
                alone = len(i.operands) == 3 and pair.second is None
                dst = target.name if alone else None
                outcome = self.builder.op(Op.SET, a, b, cond=condition, dst=dst)
                outcomes.append((target.name, self._combined(i, outcome)))
        for name, outcome in outcomes:
            if outcome != name:
                self.builder.copy(name, outcome)

    def _set(self, i: Instruction) -> None:
        to, *_ = types(i)
        if to.kind == "f" or to.bits != 32 or len(types(i)) != 2:
            raise Unsupported
        a, cond, b = self._comparison(i)
        outcome = self._combined(i, self.builder.op(Op.SET, a, b, cond=cond))
        self.builder.op(Op.SUB, outcome, dst=destination(i))

    def _comparison(self, i: Instruction) -> tuple[Value, Cond, Value]:
        kind = types(i)[-1]
        if kind.kind in ("f", "p") or kind.bits == 64:
            raise Unsupported
        name = next((m for m in i.modifiers if m in _COMPARISONS or m in _UNSIGNED_NAMES), None)
        if name is None:
            raise Unsupported
        signed = Cond.SIGNED if kind.signed and name in _COMPARISONS else Cond(0)
        cond = _COMPARISONS[_UNSIGNED_NAMES.get(name, name)] | signed
        return self._extended(i.operands[1], kind), cond, self._extended(i.operands[2], kind)

    def _combined(self, i: Instruction, outcome: str) -> str:
        if len(i.operands) == 3:
            return outcome
        logic = next(_LOGIC[m] for m in i.modifiers if m in _LOGIC)
        return self.builder.op(logic, outcome, self._value(i.operands[3]))

    def _selp(self, i: Instruction) -> None:
        scalar(i, wide=True, floating=True)
        a, b, chooser = (self._value(o) for o in i.operands[1:4])
        self.builder.op(Op.SEL, a, b, chooser, dst=destination(i))

    # --- moves and conversions ---------------------------------------------------------------------

    def _mov(self, i: Instruction) -> None:
        scalar(i, wide=True, floating=True)
        self.builder.copy(destination(i), self._value(i.operands[1]))

    def _cvt(self, i: Instruction) -> None:
        if len(types(i)) != 2 or i.has("sat"):
            raise Unsupported
        to, source = types(i)
        if "f" in (to.kind, source.kind):
            raise Unsupported
        dst = destination(i)
        value = self._value(i.operands[1])
        if source.bits < to.bits or (source.bits == to.bits < 32 and source.signed != to.signed):
            value = self.builder.extended(value, source)
        held = self.builder.ptx_registers[dst]
        if to.bits < 32 and not (to.bits == 16 and held.endswith("16")):
            value = self.builder.extended(value, to)
        self.builder.copy(dst, value)

    def _cvta(self, i: Instruction) -> None:
        if i.has("local", "param"):
            raise Unsupported
        value = self._value(i.operands[1])
        shift = self.operands.geometry.shared_base if i.has("shared") else 0
        self.builder.op(Op.ADD, value, addend=(-shift if i.has("to") else shift) & MASK, dst=destination(i))


def destination(i: Instruction) -> str:
    """The register written.  Raises Unsupported for vectors and pairs."""
    first = i.operands[0]
    if not isinstance(first, Register):
        raise Unsupported
    return first.name

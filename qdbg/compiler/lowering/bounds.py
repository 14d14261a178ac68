"""How many bits values take, and what needs no computing because of it.

Extensions of loaded bytes, high halves of small products, signs of what cannot be negative: selection writes
them all, and a bound on every register tells which change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from qdbg.compiler.lowering.ir import LANE, NEGATIVE, Blocks, Operation, Value, copy_of
from qdbg.compiler.machine.alu import BYTES, signed
from qdbg.compiler.machine.isa import PURE_OPS, Cond, Op, Width


class Bound(NamedTuple):
    """A set of words: all are below 2^unsigned, and as signed numbers all fit `signed` bits."""

    unsigned: int = 32
    signed: int = 32


_ANYTHING = Bound()
_NOTHING = Bound(0, 1)  #: the set {0}, and where iteration starts
_LANE_NUMBER = Bound(7, 8)


def use_bounds(blocks: Blocks) -> None:
    """Turn operations into copies where their operands are too small for them to matter."""
    bound = _bounds(blocks)
    for block in blocks:
        block.operations = [_improved(operation, bound) for operation in block.operations]


def _bounds(blocks: Blocks) -> Callable[[Value], Bound]:
    """The bound of each value: of a register the union over its definitions, to a fixed point."""
    definitions = [o for block in blocks for o in block.operations if o.dst is not None]
    found = {o.dst: _NOTHING for o in definitions}

    def bound(value: Value) -> Bound:
        if isinstance(value, str):
            return found.get(value, _ANYTHING)
        if isinstance(value, int):
            number = signed(value)
            return Bound(value.bit_length(), (number if number >= 0 else ~number).bit_length() + 1)
        return _LANE_NUMBER if value == LANE else _ANYTHING

    changed = True
    while changed:
        changed = False
        for operation in definitions:
            old = found[operation.dst]
            new = _union(old, _result(operation, bound))
            if new != old:
                found[operation.dst], changed = new, True
    return bound


def _union(a: Bound, b: Bound) -> Bound:
    return Bound(max(a.unsigned, b.unsigned), max(a.signed, b.signed))


def _below(bits: int) -> Bound:
    """The words below 2^bits."""
    bits = min(bits, 32)
    return Bound(bits, min(bits + 1, 32))


def _result(o: Operation, bound: Callable[[Value], Bound]) -> Bound:
    a, b, c = (bound(value) for value in o.sources)
    match o.op:
        case Op.ADD if o.copied is not None:
            return bound(o.copied)
        case Op.ADD:
            return _below(_sum(a.unsigned + o.scale, c.unsigned, o.addend.bit_length()))
        case Op.ADDH:
            return _below(max(_sum(a.unsigned + o.scale, c.unsigned, o.addend.bit_length()) - 32, 0))
        case Op.MAD | Op.MADH | Op.MADS if o.op is not Op.MADS or max(a.unsigned, b.unsigned) < 32:
            product = a.unsigned + b.unsigned if a.unsigned and b.unsigned else 0
            bits = _sum(product, c.unsigned, o.addend.bit_length())
            return _below(bits if o.op is Op.MAD else max(bits - 32, 0))
        case Op.AND:
            return _below(min(a.unsigned, b.unsigned))
        case Op.OR | Op.XOR:
            return _union(a, b)
        case Op.SHL if isinstance(o.b, int):
            return _below(a.unsigned + o.b if a.unsigned else 0)
        case Op.SHRU | Op.SHRS if o.op is Op.SHRU or a.unsigned < 32:
            return _below(max(a.unsigned - (o.b if isinstance(o.b, int) else 0), 0))
        case Op.SHRS:
            return Bound(32, max(a.signed - (o.b if isinstance(o.b, int) else 0), 1))
        case Op.SET:
            return _below(1)
        case Op.POPC | Op.CLZ:
            return _below(6)
        case Op.SX8 | Op.SX16:
            return Bound(32, min(a.signed, 8 if o.op is Op.SX8 else 16))
        case Op.PICK if o.cond in (Cond.LT, Cond.LT | Cond.EQ):
            return _below(min(a.unsigned, b.unsigned))
        case Op.PICK | Op.SEL:
            return _union(a, b)
        case Op.CHOOSE:
            return _union(a, c)
        case Op.LD if o.width in (Width.BYTE, Width.HALF):
            bits = 8 * BYTES[o.width]
            return Bound(32, bits) if o.signed else _below(bits)
    return _ANYTHING


def _sum(*bits: int) -> int:
    """Bits of a sum of two or three numbers that have so many."""
    terms = [n for n in bits if n]
    return max(terms, default=0) + max(len(terms) - 1, 0)


def _improved(o: Operation, bound: Callable[[Value], Bound]) -> Operation:
    if o.op not in PURE_OPS or o.held or o.once or o.dst is None or o.copied is not None:
        return o
    a, zero = bound(o.a), _result(o, bound).unsigned == 0
    negative = o.op is Op.SET and o.b == 0 and o.cond == NEGATIVE and a.unsigned < 32
    if zero or negative:
        return copy_of(o.dst, 0, o.ptx, o.result)
    covered = o.op is Op.AND and isinstance(o.b, int) and ((1 << a.unsigned) - 1) & ~o.b == 0
    extended = o.op in (Op.SX8, Op.SX16) and a.signed <= (8 if o.op is Op.SX8 else 16)
    if covered or extended:
        return copy_of(o.dst, o.a, o.ptx, o.result)
    if o.op is Op.SHRS and a.unsigned < 32:
        return replace(o, op=Op.SHRU)
    return o

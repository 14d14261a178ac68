"""What the machine's arithmetic computes, on 32-bit integers: the emulator's side of `execute`."""

from __future__ import annotations

from qdbg.compiler.machine.isa import Cond, Op

MASK = 0xFFFFFFFF


def signed(value: int) -> int:
    """A 32-bit pattern as a two's complement number."""
    return value - (1 << 32) if value >> 31 else value


def holds(cond: int, a: int, b: int) -> bool:
    """Whether `a cond b`; `cond` is any union of LT, EQ and GT, ordered as SIGNED says."""
    if cond & Cond.SIGNED:
        a, b = signed(a), signed(b)
    order = Cond.LT if a < b else Cond.EQ if a == b else Cond.GT
    return bool(cond & order)


def product_sum(op: Op, a: int, b: int, c: int, e: int, scale: int) -> int:
    """P = A*B + C + E modulo 2^32, where ADD, LD, ST and SUB bring a B of their own."""
    if op in (Op.ADD, Op.LD, Op.ST):
        b = 1 << scale
    elif op is Op.SUB:
        b = MASK
    return (a * b + c + e) & MASK


def evaluate(op: Op, a: int, b: int, c: int = 0, e: int = 0, scale: int = 0, cond: int = 0) -> int:
    """The 32-bit result of a value operation other than LD; operands are unsigned 32-bit patterns."""
    match op:
        case Op.MAD | Op.ADD | Op.SUB:
            return product_sum(op, a, b, c, e, scale)
        case Op.AND:
            return a & b
        case Op.OR:
            return a | b
        case Op.XOR:
            return a ^ b
        case Op.SHL:
            return (a << b) & MASK if b < 32 else 0
        case Op.SHRU:
            return a >> b if b < 32 else 0
        case Op.SHRS:
            return (signed(a) >> min(b, 31)) & MASK
        case Op.PICK:
            return a if holds(cond, a, b) else b
        case Op.SET:
            return int(holds(cond, a, b))
        case Op.SEL:
            return a if c & 1 else b
        case Op.SX8 | Op.SX16:
            sign = 0x80 if op is Op.SX8 else 0x8000
            return ((a & (2 * sign - 1)) ^ sign) - sign & MASK
        case _:
            raise ValueError(f"{op.name} computes no value")

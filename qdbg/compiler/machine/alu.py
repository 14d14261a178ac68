"""What the machine's arithmetic computes, on 32-bit integers: the emulator's side of `execute`."""

from __future__ import annotations

from qdbg.compiler.machine.isa import ADDRESS_OPS, Cond, Op, Width

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
    """P = A*B + C + E in 64 bits, where ADD, LD, ST, HOLD and SUB bring a B of their own."""
    if op in ADDRESS_OPS:
        b = 1 << scale
    elif op is Op.SUB:
        b = MASK
    elif op is Op.MADS:
        a, b = signed(a), signed(b)
    return (a * b + c + e) & (1 << 64) - 1


def evaluate(op: Op, a: int, b: int, c: int = 0, e: int = 0, scale: int = 0, cond: int = 0) -> int:
    """The 32-bit result of an operation on values alone; operands are unsigned 32-bit patterns."""
    match op:
        case Op.MAD | Op.ADD | Op.SUB:
            return product_sum(op, a, b, c, e, scale) & MASK
        case Op.MADH | Op.MADS | Op.ADDH:
            return product_sum(op, a, b, c, e, scale) >> 32
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
        case Op.CHOOSE:
            return c if holds(cond, a, b) else a
        case Op.SX8 | Op.SX16:
            return extended(a, 1 if op is Op.SX8 else 2, True)
        case Op.POPC:
            return a.bit_count()
        case Op.CLZ:
            return 32 - a.bit_length()
        case Op.BREV:
            return int(f"{a:032b}"[::-1], 2)
        case _:
            raise ValueError(f"{op.name} computes no value")


def extended(value: int, size: int, sign: bool) -> int:
    """The low `size` bytes of a word, zero- or sign-extended to 32 bits."""
    bits = 8 * size
    value &= (1 << bits) - 1
    return value | (MASK ^ (1 << bits) - 1) if sign and value >> bits - 1 else value


#: Bytes that an access moves.
BYTES = {Width.WORD: 4, Width.HALF: 2, Width.BYTE: 1, Width.PAIR: 4, Width.QUAD: 4}
#: What an access's address must be a multiple of.
ALIGNMENT = BYTES | {Width.PAIR: 8, Width.QUAD: 16}


def loaded(word: int, address: int, width: Width, sign: bool) -> int:
    """What LD makes of the memory word that an address lies in."""
    return extended(word >> 8 * (address & 3), BYTES[width], sign)


def inserted(word: int, value: int, address: int, width: Width) -> int:
    """The word with its byte or half at `address` replaced by the low bits of `value`."""
    mask = (1 << 8 * BYTES[width]) - 1
    place = 8 * (address & 3)
    return word & ~(mask << place) | (value & mask) << place

"""Algebra on one operation: constants fold, and sums take the form that the machine adds in one pass.

The normal form of a sum is (A << scale) + C + E with constants in E only.
"""

from __future__ import annotations

from dataclasses import replace

from qdbg.compiler.lowering.ir import (
    LANE,
    MASK,
    Branch,
    Jump,
    Operation,
    Terminator,
    Value,
    copy_of,
    mirrored,
)
from qdbg.compiler.machine.alu import evaluate, holds
from qdbg.compiler.machine.isa import ADDRESS_OPS, PURE_OPS, Op

_COMMUTATIVE = (Op.MAD, Op.AND, Op.OR, Op.XOR)
#: op -> (B that changes nothing, B that decides the result, that result); None where there is no such B.
_NEUTRAL: dict[Op, tuple[int | None, int | None, int]] = {
    Op.AND: (MASK, 0, 0),
    Op.OR: (0, MASK, MASK),
    Op.XOR: (0, None, 0),
    Op.SHL: (0, None, 0),
    Op.SHRU: (0, None, 0),
    Op.SHRS: (0, None, 0),
}


def simplify(o: Operation) -> Operation:
    """An operation with the same result, no dearer and in normal form."""
    if o.once:
        return o
    if o.op in (Op.ADDH, Op.MADH, Op.MADS) and not o.held:
        return _high(o)
    if o.op in ADDRESS_OPS and not o.held:
        return _sum(o)
    if o.op is Op.SHFL and o.b == LANE:
        return _copy(o, o.a)
    if o.op is Op.SHFL and not isinstance(o.a, str):
        return _copy(o, o.b if o.a == LANE else o.a)
    if o.op not in PURE_OPS or o.held:
        return o
    a, b, c = o.a, o.b, o.c
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int):
        return _copy(o, evaluate(o.op, a, b, c, o.addend, o.scale, o.cond))
    if isinstance(a, int) and not isinstance(b, int):
        if o.op in _COMMUTATIVE:
            return simplify(replace(o, a=b, b=a))
        if o.op is Op.SET:
            return simplify(replace(o, a=b, b=a, cond=mirrored(o.cond)))
    return _by_kind(o)


def _by_kind(o: Operation) -> Operation:
    if o.op in _NEUTRAL:
        neutral, decisive, result = _NEUTRAL[o.op]
        if o.b == decisive:
            return _copy(o, result)
        if o.b == neutral:
            return _copy(o, o.a)
    match o.op:
        case Op.MAD:
            return _product(o)
        case Op.SUB:
            return _difference(o)
        case Op.SHL if isinstance(o.b, int):
            if o.b >= 32:
                return _copy(o, 0)
            return _sum(replace(o, op=Op.ADD, b=0, scale=o.b)) if o.b <= 3 else o
        case Op.SHRU if isinstance(o.b, int) and o.b >= 32:
            return _copy(o, 0)
        case Op.PICK if o.a == o.b:
            return _copy(o, o.a)
        case Op.SEL if isinstance(o.c, int) or o.a == o.b:
            return _copy(o, o.a if isinstance(o.c, int) and o.c & 1 else o.b)
        case _:
            return o


def _high(o: Operation) -> Operation:
    """The high word of a sum or product.  Constants stay apart where their sum would carry itself."""
    a, b, c, e = o.a, o.b, o.c, o.addend
    if o.op is Op.ADDH:
        b = 1 << o.scale
    elif isinstance(a, int) and not isinstance(b, int):
        a, b = b, a
    if isinstance(c, int) and c + e <= MASK:
        c, e = 0, c + e
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int):
        return _copy(o, evaluate(o.op, a, b, c, e, o.scale))
    if o.op is Op.ADDH:
        if isinstance(a, int) and o.scale == 0:
            a, c = c, a
        if (a == 0 and e == 0) or (c == 0 and e == 0 and o.scale == 0):
            return _copy(o, 0)  # a single word
        return replace(o, a=a, c=c, addend=e)
    if isinstance(b, int) and b & (b - 1) == 0 and (o.op is Op.MADH or b >> 31 == 0):
        return _high_of_power(replace(o, a=a, b=b, c=c, addend=e), b)
    return replace(o, a=a, b=b, c=c, addend=e)


def _high_of_power(o: Operation, b: int) -> Operation:
    """The high word of A * b + C + E for b = 0 or a power of two."""
    if b == 0:
        return _high(replace(o, op=Op.ADDH, a=0, b=0))
    if o.c == 0 and o.addend == 0:
        shift = Op.SHRU if o.op is Op.MADH else Op.SHRS
        return simplify(replace(o, op=shift, b=32 - b.bit_length() + 1))
    if o.op is Op.MADH and b <= 8:
        return _high(replace(o, op=Op.ADDH, b=0, scale=b.bit_length() - 1))
    return o


def _sum(o: Operation) -> Operation:
    a, c, e, scale = o.a, o.c, o.addend, o.scale
    if isinstance(a, int):
        a, e, scale = 0, e + (a << scale), 0
    if isinstance(c, int):
        c, e = 0, e + c
    if a == 0:
        a, c = c, 0
    return replace(o, a=a, c=c, addend=e & MASK, scale=scale)


def _product(o: Operation) -> Operation:
    """MAD whose B may be a constant and whose A is none."""
    if isinstance(o.b, int):
        if isinstance(o.a, int):
            return _sum(replace(o, op=Op.ADD, a=o.a * o.b & MASK, b=0))
        if o.b == 0:
            return _sum(replace(o, op=Op.ADD, a=0, b=0))
        if o.b in (1, 2, 4, 8):
            return _sum(replace(o, op=Op.ADD, b=0, scale=o.b.bit_length() - 1))
    if isinstance(o.c, int):
        return replace(o, c=0, addend=o.addend + o.c & MASK)
    return o


def _difference(o: Operation) -> Operation:
    """C - A + E."""
    if isinstance(o.a, int):
        return _sum(replace(o, op=Op.ADD, a=o.c, c=0, addend=o.addend - o.a & MASK))
    if o.a == o.c:
        return _copy(o, o.addend)
    if isinstance(o.c, int):
        return replace(o, c=0, addend=o.addend + o.c & MASK)
    return o


def _copy(o: Operation, value: Value) -> Operation:
    assert o.dst is not None
    return copy_of(o.dst, value, o.ptx, o.result)


def simplify_end(end: Terminator) -> Terminator:
    """A branch whose outcome is known becomes a jump; a constant goes to the right."""
    if not isinstance(end, Branch):
        return end
    if end.taken == end.other:
        return Jump(end.taken)
    if isinstance(end.a, int) and isinstance(end.b, int):
        return Jump(end.taken if holds(end.cond, end.a, end.b) else end.other)
    if isinstance(end.a, int):
        return replace(end, a=end.b, b=end.a, cond=mirrored(end.cond))
    return end


def combine(user: Operation, register: str, source: Operation) -> Operation | None:
    """`user` with its operand `register` replaced by the sum or product that computes it, if one pass can."""
    if source.op is Op.MAD:
        return _add_product(user, register, source)
    if source.op is not Op.ADD:
        return None
    if user.op is Op.ADDH:
        return None  # its operands are words, which a sum may exceed
    if user.op in ADDRESS_OPS:
        return _add_sums(user, register, source)
    plain = source.scale == 0 and source.c == 0
    if user.op in (Op.MAD, Op.SUB) and user.c == register and plain:
        return simplify(replace(user, c=source.a, addend=user.addend + source.addend & MASK))
    if user.op is Op.SUB and user.a == register and plain:
        return simplify(replace(user, a=source.a, addend=user.addend - source.addend & MASK))
    return None


def _add_sums(user: Operation, register: str, source: Operation) -> Operation | None:
    terms: list[tuple[Value, int]] = []
    constant = user.addend
    for value, shift in ((user.a, user.scale), (user.c, 0)):
        if value == register:
            terms += [(source.a, source.scale + shift), (source.c, shift)]
            constant += source.addend << shift
        else:
            terms.append((value, shift))
    terms = sorted((t for t in terms if t[0] != 0), key=lambda t: -t[1])
    shifts = [shift for _, shift in terms]
    if len(terms) > 2 or max(shifts, default=0) > 3 or (len(terms) == 2 and shifts[1] > 0):
        return None
    (a, scale), (c, _) = [*terms, (0, 0), (0, 0)][:2]
    return replace(user, a=a, c=c, scale=scale, addend=constant & MASK)


def _add_product(user: Operation, register: str, source: Operation) -> Operation | None:
    """x*y + E1 plus z + E2 is one multiply-add."""
    if user.op is not Op.ADD or user.scale or source.c != 0 or user.a == user.c:
        return None
    other = user.c if user.a == register else user.a
    addend = user.addend + source.addend & MASK
    return replace(user, op=Op.MAD, a=source.a, b=source.b, c=other, addend=addend)

"""Literals and constant expressions (PTX ISA section 4.5, "Constants")."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from .ir import Immediate
from .lexer import Cursor, integer_value

FloatKind = Literal["f32bits", "f64bits"]
#: What `WARP_SZ` is in an expression.
_WARP = 32


class Integer(NamedTuple):
    """An integer in an expression, of type `.u64` or `.s64`; it is within the range of that type."""

    value: int
    unsigned: bool = False


_Binary: TypeAlias = Callable[[Integer, Integer], Integer]
_MASK = (1 << 64) - 1


def _wrapped(value: int, unsigned: bool) -> Integer:
    value &= _MASK
    return Integer(value if unsigned or value >> 63 == 0 else value - (1 << 64), unsigned)


def _usual(function: Callable[[int, int], int]) -> _Binary:
    """Both operands are converted to `.u64` if one of them is; so is the result."""

    def apply(a: Integer, b: Integer) -> Integer:
        unsigned = a.unsigned or b.unsigned
        left, right = (_wrapped(one.value, unsigned).value for one in (a, b))
        return _wrapped(function(left, right), unsigned)

    return apply


def _truth(function: Callable[[int, int], bool]) -> _Binary:
    """A comparison, after the same conversions; its result is `.s64`."""
    compare = _usual(function)
    return lambda a, b: Integer(compare(a, b).value)


def _shift(function: Callable[[int, int], int]) -> _Binary:
    """The result has the first operand's type; of the count six bits matter, which the ISA leaves open."""
    return lambda a, b: _wrapped(function(a.value, b.value & 63), a.unsigned)


def _divide(a: int, b: int) -> int:
    """Division as in C: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Integer, b: Integer) -> Integer:
    """Of `.u64` operands, whatever they are; the result is `.s64`."""
    return _wrapped((a.value & _MASK) % (b.value & _MASK), False)


#: Binary operators: precedence (a higher one binds tighter) and meaning, as ptxas has it.
_BINARY: dict[str, tuple[int, _Binary]] = {
    "||": (1, _truth(lambda a, b: a != 0 or b != 0)),
    "&&": (2, _truth(lambda a, b: a != 0 and b != 0)),
    "|": (3, _usual(operator.or_)),
    "^": (4, _usual(operator.xor)),
    "&": (5, _usual(operator.and_)),
    "==": (6, _truth(operator.eq)),
    "!=": (6, _truth(operator.ne)),
    "<": (7, _truth(operator.lt)),
    "<=": (7, _truth(operator.le)),
    ">": (7, _truth(operator.gt)),
    ">=": (7, _truth(operator.ge)),
    "<<": (8, _shift(operator.lshift)),
    ">>": (8, _shift(operator.rshift)),
    "+": (9, _usual(operator.add)),
    "-": (9, _usual(operator.sub)),
    "*": (10, _usual(operator.mul)),
    "/": (10, _usual(_divide)),
    "%": (10, _remainder),
}
_UNARY: dict[str, Callable[[Integer], Integer]] = {
    "-": lambda a: _wrapped(-a.value, a.unsigned),
    "+": lambda a: a,
    "~": lambda a: _wrapped(~a.value, True),
    "!": lambda a: Integer(int(a.value == 0)),
}


def starts_constant(cursor: Cursor) -> bool:
    """Whether the next token begins a literal or an expression (`!` also stands before a predicate)."""
    following = cursor.tokens[min(cursor.position + 1, len(cursor.tokens) - 1)]
    if cursor.at("!"):
        return following.kind == "number" or following.text in ("(", "!", "-", "+", "~")
    if cursor.at("WARP_SZ"):
        return following.text in _BINARY
    return cursor.token.kind == "number" or cursor.token.text in ("-", "+", "~")


def constant(cursor: Cursor, decimal: FloatKind = "f64bits") -> Immediate:
    """Reads a literal or an integer expression; a decimal float becomes bits of type `decimal`.

    Raises:
        PtxError: where there is none, or where a literal does not fit 64 bits.
    """
    start = cursor.position
    sign = 1
    while cursor.at("-") or cursor.at("+"):
        sign = -sign if cursor.take().text == "-" else sign
    literal = cursor.token.text if cursor.token.kind == "number" else ""
    prefix, digits = literal[:2].lower(), literal[2:]
    if prefix in ("0f", "0d"):
        cursor.take()
        sign_bit = 1 << (4 * len(digits) - 1) if sign < 0 else 0
        return Immediate(int(digits, 16) ^ sign_bit, "f32bits" if prefix == "0f" else "f64bits")
    if literal and integer_value(literal) is None:
        cursor.take()
        return Immediate(float_bits(sign * float(literal), decimal), decimal)
    cursor.position = start
    return Immediate(_expression(cursor).value)


def float_bits(value: float, kind: FloatKind) -> int:
    """The bits of `value`, rounded to nearest even; what overflows is infinite (IEEE 754)."""
    if kind == "f64bits":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _expression(cursor: Cursor) -> Integer:
    """Reads `a`, `a + b * c`, `a ? b : c`, ... (PTX ISA 4.5.4, "Constant Expressions")."""
    condition = _binary(cursor, 0)
    if not cursor.accept("?"):
        return condition
    positive = _expression(cursor)
    cursor.expect(":")
    negative = _expression(cursor)
    return positive if condition.value else negative


def _binary(cursor: Cursor, minimum: int) -> Integer:
    """Precedence climbing over `_BINARY`."""
    left = _unary(cursor)
    while (found := _BINARY.get(cursor.token.text)) is not None and found[0] > minimum:
        token = cursor.take()
        right = _binary(cursor, found[0])
        if token.text in ("/", "%") and right.value == 0:
            raise cursor.error("division by zero", token)
        left = found[1](left, right)
    return left


def _unary(cursor: Cursor) -> Integer:
    token = cursor.token
    if (operation := _UNARY.get(token.text)) is not None:
        cursor.take()
        return operation(_unary(cursor))
    if cursor.accept("("):
        if cursor.at(".u64") or cursor.at(".s64"):
            unsigned = cursor.take().text == ".u64"
            cursor.expect(")")
            return _wrapped(_unary(cursor).value, unsigned)
        inner = _expression(cursor)
        cursor.expect(")")
        return inner
    if cursor.accept("WARP_SZ"):
        return Integer(_WARP)
    value = integer_value(token.text) if token.kind == "number" else None
    if value is None:
        raise cursor.error("expected a constant")
    if value > _MASK:
        raise cursor.error("the constant does not fit 64 bits")
    cursor.take()
    return Integer(value, unsigned=value >> 63 != 0 or token.text.endswith("U"))

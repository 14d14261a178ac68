"""Literals and constant expressions (PTX ISA section 4.5, "Constants")."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Literal

from .ir import Immediate
from .lexer import Cursor, integer_value

FloatKind = Literal["f32bits", "f64bits"]


def _divide(a: int, b: int) -> int:
    """Division as in C: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: Binary operators: precedence (a higher one binds tighter) and meaning.
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "|": (1, operator.or_),
    "^": (2, operator.xor),
    "&": (3, operator.and_),
    "<<": (4, lambda a, b: a << min(b, 64)),
    ">>": (4, lambda a, b: a >> min(b, 64)),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
    "/": (6, _divide),
    "%": (6, lambda a, b: a - b * _divide(a, b)),
}


def starts_constant(cursor: Cursor) -> bool:
    """Whether the next token begins a literal."""
    return cursor.token.kind == "number" or cursor.token.text in ("-", "+", "~")


def constant(cursor: Cursor, decimal: FloatKind = "f64bits") -> Immediate:
    """Reads a literal or an integer expression; a decimal float becomes bits of type `decimal`.

    Raises:
        PtxError: where there is none, or where its value does not fit 64 bits.
    """
    start, first = cursor.position, cursor.token
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
    value = _expression(cursor, 0)
    if not -(1 << 63) <= value < 1 << 64:
        raise cursor.error("the constant does not fit 64 bits", first)
    return Immediate(value)


def float_bits(value: float, kind: FloatKind) -> int:
    """The bits of `value`, rounded to nearest even; what overflows is infinite (IEEE 754)."""
    if kind == "f64bits":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _expression(cursor: Cursor, minimum: int) -> int:
    """Precedence climbing over `_BINARY`."""
    left = _unary(cursor)
    while (found := _BINARY.get(cursor.token.text)) is not None and found[0] > minimum:
        token = cursor.take()
        right = _expression(cursor, found[0])
        if token.text in "/%" and right == 0:
            raise cursor.error("division by zero", token)
        if token.text in ("<<", ">>") and right < 0:
            raise cursor.error("shift by a negative number", token)
        left = found[1](left, right)
    return left


def _unary(cursor: Cursor) -> int:
    if cursor.accept("-"):
        return -_unary(cursor)
    if cursor.accept("+"):
        return _unary(cursor)
    if cursor.accept("~"):
        return ~_unary(cursor)
    if cursor.accept("("):
        value = _expression(cursor, 0)
        cursor.expect(")")
        return value
    value_or_none = integer_value(cursor.token.text) if cursor.token.kind == "number" else None
    if value_or_none is None:
        raise cursor.error("expected a constant")
    cursor.take()
    return value_or_none

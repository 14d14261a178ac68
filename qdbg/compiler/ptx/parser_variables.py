"""Variables, parameters and their initialisers (PTX ISA section 5, "State Spaces, Types, and Variables")."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import prod
from typing import cast

from .ir import TYPE_BITS, Immediate, Relocation, Space, Variable
from .lexer import Cursor, Token, integer_value
from .parser_constants import FloatKind, constant, float_bits, starts_constant

#: Handles of textures and surfaces are 64-bit values.
SIZES = {name: (bits + 7) // 8 for name, bits in TYPE_BITS.items()} | {
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_SPACES = ("reg", "global", "shared", "const", "local", "param")
#: An array with an initialiser is held in memory; nothing real comes near this many bytes.
_MAXIMUM_INITIALISED = 1 << 28


@dataclass
class Form:
    """What stands between the state space and the name: `.align 8 .v2 .f32`."""

    type: str
    vector: int = 1
    align: int = 0

    @property
    def size(self) -> int:
        """The size of one element in bytes."""
        return SIZES[self.type] * self.vector


def space(cursor: Cursor) -> Space | None:
    """Reads a state space, e.g. `.shared` or `.shared::cta`, if one stands there."""
    word = cursor.token.text.partition("::")[0]
    if word[:1] != "." or word[1:] not in _SPACES:
        return None
    cursor.take()
    return cast(Space, word[1:])


def form(cursor: Cursor) -> Form:
    """Reads alignment, vector length, type and attributes, in any order."""
    found = Form("")
    pointee = False
    while cursor.token.kind == "dot":
        token = cursor.take()
        word = token.text[1:]
        if word == "align":
            value = cursor.integer("an alignment")
            if value == 0 or value & (value - 1):
                raise cursor.error("an alignment must be a power of two", token)
            # After .ptr it is the alignment of what the pointer points to.
            found.align = found.align if pointee else value
        elif word in SIZES:
            found.type = word
        elif word in _VECTORS:
            found.vector = _VECTORS[word]
        elif word == "ptr":
            pointee = True
        elif word == "attribute":
            cursor.expect("(")
            cursor.skip_block(")")
        elif not (pointee and word in _SPACES) and word != "unified":
            raise cursor.error("expected a type such as .u32", token)
    if not found.type:
        raise cursor.error("expected a type such as .u32")
    return found


def variables(cursor: Cursor, where: Space, external: bool = False) -> list[Variable]:
    """Reads what follows the state space of a declaration, up to and including `;`."""
    element = form(cursor)
    found = [_variable(cursor, where, element, external)]
    while cursor.accept(","):
        found.append(_variable(cursor, where, element, external))
    cursor.expect(";")
    return found


def parameters(cursor: Cursor, what: str) -> tuple[Variable, ...]:
    """Reads a parenthesised list of parameters."""
    cursor.expect("(")
    found: list[Variable] = []
    with cursor.reading(f"the parameters of {what}"):
        while not cursor.accept(")"):
            if found:
                cursor.expect(",")
            where = space(cursor)
            if where not in ("param", "reg"):
                raise cursor.error("expected a parameter that begins with .param or .reg")
            found.append(_variable(cursor, where, form(cursor), external=False))
    return tuple(found)


def _variable(cursor: Cursor, where: Space, element: Form, external: bool) -> Variable:
    token = cursor.name("a variable")
    dimensions = list(_dimensions(cursor))
    data: _Initialiser | None = None
    if cursor.at("=") and where not in ("global", "const"):
        raise cursor.error(f"a .{where} variable takes no initial value, only .global and .const ones do")
    if cursor.accept("="):
        with cursor.reading(f"the initialiser of {token.text}"):
            values = _values(cursor, element)
        if dimensions and dimensions[0] == 0 and isinstance(values, list):
            dimensions[0] = _inferred(values, prod(dimensions[1:]))
        size = prod(dimensions) * element.size
        if size > _MAXIMUM_INITIALISED:
            raise cursor.error(f"an initialised variable of {size} bytes is too large", token)
        data = _Initialiser(cursor, element, bytearray(size))
        data.fill(values, dimensions, 0, token)
    count = prod(dimensions) * element.vector if dimensions or element.vector > 1 else None
    return Variable(
        name=token.text,
        space=where,
        type=element.type,
        align=element.align or element.size,
        size=prod(dimensions) * element.size,
        line=token.line,
        count=count,
        init=bytes(data.image) if data else None,
        relocations=tuple(data.relocations) if data else (),
        external=external,
    )


def _dimensions(cursor: Cursor) -> list[int]:
    """Reads `[2][3]`; an open dimension `[]` is 0."""
    found: list[int] = []
    while cursor.accept("["):
        size = 0
        if not cursor.at("]"):
            token = cursor.token
            size = constant(cursor).value
            if not 0 <= size < 1 << 40:
                raise cursor.error("an array dimension must be between 0 and 2^40", token)
        found.append(size)
        cursor.expect("]")
    return found


@dataclass
class _Value:
    """One value of an initialiser: a literal, or `mask(symbol) + addend`."""

    token: Token
    literal: Immediate | None = None
    symbol: str = ""
    addend: int = 0
    mask: int | None = None


_Values = _Value | list["_Values"]


def _values(cursor: Cursor, element: Form) -> _Values:
    """Reads a value or a list of values in braces."""
    if not cursor.accept("{"):
        return _value(cursor, element)
    found: list[_Values] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",")
        found.append(_values(cursor, element))
    return found


def _value(cursor: Cursor, element: Form) -> _Value:
    token = cursor.token
    decimal: FloatKind = "f32bits" if element.type == "f32" else "f64bits"
    if starts_constant(cursor) or cursor.at("(") or cursor.at("WARP_SZ"):
        # `0xff00(symbol)` is a byte of an address (PTX ISA 5.4.4, "Initializers").
        mask = integer_value(token.text) if cursor.tokens[cursor.position + 1].text == "(" else None
        if mask is None:
            return _Value(token, literal=constant(cursor, decimal))
        cursor.take()
        symbol, inner = _parenthesised(cursor)
        return _Value(token, symbol=symbol, addend=inner + _addend(cursor), mask=mask)
    symbol, inner = _symbol(cursor)
    return _Value(token, symbol=symbol, addend=inner + _addend(cursor))


def _symbol(cursor: Cursor) -> tuple[str, int]:
    """Reads `symbol` or `generic(symbol+4)`; returns the name and the offset in the parentheses."""
    name = cursor.name("a variable or function").text
    return _parenthesised(cursor) if name == "generic" and cursor.at("(") else (name, 0)


def _parenthesised(cursor: Cursor) -> tuple[str, int]:
    cursor.expect("(")
    name, inner = _symbol(cursor)
    inner += _addend(cursor)
    cursor.expect(")")
    return name, inner


def _addend(cursor: Cursor) -> int:
    return constant(cursor).value if cursor.at("+") or cursor.at("-") else 0


def _inferred(values: list[_Values], row: int) -> int:
    """The open first dimension of an array whose rows have `row` elements."""
    if any(isinstance(value, list) for value in values):
        return len(values)
    return -(-len(values) // max(row, 1))


@dataclass
class _Initialiser:
    """The little-endian image of a variable, filled value by value."""

    cursor: Cursor
    element: Form
    image: bytearray
    relocations: list[Relocation] = field(default_factory=list)

    def fill(self, values: _Values, dimensions: list[int], offset: int, token: Token) -> None:
        """Puts `values` at `offset`; missing ones stay zero, as in C."""
        width = SIZES[self.element.type]
        room = prod(dimensions) * self.element.vector
        if not isinstance(values, list):
            if room < 1:
                raise self.cursor.error("too many values", values.token)
            self._put(values, offset)
            return
        row = dimensions[1:]
        step = prod(row) * self.element.vector if dimensions else 1
        place = 0
        for value in values:
            nested = isinstance(value, list)
            if place + (step if nested else 1) > room:
                raise self.cursor.error("the initialiser has more values than the variable", token)
            self.fill(value, row if nested else [], offset + place * width, token)
            place += step if nested else 1

    def _put(self, value: _Value, offset: int) -> None:
        if value.literal is None:
            self._relocate(value, offset)
            return
        width, kind = SIZES[self.element.type], self.element.type[0]
        if kind in "usf" and (kind == "f") == (value.literal.kind == "int"):
            raise self.cursor.error(f"a .{self.element.type} cannot have this initial value", value.token)
        bits = self._bits(value.literal) & ((1 << 8 * width) - 1)
        self.image[offset : offset + width] = bits.to_bytes(width, "little")

    def _bits(self, literal: Immediate) -> int:
        """The literal as bits of the element type."""
        kind = {"f32": "f32bits", "f64": "f64bits"}.get(self.element.type)
        if kind is None or literal.kind == kind:
            return literal.value
        return float_bits(_float(literal), cast(FloatKind, kind))

    def _relocate(self, value: _Value, offset: int) -> None:
        width = SIZES[self.element.type]
        if value.mask is None:
            if width < 4:
                raise self.cursor.error("an address needs an element of 32 or 64 bits", value.token)
            self.relocations.append(Relocation(offset, value.symbol, value.addend, width))
            return
        low = (value.mask & -value.mask).bit_length() - 1
        if width != 1 or value.mask == 0 or low % 8 or value.mask >> low != 0xFF:
            raise self.cursor.error("a masked address must select one byte for a .u8 or .b8", value.token)
        byte = low // 8
        if byte == 0:
            self.relocations.append(Relocation(offset, value.symbol, value.addend, 1))
            return
        # The bytes of one address follow each other, lowest first: they make one relocation.
        last = self.relocations[-1] if self.relocations else None
        if last is None or (last.offset + byte, last.symbol, last.size) != (offset, value.symbol, byte):
            raise self.cursor.error("the bytes of an address must stand in order, lowest first", value.token)
        self.relocations[-1] = Relocation(last.offset, last.symbol, last.addend, byte + 1)


def _float(literal: Immediate) -> float:
    """The value of a float literal."""
    form, size = ("<f", 4) if literal.kind == "f32bits" else ("<d", 8)
    (value,) = struct.unpack(form, literal.value.to_bytes(size, "little"))
    return float(value)

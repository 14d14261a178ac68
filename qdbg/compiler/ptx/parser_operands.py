"""Operands (PTX ISA section 6, "Instruction Operands") and the names that they refer to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .ir import (
    Address,
    Arguments,
    Immediate,
    Label,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from .lexer import Cursor, Token
from .parser_constants import FloatKind, constant, starts_constant

#: PTX ISA section 10, "Special Registers", without the `.x` of the vector ones.
_SPECIAL = re.compile(
    r"%(n?tid|n?warpid|laneid|n?ctaid|n?smid|gridid|lanemask_(eq|le|lt|ge|gt)|clock(_hi|64)?|pm[0-7](_64)?"
    r"|envreg\d\d?|globaltimer(_lo|_hi)?|total_smem_size|aggr_smem_size|dynamic_smem_size|current_graph_exec"
    r"|reserved_smem_\w+|is_explicit_cluster|n?clusterid|cluster_n?cta(id|rank))"
)
_COMPONENTS = {".x": 0, ".y": 1, ".z": 2, ".w": 3, ".r": 0, ".g": 1, ".b": 2, ".a": 3}


@dataclass
class Scope:
    """The names of a module, a function or a `{ }` block; inner ones hide outer ones.

    `names` maps a register or variable to its operand (a vector register to a Vector), `labels` a
    label to its unique name, or to the Vector that stands for a table of branch or call targets,
    `elements` an array, by the name of its Symbol, to the bytes of one element.
    """

    parent: Scope | None = None
    names: dict[str, Register | Symbol | Vector] = field(default_factory=dict)
    labels: dict[str, Label | Vector] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)

    def find(self, name: str) -> Register | Symbol | Vector | None:
        """What `name` means here."""
        scope: Scope | None = self
        while scope is not None:
            if (found := scope.names.get(name)) is not None:
                return found
            scope = scope.parent
        return None

    def find_label(self, name: str) -> Label | Vector | None:
        """The label or table that `name` means here."""
        scope: Scope | None = self
        while scope is not None:
            if (found := scope.labels.get(name)) is not None:
                return found
            scope = scope.parent
        return None

    def element(self, name: str) -> int | None:
        """The bytes of an element of the array that a Symbol names; None if it is no array."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.elements:
                return scope.elements[name]
            scope = scope.parent
        return None


def operands(
    cursor: Cursor, scope: Scope, closing: str, decimal: FloatKind, opcode: str = ""
) -> tuple[Operand | None, ...]:
    """Reads operands separated by commas up to and including `closing`; `_` is None.

    Parentheses hold a list of arguments in a `call`, and a constant elsewhere; `a[1]` stands for the address
    of an element in a `mov`, and elsewhere for an access to it.
    """
    found: list[Operand | None] = []
    while not cursor.accept(closing):
        if found:
            cursor.expect(",")
        found.append(operand(cursor, scope, decimal, opcode))
    return tuple(found)


def operand(cursor: Cursor, scope: Scope, decimal: FloatKind, opcode: str) -> Operand | None:
    """Reads one operand; an unknown name is a Label, to be resolved when the function has been read."""
    if starts_constant(cursor) or (cursor.at("(") and opcode != "call"):
        return constant(cursor, decimal)
    if cursor.accept("["):
        return _address(cursor, scope, decimal)
    if cursor.accept("{"):
        return Vector(operands(cursor, scope, "}", decimal))
    if cursor.accept("("):
        return Arguments(solid(operands(cursor, scope, ")", decimal)))
    if cursor.accept("!"):
        return Register(register(cursor, scope).name, negated=True)
    token = cursor.token
    first = _named(cursor, scope)
    if isinstance(first, Symbol) and cursor.at("["):
        element = Symbol(first.name, _index(cursor, scope, first.name))
        return element if opcode == "mov" else Address(Symbol(element.name), element.offset)
    if cursor.accept("|"):
        second = None if cursor.accept("_") else register(cursor, scope)
        if first is not None and not isinstance(first, Register):
            raise cursor.error("only registers stand before |", token)
        return Pair(first, second)
    return first


def solid(found: tuple[Operand | None, ...]) -> tuple[Operand, ...]:
    """Operands where a lone `_`, a destination that is thrown away, is an empty Pair."""
    return tuple(Pair(None, None) if one is None else one for one in found)


def register(cursor: Cursor, scope: Scope) -> Register:
    """Reads the name of a register."""
    token = cursor.name("a register")
    found = _component(cursor, scope.find(token.text))
    if not isinstance(found, Register):
        raise cursor.error("expected a declared register", token)
    return found


def _named(cursor: Cursor, scope: Scope) -> Operand | None:
    """Reads a register, a special register, a symbol with an offset, a label or `_`."""
    token = cursor.name("an operand")
    if token.text == "_":
        return None
    if token.text == "WARP_SZ":
        return Special("WARP_SZ")
    found = scope.find(token.text)
    if isinstance(found, Symbol):
        return Symbol(found.name, _offset(cursor))
    if found is not None:
        return _component(cursor, found)
    if token.text.startswith("%"):
        return _special(cursor, token)
    return Label(token.text)


def _special(cursor: Cursor, token: Token) -> Special:
    if _SPECIAL.fullmatch(token.text) is None:
        raise cursor.error("this register is not declared", token)
    suffix = cursor.take().text if cursor.token.text in (".x", ".y", ".z", ".w") else ""
    return Special(token.text + suffix)


def _component(cursor: Cursor, found: Register | Symbol | Vector | None) -> Operand | None:
    """The component `.x` of a vector register; `found` itself without one."""
    if cursor.token.kind != "dot":
        return found
    place = _COMPONENTS.get(cursor.token.text)
    if not isinstance(found, Vector) or place is None or place >= len(found.elements):
        raise cursor.error("this is not a component of a vector register")
    cursor.take()
    return found.elements[place]


def _address(cursor: Cursor, scope: Scope, decimal: FloatKind) -> Operand:
    """Reads the rest of `[base+offset]`; `[texture, {x, y}]` becomes a Vector of its parts."""
    base: Register | Symbol | None = None
    if starts_constant(cursor):
        found = Address(None, _integer(cursor))
    else:
        token = cursor.token
        named = _named(cursor, scope)
        if isinstance(named, Symbol):
            base, offset = Symbol(named.name), named.offset
        elif isinstance(named, Register):
            base, offset = named, _offset(cursor)
        else:
            raise cursor.error("an address begins with a declared register or variable", token)
        found = Address(base, offset)
    if cursor.accept(","):
        return Vector((found, *operands(cursor, scope, "]", decimal)))
    cursor.expect("]")
    return found


def _index(cursor: Cursor, scope: Scope, name: str) -> int:
    """Reads `[3]` behind the name of an array; returns the byte offset (PTX ISA 6.4.2)."""
    token = cursor.take()
    size = scope.element(name)
    if size is None:
        raise cursor.error(f"{name} is no array", token)
    if cursor.token.kind == "word" and not cursor.at("WARP_SZ"):
        raise cursor.error("an index in a register is not supported; compute the address first")
    offset = _integer(cursor) * size
    cursor.expect("]")
    return offset


def _offset(cursor: Cursor) -> int:
    """Reads `+4`, `-4` or `+-4`, if one stands there."""
    return _integer(cursor) if cursor.at("+") or cursor.at("-") else 0


def _integer(cursor: Cursor) -> int:
    """Reads a constant as a signed number of 64 bits."""
    token = cursor.token
    found: Immediate = constant(cursor)
    if found.kind != "int":
        raise cursor.error("an offset or index is an integer", token)
    return found.value - (1 << 64) if found.value >= 1 << 63 else found.value

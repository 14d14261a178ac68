"""Parameters of expanded calls as registers.

A `.param` variable of a function body is written by `st.param` on one side of a call and read by `ld.param`
on the other (PTX ISA 5.1.6).  Where all accesses agree on its parts, each part becomes a register and the
accesses become moves; any other variable becomes local memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from .ir import (
    TYPE_BITS,
    Address,
    Arguments,
    Function,
    Instruction,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

_VECTORS = {"v2": 2, "v4": 4}
_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class _Access:
    """`count` elements of a PTX type at a byte offset of a variable; `whole` if a call passes it as it is."""

    offset: int
    type: str
    count: int = 1
    writes: bool = False

    @property
    def parts(self) -> Iterator[tuple[int, int]]:
        """(offset, bytes) of each element."""
        size = TYPE_BITS[self.type] // 8
        return ((self.offset + n * size, size) for n in range(self.count))


def as_registers(function: Function) -> Function:
    """The function without `.param` variables in its body."""
    wanted = {v.name: v for v in function.variables if v.space == "param"}
    accesses: dict[str, list[_Access | None]] = {name: [] for name in wanted}
    for i in function.body:
        for name, access in _accesses(i, wanted):
            accesses[name].append(access)
    parts = {name: _partition(found) for name, found in accesses.items()}
    memory = {name for name, found in parts.items() if found is None}
    registers = {
        (name, offset): Register(f"{name}+{offset}" if offset else name)
        for name, found in parts.items()
        for offset in found or ()
    }
    sizes = {key: 8 * (parts[key[0]] or {})[key[1]] for key in registers}
    types = dict(function.registers)
    types.update({register.name: f"b{max(16, sizes[key])}" for key, register in registers.items()})
    body: list[Instruction] = []
    places: list[int] = []  # where each instruction went
    for i in function.body:
        places.append(len(body))
        for new in _rewritten(i, registers, types, memory):
            body.append(replace(new, index=len(body)))
    places.append(len(body))
    variables = [replace(v, space="local") if v.name in memory else v for v in function.variables]
    return replace(
        function,
        registers=types,
        variables=tuple(v for v in variables if v.space != "param"),
        body=tuple(body),
        labels={label: places[index] for label, index in function.labels.items()},
    )


# --- what is accessed ------------------------------------------------------------------------------


def _accesses(i: Instruction, wanted: dict[str, Variable]) -> Iterator[tuple[str, _Access | None]]:
    """Every mention of a wanted variable; None where more than a known part of it may be meant."""
    if (place := _place(i)) is not None and place[0] in wanted:
        yield place
        rest: Iterable[Operand | None] = (o for o in i.operands if not isinstance(o, Address))
    else:
        rest = i.operands
    for operand in rest:
        match operand:
            case Symbol(name) | Address(Symbol(name)) if name in wanted:
                yield name, None
            case Arguments(elements):
                for element in elements:
                    if isinstance(element, Symbol) and element.name in wanted:
                        size = wanted[element.name].size
                        whole = _Access(0, f"b{8 * size}", writes=True) if size in _SIZES else None
                        yield element.name, whole


def _place(i: Instruction) -> tuple[str, _Access] | None:
    """The variable and the part of it that a load or store of the parameter space accesses."""
    if i.opcode not in ("ld", "st") or not i.has("param", "param::func") or len(i.types) != 1:
        return None
    operand = i.operands[0 if i.opcode == "st" else 1]
    if not (isinstance(operand, Address) and isinstance(operand.base, Symbol)):
        return None
    count = next((_VECTORS[m] for m in i.modifiers if m in _VECTORS), 1)
    offset = operand.base.offset + operand.offset
    return operand.base.name, _Access(offset, i.types[0], count, i.opcode == "st")


def _partition(accesses: list[_Access | None]) -> dict[int, int] | None:
    """Offset -> bytes of the parts; None unless every write is of one part and every read begins one."""
    parts: dict[int, int] = {}
    for access in accesses:
        for offset, size in access.parts if access is not None else ():
            if size not in _SIZES:
                return None
            parts[offset] = max(size, parts.get(offset, 0))
    ordered = sorted(parts.items())
    apart = all(a + size <= b for (a, size), (b, _) in pairwise(ordered))
    for access in accesses:
        if access is None:
            return None
        if access.writes and any(parts[offset] != size for offset, size in access.parts):
            return None
    return parts if apart else None


# --- rewriting -------------------------------------------------------------------------------------


def _rewritten(
    i: Instruction, registers: dict[tuple[str, int], Register], types: dict[str, str], memory: set[str]
) -> Iterator[Instruction]:
    place = _place(i)
    if i.opcode == "call":
        arguments = (_passed(o, registers) for o in i.operands)
        yield replace(i, operands=tuple(arguments))
    elif place is not None and place[0] in memory:
        modifiers = tuple("local" if m in ("param", "param::func") else m for m in i.modifiers)
        yield replace(i, modifiers=modifiers)
    elif place is not None and (place[0], place[1].offset) in registers:
        name, access = place
        operand = i.operands[1 if i.opcode == "st" else 0]
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        for element, (offset, _) in zip(elements, access.parts, strict=True):
            if element is not None:
                yield _move(i, element, registers[name, offset], access.type, types)
    else:
        yield i


def _passed(operand: Operand, registers: dict[tuple[str, int], Register]) -> Operand:
    """The operand of a call that stays: a variable that became a register is passed as that."""
    if not isinstance(operand, Arguments):
        return operand
    elements = (
        registers.get((element.name, 0), element) if isinstance(element, Symbol) else element
        for element in operand.elements
    )
    return Arguments(tuple(elements))


def _move(i: Instruction, element: Operand, part: Register, kind: str, types: dict[str, str]) -> Instruction:
    """A load or store of one element as a move from or to a part.

    A register may be wider than what is stored from it or loaded to it (PTX ISA 9.4.1): the low bits are
    stored, and what is loaded is extended.
    """
    held = TYPE_BITS[types[part.name]]
    if i.opcode == "st":
        given = TYPE_BITS[types[element.name]] if isinstance(element, Register) else held
        modifiers = ("mov", f"b{held}") if given == held else ("cvt", f"u{held}", f"u{given}")
        operands: tuple[Operand, Operand] = (part, element)
    else:
        assert isinstance(element, Register)
        wanted, bits = TYPE_BITS[types[element.name]], TYPE_BITS[kind]
        sign = "s" if kind[0] == "s" else "u"
        if wanted == bits == held:
            modifiers = ("mov", f"b{held}")
        elif wanted == bits:
            modifiers = ("cvt", f"u{wanted}", f"u{held}")
        else:
            modifiers = ("cvt", f"{sign}{wanted}", f"{sign}{bits}")
        operands = (element, part)
    return replace(i, opcode=modifiers[0], modifiers=modifiers[1:], operands=operands)

"""What the grammar of PTX does not say: how many operands an opcode takes, of which kinds and sizes.

The table holds the instructions that qdbg runs; others are checked where they are implemented.
"""

from __future__ import annotations

from collections.abc import Mapping

from .ir import TYPE_BITS, Address, Immediate, Instruction, Operand, Pair, Register, Special, Symbol, Vector

#: A letter an operand: d destination, p destination that may be a pair, v destination that may be a vector,
#: s source, w source that may be a vector, i integer literal, a address.  Alternatives differ in number.
_OPCODES: dict[tuple[str, ...], str] = {
    ("ds",): "neg abs not cnot brev popc clz bfind testp cvta rcp sqrt rsqrt ex2 lg2 sin cos tanh",
    ("dss",): "add sub addc subc mul mul24 div rem and or xor shl shr copysign bmsk",
    ("dsss",): "mad madc mad24 fma sad bfe selp slct dp4a dp2a prmt shf",
    ("dss", "dsss"): "min max",
    ("pss", "psss"): "setp set",
    ("dssss",): "bfi",
    ("dsssi", "psssis"): "lop3",
    ("vw",): "mov",
    ("ds", "dss", "dsss"): "cvt",
    ("va", "vas"): "ld ldu",
    ("aw", "aws"): "st",
    ("s", "ss", "dss", "dsss"): "bar",
    ("", "s", "ss", "dss", "dsss"): "barrier",
    ("",): "ret exit trap brkpt membar",
}
_FORMS = {opcode: forms for forms, opcodes in _OPCODES.items() for opcode in opcodes.split()}
_SOURCES = (Register, Special, Immediate, Symbol)
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "d": ("a register to write", (Register,)),
    "p": ("a register to write", (Register, Pair)),
    "v": ("a register to write", (Register, Vector)),
    "s": ("a register or a constant", _SOURCES),
    "w": ("a register or a constant", (*_SOURCES, Vector)),
    "i": ("an integer constant", (Immediate,)),
    "a": ("an address in brackets", (Address,)),
}
_COMBINATIONS = ("and", "or", "xor")


def complaint(instruction: Instruction, parameter_sizes: Mapping[str, int]) -> str | None:
    """What is wrong with the operands of an instruction, as a clause; None if nothing is.

    parameter_sizes: bytes of the .param variables that can be named, 0 where that is open.
    """
    forms = _FORMS.get(instruction.opcode)
    if forms is None:
        return None
    count = len(instruction.operands)
    form = next((form for form in forms if len(form) == count), None)
    if instruction.opcode in ("setp", "set"):  # a predicate to combine with comes with its operator
        form = form if count == 3 + instruction.has(*_COMBINATIONS) else None
        forms = forms[1:] if instruction.has(*_COMBINATIONS) else forms[:1]
    if form is None:
        wanted = " or ".join(str(len(form)) for form in forms if form) or "no"
        return f"takes {wanted} operands, not {count}"
    for place, (kind, operand) in enumerate(zip(form, instruction.operands, strict=True), 1):
        what, types = _KINDS[kind]
        negated = isinstance(operand, Register) and operand.negated
        if operand == Pair(None, None) and kind in "dpv":
            continue
        if not isinstance(operand, types) or (negated and kind in "dpv"):
            return f"needs {what} as operand {place}"
        if kind in "sw" and (found := _misfit(instruction, operand)) is not None:
            return found
        if kind == "a" and (found := _outside(instruction, operand, parameter_sizes)) is not None:
            return found
    return None


def _misfit(instruction: Instruction, operand: Operand) -> str | None:
    """Why a constant is none of the instruction's type; an integer is cut to size (PTX ISA 4.5.1)."""
    if isinstance(operand, Vector):
        found = (_misfit(instruction, e) for e in operand.elements if e is not None)
        return next((one for one in found if one is not None), None)
    if not isinstance(operand, Immediate) or not instruction.types or operand.kind == "int":
        return None
    widest = max(instruction.types, key=lambda name: TYPE_BITS[name])
    integer = all(name[0] in "us" for name in instruction.types)
    too_long = widest[0] == "b" and TYPE_BITS[widest] < int(operand.kind[1:3])
    return f"has a float constant where .{widest} is needed" if integer or too_long else None


def _outside(instruction: Instruction, operand: Operand, sizes: Mapping[str, int]) -> str | None:
    """Why a parameter does not hold the bytes that are accessed."""
    if not (isinstance(operand, Address) and isinstance(operand.base, Symbol) and instruction.types):
        return None
    size = sizes.get(operand.base.name, 0)
    start = operand.base.offset + operand.offset
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    end = start + count * TYPE_BITS[instruction.types[0]] // 8
    if size and (start < 0 or end > size):
        return f"accesses bytes {start} to {end - 1} of {operand.base.name}, which has {size}"
    return None

"""Which families of instructions a PTX text uses: the table behind the `// qdbg-needs:` of a kernel's file.

Families are orthogonal: an instruction needs that of its opcode, of its types and of its state space.
"""

from __future__ import annotations

from collections.abc import Iterator

from qdbg.compiler.ptx.ir import Instruction, Module, Operand, Special, Symbol, Vector

#: The family that an opcode needs by itself; that of `div`, `fma`, `rcp` and `sqrt` is their type's.
OPCODES = {
    "A": "abs add and bra cvt cvta div exit fma ld ldu mad max min mov mul neg not or rcp rem ret selp set "
    "setp shl shr sqrt st sub trap xor",
    "C": "bar",
    "G": "atom red",
    "H": "barrier fence membar",
    "I": "copysign cos ex2 lg2 rsqrt sin tanh",
    "K": "shfl",
    "M": "activemask bfe bfi bfind bmsk brev clz dp2a dp4a fns lop3 match popc prmt sad shf szext vote",
    "O": "call",
}
_BY_OPCODE = {opcode: family for family, opcodes in OPCODES.items() for opcode in opcodes.split()}
_SPACES = {"shared": "C", "const": "H", "local": "N"}
_MEMORY = ("ld", "ldu", "st", "atom", "red")
#: 64-bit operations that address arithmetic consists of, and those that are exact in their low half alone.
_ADDRESSES = ("add", "cvt", "cvta", "mad", "mov", "mul", "shl")
_LOW_HALF = ("and", "mad", "mul", "neg", "not", "or", "selp", "sub", "xor")
#: What no opcode or modifier above explains: rare roundings, types and special registers.
_RARE_SPECIALS = ("%clock", "%clock64", "%globaltimer", "%pm", "%envreg")


def families(module: Module) -> str:
    """The letters of all instructions of a module, in order, e.g. "ACM"."""
    used: set[str] = set()
    for function in module.functions:
        for instruction in function.body:
            used.update(_families(instruction))
    if any(_recursive(function.name, module) for function in module.functions):
        used.add("R")
    return "".join(sorted(used))


def _recursive(name: str, module: Module) -> bool:
    """Whether a function calls itself, through others or not."""
    bodies = {function.name: function.body for function in module.functions}
    waiting, seen = [name], set[str]()
    while waiting:
        for instruction in bodies.get(waiting.pop(), ()):
            called = {o.name for o in instruction.operands if isinstance(o, Symbol)}
            if instruction.opcode == "call" and name in called:
                return True
            waiting += sorted(called - seen) if instruction.opcode == "call" else []
            seen |= called
    return False


def _families(i: Instruction) -> Iterator[str]:
    """One instruction's families."""
    yield _BY_OPCODE.get(i.opcode, "Q")
    yield from (family for space, family in _SPACES.items() if i.has(space))
    for type_ in i.types:
        yield from _of_type(i, type_)
    yield from _of_modifiers(i)
    for operand in i.operands:
        yield from _of_operand(i, operand)


def _of_type(i: Instruction, type_: str) -> Iterator[str]:
    match type_:
        case "f64":
            yield "P"
        case "f16" | "f16x2" | "bf16" | "bf16x2" | "b128":
            yield "Q"
        case "f32" if i.opcode == "cvt":
            yield "M" if i.types == ("f32", "f32") else "F"
        case "f32" if i.opcode in ("div", "rcp", "sqrt"):
            yield "I" if i.has("approx", "full") else "F"
        case "f32" if i.opcode not in (*_MEMORY, "mov"):
            yield "B"
        case "s8" | "u8" | "b8" | "s16" | "u16" | "b16":
            yield "J"
        case "s64" | "u64" | "b64" if not (i.opcode in ("ld", "ldu") and i.has("param")):
            yield from _of_64_bits(i)


def _of_64_bits(i: Instruction) -> Iterator[str]:
    wide = i.has("wide", "hi")
    if i.opcode in ("atom", "red"):
        yield "S"
    elif i.opcode in _ADDRESSES and not (i.opcode in ("mad", "mul") and not wide) and not i.has("hi"):
        return
    else:
        yield "D" if i.opcode in _LOW_HALF and not i.has("hi") else "L"


def _of_modifiers(i: Instruction) -> Iterator[str]:
    if i.opcode in ("div", "rem") and i.types[0][0] in "su":
        yield "E"
    if i.has("v2", "v4"):
        yield "H"
    if i.has("hi") and i.opcode in ("mul", "mad"):
        yield "M"
    if i.has("rm", "rp", "rz", "sat") and i.opcode in ("add", "fma", "mul", "sub"):
        yield "I"
    if i.opcode == "cvt" and i.has("sat"):
        yield "I"
    if i.opcode in ("bar", "barrier") and i.has("red", "arrive", "warp"):
        yield "K" if i.has("warp") else "S"
    if i.opcode in ("ld", "st", "atom", "red") and not i.has("global", "shared", "const", "local", "param"):
        yield "S"  # a generic address


def _of_operand(i: Instruction, operand: Operand) -> Iterator[str]:
    if isinstance(operand, Vector) and i.opcode == "mov":
        yield "H"  # two halves of a register packed or unpacked
    if isinstance(operand, Special):
        if operand.name.startswith(("%lane", "%warpid", "%nwarpid")):
            yield "M"
        elif operand.name in _RARE_SPECIALS:
            yield "Q"

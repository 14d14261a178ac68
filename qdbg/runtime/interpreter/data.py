"""Data movement: mov, ld, st, cvta (PTX ISA 9.7.9), and setp, which has two destinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Operand, Pair, Space, Vector
from qdbg.runtime.interpreter.compare import COMBINATIONS, COMPARABLE, COMPARISONS, comparison
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array
from qdbg.runtime.interpreter.memory import LOCAL_WINDOW, PARAM_WINDOW
from qdbg.runtime.interpreter.operands import Decoder

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

#: Runs an instruction for the active lanes; control instructions return where these lanes go: an index in the
#: linked code, one for all or one a lane (int64 [lanes]); EXIT ends a lane, None falls through.
Action = Callable[["Warp", Array], "int | Array | None"]
Builder = Callable[[Decoder], Action]
BUILDERS: dict[str, Builder] = {}

_SPACES: tuple[Space, ...] = ("global", "shared", "const", "local", "param")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
#: Modifiers of memory instructions that change neither the value nor, in program order, its effect.
_HINTS = {
    *("nc", "volatile", "weak", "relaxed", "acquire", "release", "mmio", "unified"),
    *("ca", "cg", "cs", "lu", "cv", "wb", "wt"),
    *("cta", "cluster", "gpu", "sys"),
}


def builder(*opcodes: str) -> Callable[[Builder], Builder]:
    """Registers a builder of actions for opcodes."""

    def register(build: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(opcodes, build))
        return build

    return register


def allow(decoder: Decoder, *modifiers: str) -> None:
    """Refuses modifiers that the builder does not know: none is ever ignored silently."""
    known = {*modifiers, *decoder.instruction.types}
    for modifier in decoder.instruction.modifiers:
        if modifier not in known:
            raise Refusal(f"has .{modifier}, which is not supported yet")


@builder("mov")
def _mov(decoder: Decoder) -> Action:
    allow(decoder)
    destination, source = decoder.instruction.operands
    type_name = decoder.instruction.types[0]
    if isinstance(destination, Vector) or isinstance(source, Vector):
        return _mov_vector(decoder, destination, source, TYPE_BITS[type_name])
    if type_name != "pred":
        type_name = f"b{TYPE_BITS[type_name]}"
    read, write = decoder.read(source, type_name), decoder.write(destination, type_name)

    def action(warp: Warp, active: Array) -> None:
        write(warp, active, read(warp))

    return action


def _mov_vector(decoder: Decoder, destination: Operand, source: Operand, bits: int) -> Action:
    """Packs or unpacks; the first element is the least significant (PTX ISA, "mov")."""
    if isinstance(source, Vector) and not isinstance(destination, Vector):
        part = bits // len(source.elements)
        reads = [decoder.read(element, f"u{part}") for element in source.elements]
        write = decoder.write(destination, f"b{bits}")

        def pack(warp: Warp, active: Array) -> None:
            whole = np.zeros(warp.lanes, np.uint64)
            for place, read in enumerate(reads):
                whole |= read(warp).astype(np.uint64) << np.uint64(place * part)
            write(warp, active, whole.astype(DTYPES[f"b{bits}"]))

        return pack
    if not isinstance(destination, Vector) or isinstance(source, Vector):
        raise Refusal("moves a vector to a vector, which PTX does not have")
    part = bits // len(destination.elements)
    read = decoder.read(source, f"b{bits}")
    writes = [decoder.write(element, f"b{part}") for element in destination.elements]

    def unpack(warp: Warp, active: Array) -> None:
        whole = read(warp).astype(np.uint64)
        for place, write in enumerate(writes):
            write(warp, active, (whole >> np.uint64(place * part)).astype(DTYPES[f"b{part}"]))

    return unpack


def _space(decoder: Decoder) -> tuple[Space, int]:
    """The state space and the number of elements of a memory instruction."""
    space: Space = "generic"
    count = 1
    for modifier in decoder.instruction.modifiers:
        plain = modifier.split("::")[0]
        if plain in _SPACES:
            space = next(s for s in _SPACES if s == plain)
        elif modifier in _VECTORS:
            count = _VECTORS[modifier]
        elif modifier not in TYPE_BITS and modifier not in _HINTS and plain not in ("L1", "L2"):
            raise Refusal(f"has .{modifier}, which is not supported yet")
    return space, count


def _elements(operand: Operand, count: int) -> tuple[Operand | None, ...]:
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise Refusal(f"moves {count} elements but names {len(elements)}")
    return elements


@builder("ld", "ldu")
def _ld(decoder: Decoder) -> Action:
    space, count = _space(decoder)
    type_name = decoder.instruction.types[0]
    size, dtype = TYPE_BITS[type_name] // 8, DTYPES[type_name]
    destination, source = decoder.instruction.operands[:2]
    address, space = decoder.address(source), decoder.space(space, source)
    writes = [decoder.write(element, type_name) for element in _elements(destination, count)]

    def action(warp: Warp, active: Array) -> None:
        lanes, located = warp.locate(space, address(warp), active, size * count)
        for place, write in enumerate(writes):
            values = np.zeros(warp.lanes, dtype)
            values[lanes] = warp.memory.load(located + place * size, size).view(dtype)
            write(warp, active, values)

    return action


@builder("st")
def _st(decoder: Decoder) -> Action:
    space, count = _space(decoder)
    size = TYPE_BITS[decoder.instruction.types[0]] // 8
    destination, source = decoder.instruction.operands[:2]
    address, space = decoder.address(destination), decoder.space(space, destination)
    reads = [decoder.read(element, f"b{size * 8}") for element in _elements(source, count)]

    def action(warp: Warp, active: Array) -> None:
        lanes, located = warp.locate(space, address(warp), active, size * count)
        for place, read in enumerate(reads):
            warp.memory.store(located + place * size, size, read(warp)[lanes])

    return action


@builder("cvta")
def _cvta(decoder: Decoder) -> Action:
    """Between a state space's own addresses and generic ones; global and const addresses are generic."""
    allow(decoder, "to", *_SPACES, "shared::cta", "param::entry")
    space = next((m.split("::")[0] for m in decoder.instruction.modifiers if m.split("::")[0] in _SPACES), "")
    bases = {"shared": decoder.names.bound.shared_base, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
    shift = -bases.get(space, 0) if decoder.instruction.has("to") else bases.get(space, 0)
    type_name = decoder.instruction.types[0]
    destination, source = decoder.instruction.operands
    read, write = decoder.read(source, type_name), decoder.write(destination, type_name)
    step = np.array(shift, np.int64).astype(DTYPES[type_name])

    def action(warp: Warp, active: Array) -> None:
        write(warp, active, read(warp) + step)

    return action


@builder("setp")
def _setp(decoder: Decoder) -> Action:
    """p = (a cmp b) op c and q = (not (a cmp b)) op c: q is not simply the negation of p."""
    instruction = decoder.instruction
    type_name = instruction.types[0]
    if type_name not in COMPARABLE.split():
        raise Refusal(f"compares .{type_name}, which is not supported yet")
    allow(decoder, *COMPARISONS, *COMBINATIONS, "ftz")
    destination, *sources = instruction.operands
    compare = comparison(instruction, type_name)
    combine = next((f for m, f in COMBINATIONS.items() if instruction.has(m)), None)
    if len(sources) != (3 if combine else 2):
        raise Refusal("has the wrong number of operands")
    first, second = (decoder.read(operand, type_name) for operand in sources[:2])
    third = decoder.read(sources[2], "pred") if combine else None
    pair = destination if isinstance(destination, Pair) else None
    write_p = decoder.write(pair.first if pair else destination, "pred")
    write_q = decoder.write(pair.second, "pred") if pair and pair.second else None

    def action(warp: Warp, active: Array) -> None:
        holds = compare(first(warp), second(warp))
        p, q = holds, ~holds
        if combine is not None and third is not None:
            other = third(warp)
            p, q = combine(p, other), combine(q, other)
        write_p(warp, active, p)
        if write_q is not None:
            write_q(warp, active, q)

    return action

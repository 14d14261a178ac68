"""Data movement: mov, ld, st, cvta, isspacep (PTX ISA 9.7.9).

A `.b128` value is two 64-bit ones, the low half first: in registers, in memory and in `mov`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Immediate, Operand, Pair, Register, Space, Vector
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array
from qdbg.runtime.interpreter.names import HIGH
from qdbg.runtime.interpreter.operands import Decoder
from qdbg.runtime.launch_private import private_memory

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
    if type_name == "b128" or isinstance(destination, Vector) or isinstance(source, Vector):
        return _mov_parts(decoder, destination, source, TYPE_BITS[type_name])
    bits = type_name if type_name == "pred" else f"b{TYPE_BITS[type_name]}"
    read, write = decoder.read(source, _moved(source, type_name)), decoder.write(destination, bits)

    def action(warp: Warp, active: Array) -> None:
        write(warp, active, read(warp))

    return action


def _moved(operand: Operand | None, type_name: str) -> str:
    """The type as which a value is moved: its bits, but a constant is one of the instruction's type."""
    if type_name == "pred" or isinstance(operand, Immediate):
        return type_name
    return f"b{TYPE_BITS[type_name]}"


def _mov_parts(decoder: Decoder, destination: Operand, source: Operand, bits: int) -> Action:
    """Packs, unpacks or copies `bits` bits; the first element is the least significant (PTX ISA, "mov")."""
    if isinstance(destination, Vector) and isinstance(source, Vector):
        raise Refusal("moves a vector to a vector, which PTX does not have")
    from_, reads = _parts(source, bits)
    to, writes = _parts(destination, bits)
    readers = [decoder.read(element, f"b{from_}") for element in reads]
    writers = [decoder.write(element, f"b{to}") for element in writes]
    word = min(bits, 64)
    into, outof = word // from_, word // to  # parts of a word on either side

    def action(warp: Warp, active: Array) -> None:
        values = [read(warp).astype(np.uint64) for read in readers]
        for number in range(bits // word):
            whole = np.zeros(warp.lanes, np.uint64)
            for place, value in enumerate(values[number * into : (number + 1) * into]):
                whole |= value << np.uint64(place * from_)
            for place, write in enumerate(writers[number * outof : (number + 1) * outof]):
                write(warp, active, (whole >> np.uint64(place * to)).astype(DTYPES[f"b{to}"]))

    return action


def _parts(operand: Operand, bits: int) -> tuple[int, Sequence[Operand | None]]:
    """How wide the parts are that an operand of `bits` bits consists of, and these, low ones first."""
    if isinstance(operand, Vector):
        return bits // len(operand.elements), operand.elements
    return (64, halves(operand)) if bits == 128 else (bits, (operand,))


def halves(operand: Operand | None) -> tuple[Operand | None, Operand | None]:
    """The two 64-bit halves of a `.b128` register, the low one first."""
    if operand is None or operand == Pair(None, None):
        return None, None
    if not isinstance(operand, Register):
        raise Refusal("needs a .b128 register")
    return operand, Register(operand.name + HIGH)


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


def _elements(operand: Operand, count: int, type_name: str) -> tuple[str, list[Operand | None]]:
    """The elements that a load or store moves, and their type."""
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise Refusal(f"moves {count} elements but names {len(elements)}")
    if type_name == "b128":
        return "b64", [half for element in elements for half in halves(element)]
    return type_name, list(elements)


def _check_size(size: int) -> None:
    if size > 32:
        raise Refusal(f"moves {size} bytes at once, and PTX moves 32 at most")


@builder("ld", "ldu")
def _ld(decoder: Decoder) -> Action:
    space, count = _space(decoder)
    destination, source = decoder.instruction.operands[:2]
    type_name, elements = _elements(destination, count, decoder.instruction.types[0])
    size, dtype = TYPE_BITS[type_name] // 8, DTYPES[type_name]
    total = size * len(elements)
    _check_size(total)
    address, space = decoder.address(source), decoder.space(space, source)
    writes = [decoder.write(element, type_name) for element in elements]

    def action(warp: Warp, active: Array) -> None:
        lanes, located = warp.locate(space, address(warp), active, total)
        for place, write in enumerate(writes):
            values = np.zeros(warp.lanes, dtype)
            values[lanes] = warp.memory.load(located + place * size, size).view(dtype)
            write(warp, active, values)

    return action


@builder("st")
def _st(decoder: Decoder) -> Action:
    space, count = _space(decoder)
    destination, source = decoder.instruction.operands[:2]
    type_name, elements = _elements(source, count, decoder.instruction.types[0])
    size = TYPE_BITS[type_name] // 8
    total = size * len(elements)
    _check_size(total)
    address, space = decoder.address(destination), decoder.space(space, destination)
    if space in ("const", "param"):
        raise Refusal(f"stores to .{space}, which is read-only here")
    raw = np.dtype(f"<u{size}")
    reads = [decoder.read(element, _moved(element, type_name)) for element in elements]

    def action(warp: Warp, active: Array) -> None:
        lanes, located = warp.locate(space, address(warp), active, total)
        for place, read in enumerate(reads):
            warp.memory.store(located + place * size, size, read(warp)[lanes].view(raw))

    return action


@builder("cvta")
def _cvta(decoder: Decoder) -> Action:
    """Between a state space's own addresses and generic ones; global and const addresses are generic."""
    allow(decoder, "to", *_SPACES, "shared::cta", "param::entry")
    space = next((m.split("::")[0] for m in decoder.instruction.modifiers if m.split("::")[0] in _SPACES), "")
    type_name = decoder.instruction.types[0]
    destination, source = decoder.instruction.operands
    read, write = decoder.read(source, type_name), decoder.write(destination, type_name)
    to, dtype = decoder.instruction.has("to"), DTYPES[type_name]

    def action(warp: Warp, active: Array) -> None:
        window = _window(warp, space).astype(dtype)
        write(warp, active, read(warp) - window if to else read(warp) + window)

    return action


def _window(warp: Warp, space: str) -> Array:
    """The generic address (uint64) of a state space's address 0, for each lane."""
    memory = warp.memory
    if space == "local":
        return memory.local_window(warp.threads)
    bases = {"shared": memory.shared_window[0], "param": memory.private.parameters}
    return np.full(warp.lanes, bases.get(space, 0), np.uint64)


@builder("isspacep")
def _isspacep(decoder: Decoder) -> Action:
    """Whether a generic address lies in a state space; what lies in no other window is global or const."""
    allow(decoder, *_SPACES, "shared::cta", "param::entry")
    destination, source = decoder.instruction.operands
    read, write = decoder.read(source, "b64"), decoder.write(destination, "pred")
    space = next(m.split("::")[0] for m in decoder.instruction.modifiers)
    bound = decoder.names.bound
    private = private_memory(bound)
    const = [(a.address, a.allocated_end) for a in bound.allocations if a.space == "const"]
    windows = {
        "shared": [(bound.shared_base, bound.memory_end)],
        "local": [(private.local, 1 << 32)],
        "param": [(private.parameters, private.local)],
        "const": const,
    }
    chosen = windows.get(space) or [window for several in windows.values() for window in several]

    def action(warp: Warp, active: Array) -> None:
        addresses = read(warp)
        inside = np.zeros(warp.lanes, np.bool_)
        for start, end in chosen:
            inside |= (addresses >= np.uint64(start)) & (addresses < np.uint64(end))
        write(warp, active, ~inside if space == "global" else inside)

    return action

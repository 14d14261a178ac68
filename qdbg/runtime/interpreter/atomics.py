"""Atomic read-modify-write: atom and red (PTX ISA 9.7.13, "atom", "red").

The lanes of an instruction take their turns in lane order, each seeing what those below it left.  Memory is
sequentially consistent here, so that `.sem` and `.scope` change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction, Space
from qdbg.runtime.interpreter.data import Action, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array, find_form
from qdbg.runtime.interpreter.operands import Decoder

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

#: What is stored, from the old value and the operands, all of one dtype.
Update = Callable[..., Array]

_SPACES: dict[str, Space] = {
    "global": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared",
}  # fmt: skip
_ORDER = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"}
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _adder(type_name: str, *modifiers: str) -> Update:
    """What `add.rn` computes for a floating-point type."""
    form = find_form(Instruction(0, 0, "", "add", ("rn", *modifiers, type_name), ()))
    assert form is not None
    return form.function


#: Operation -> (types, operands, what it stores).
_UPDATES: dict[str, tuple[str, int, Update]] = {
    "add": ("u32 s32 u64 f32 f64", 1, np.add),
    "inc": ("u32", 1, _increment),
    "dec": ("u32", 1, _decrement),
    "min": ("u32 s32 u64 s64", 1, np.minimum),
    "max": ("u32 s32 u64 s64", 1, np.maximum),
    "and": ("b32 b64", 1, np.bitwise_and),
    "or": ("b32 b64", 1, np.bitwise_or),
    "xor": ("b32 b64", 1, np.bitwise_xor),
    "exch": ("b32 b64", 1, lambda old, new: new),
    "cas": ("b16 b32 b64", 2, lambda old, compare, new: np.where(old == compare, new, old)),
}
#: What `red` cannot do: without a result these would be stores.
_NEEDS_RESULT = ("exch", "cas")


@builder("atom", "red")
def _atomic(decoder: Decoder) -> Action:
    instruction = decoder.instruction
    space, operation, type_name = _parse(instruction)
    update, arity = _update(operation, type_name, instruction.has("noftz"))
    returns = instruction.opcode == "atom"
    if not returns and operation in _NEEDS_RESULT:
        raise Refusal(f"reduces with .{operation}, which only atom has")
    if len(instruction.operands) != 1 + returns + arity:
        raise Refusal(f"takes {1 + returns + arity} operands, not {len(instruction.operands)}")
    size = TYPE_BITS[type_name] // 8
    dtype, raw = DTYPES[type_name], DTYPES[f"u{size * 8}"]
    target, *sources = instruction.operands[returns:]
    address, space = decoder.address(target), decoder.space(space, target)
    reads = [decoder.read(source, type_name) for source in sources]
    write = decoder.write(instruction.operands[0], type_name) if returns else None
    #: In global memory f32 addition takes subnormals for zeros, as operands and as the result.
    flushed = _adder("f32", "ftz") if (operation, type_name) == ("add", "f32") else None

    def action(warp: Warp, active: Array) -> None:
        lanes, located = warp.locate(space, address(warp), active, size)
        values = [read(warp)[lanes] for read in reads]
        found = np.zeros(len(lanes), dtype)
        for turn in _turns(located):
            places = located[turn]
            old = warp.memory.load(places, size).view(dtype)
            new = update(old, *[value[turn] for value in values])
            if flushed is not None:
                new = np.where(warp.memory.is_shared(places), new, flushed(old, values[0][turn]))
            warp.memory.store(places, size, new.astype(dtype, copy=False).view(raw))
            found[turn] = old
        if write is not None:
            result = np.zeros(warp.lanes, dtype)
            result[lanes] = found
            write(warp, active, result)

    return action


def _parse(instruction: Instruction) -> tuple[Space, str, str]:
    """State space, operation and type; every modifier must be known."""
    space: Space = "generic"
    operation = type_name = ""
    for modifier in instruction.modifiers:
        if modifier in _SPACES:
            space = _SPACES[modifier]
        elif modifier in _UPDATES and not operation:
            operation = modifier
        elif modifier in TYPE_BITS and not type_name:
            type_name = modifier
        elif modifier not in _ORDER and not (modifier == "noftz" and operation == "add"):
            raise Refusal(f"has .{modifier}, which is not supported yet")
    if not operation or not type_name:
        raise Refusal("names no atomic operation and type")
    return space, operation, type_name


def _update(operation: str, type_name: str, noftz: bool) -> tuple[Update, int]:
    """What an operation stores, and how many operands it takes."""
    types, arity, update = _UPDATES[operation]
    if operation == "add" and type_name in _HALVES:
        if not noftz:
            raise Refusal(f"adds .{type_name} without .noftz, which PTX requires")
        return _adder(type_name), arity
    if type_name not in types.split() or noftz:
        raise Refusal(
            f"does .{operation} on .{type_name}, which PTX does not have; it has .{types.replace(' ', ', .')}"
        )
    return (_adder(type_name) if type_name in ("f32", "f64") else update), arity


def _turns(located: Array) -> Iterator[slice | Array]:
    """Groups of positions in which no place occurs twice, each place's accesses in lane order."""
    order = np.argsort(located, kind="stable")
    ranked = located[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    if len(starts) == len(located):
        yield slice(None)
        return
    rank = np.arange(len(located)) - np.repeat(starts, np.diff(np.append(starts, len(located))))
    for turn in range(int(rank.max()) + 1):
        yield order[rank == turn]

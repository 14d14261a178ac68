"""Warp-level data exchange: shfl, vote, match, redux, activemask (PTX ISA 9.7.9 and 9.7.13).

Without `.sync`, shfl and vote are the forms of PTX before 6.0: over the lanes that happen to be active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Operand, Pair
from qdbg.runtime.interpreter.collectives import Collective, lane_mask, meeting_number
from qdbg.runtime.interpreter.data import Action, allow, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.operands import Decoder, Write

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

_MODES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_BITWISE = ("and", "or", "xor")


@builder("shfl")
def _shfl(decoder: Decoder) -> Action:
    """Reads another lane's register.  `p` says whether the source lane was in range, nothing more.

    The value of a lane that does not take part is undefined: the reader keeps its own, and it is a finding.
    """
    allow(decoder, "sync", *_MODES)
    _need_type(decoder, "b32")
    mode = _one_of(decoder, _MODES)
    destination, *sources = _operands(decoder, 4)
    values = tuple(decoder.read(source, "b32") for source in sources[:3])

    def compute(warp: Warp, together: Array, a: Array, b: Array, c: Array) -> tuple[Array, ...]:
        lane = np.arange(warp.lanes)
        source, in_range = source_lanes(mode, lane, b.astype(np.int64), c.astype(np.int64))
        source = np.where(in_range, source, lane)
        absent = together & ((source >= warp.lanes) | ~together[np.minimum(source, warp.lanes - 1)])
        if absent.any():
            _report_absent(warp, int(absent.argmax()), int(source[absent.argmax()]))
        return a[np.where(absent, lane, source)], in_range

    return _collective(decoder, values, compute, _pair(decoder, destination, "b32"), sources[3:])


def source_lanes(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The lanes that shfl reads from, and whether each is in range (PTX ISA, "shfl.sync", Semantics).

    int64 arrays: a lane's number, and its operands b (lane or offset) and c (clamp, segment mask).
    """
    offset, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - offset
        return source, source >= last
    source = {"down": lane + offset, "bfly": lane ^ offset, "idx": (lane & segment) | (offset & ~segment)}[
        mode
    ]
    return source, source <= last


@builder("vote")
def _vote(decoder: Decoder) -> Action:
    allow(decoder, "sync", *_VOTES)
    mode = _one_of(decoder, _VOTES)
    type_name = "b32" if mode == "ballot" else "pred"
    _need_type(decoder, type_name)
    destination, source, *members = _operands(decoder, 2)
    holds = (decoder.read(source, "pred"),)

    def compute(warp: Warp, together: Array, predicate: Array) -> tuple[Array, ...]:
        true, false = predicate & together, ~predicate & together
        if mode == "ballot":
            return (np.full(warp.lanes, lane_mask(true), np.uint32),)
        answer = {"all": not false.any(), "any": true.any(), "uni": not (true.any() and false.any())}[mode]
        return (np.full(warp.lanes, answer),)

    return _collective(decoder, holds, compute, (decoder.write(destination, type_name),), members)


@builder("match")
def _match(decoder: Decoder) -> Action:
    """any: the lanes that hold this lane's value; all: everyone, and true, if they all hold the same one."""
    allow(decoder, "sync", "any", "all")
    mode = _one_of(decoder, ("any", "all"))
    _one_of(decoder, ("sync",))
    _need_type(decoder, "b32", "b64")
    destination, source, *members = _operands(decoder, 2)
    values = (decoder.read(source, decoder.instruction.types[0]),)

    def compute(warp: Warp, together: Array, value: Array) -> tuple[Array, ...]:
        equal = (value[:, None] == value[None, :]) & together
        if mode == "any":
            found = [lane_mask(row) for row in equal]
            return np.array(found, np.uint32), np.ones(warp.lanes, np.bool_)
        same = bool(equal[together.argmax()][together].all())
        return np.full(warp.lanes, lane_mask(together) if same else 0, np.uint32), np.full(warp.lanes, same)

    if mode == "any" and isinstance(destination, Pair) and destination.second is not None:
        raise Refusal("has a predicate destination, which only match.all has")
    return _collective(decoder, values, compute, _pair(decoder, destination, "b32"), members)


@builder("redux")
def _redux(decoder: Decoder) -> Action:
    allow(decoder, "sync", *_REDUCTIONS)
    operation = _one_of(decoder, tuple(_REDUCTIONS))
    _one_of(decoder, ("sync",))
    _need_type(decoder, *(("b32",) if operation in _BITWISE else ("u32", "s32")))
    type_name = decoder.instruction.types[0]
    destination, source, *members = _operands(decoder, 2)
    values = (decoder.read(source, type_name),)

    def compute(warp: Warp, together: Array, value: Array) -> tuple[Array, ...]:
        reduced = _REDUCTIONS[operation].reduce(value[together], dtype=value.dtype)
        return (np.full(warp.lanes, reduced),)

    return _collective(decoder, values, compute, (decoder.write(destination, type_name),), members)


@builder("activemask")
def _activemask(decoder: Decoder) -> Action:
    """The lanes that execute this instruction together with their guard true."""
    allow(decoder)
    _need_type(decoder, "b32")
    (destination,) = decoder.instruction.operands
    write = decoder.write(destination, "b32")

    def action(warp: Warp, active: Array) -> None:
        write(warp, active, np.full(warp.lanes, lane_mask(active), np.uint32))

    return action


def _collective(
    decoder: Decoder,
    operands: tuple[Callable[[Warp], Array], ...],
    compute: Callable[..., tuple[Array, ...]],
    writes: tuple[Write, ...],
    members: list[Operand],
) -> Action:
    """The action of a `.sync` instruction, or of one for the active lanes where there is no member mask."""
    number = meeting_number(decoder.instruction.name)
    if members:
        return Collective(number, decoder.read(members[0], "u32"), operands, compute, writes)

    def action(warp: Warp, active: Array) -> None:
        results = compute(warp, active, *[read(warp) for read in operands])
        for write, result in zip(writes, results, strict=True):
            write(warp, active, result)

    return action


def _operands(decoder: Decoder, count: int) -> list[Operand]:
    """The operands, of which there are `count`, and with `.sync` a member mask."""
    wanted = count + decoder.instruction.has("sync")
    if len(decoder.instruction.operands) != wanted:
        raise Refusal(f"takes {wanted} operands, not {len(decoder.instruction.operands)}")
    return list(decoder.instruction.operands)


def _one_of(decoder: Decoder, modifiers: tuple[str, ...]) -> str:
    found = [m for m in decoder.instruction.modifiers if m in modifiers]
    if len(found) != 1:
        raise Refusal(f"needs one of .{', .'.join(modifiers)}")
    return found[0]


def _need_type(decoder: Decoder, *type_names: str) -> None:
    if decoder.instruction.types not in [(name,) for name in type_names]:
        raise Refusal(f"needs the type .{' or .'.join(type_names)}")


def _pair(decoder: Decoder, destination: Operand, type_name: str) -> tuple[Write, Write]:
    """Writers of `d` or `d|p`."""
    pair = destination if isinstance(destination, Pair) else Pair(None, None)
    value = pair.first if isinstance(destination, Pair) else destination
    return decoder.write(value, type_name), decoder.write(pair.second, "pred")


def _report_absent(warp: Warp, lane: int, source: int) -> None:
    findings, index = warp.program.findings, warp.place(lane)
    if findings.is_new("inactive lane", index):
        gone = source >= warp.lanes or not warp.live[source]
        why = "does not exist or has exited" if gone else "does not take part"
        findings.add(
            "inactive lane", warp, index, lane,
            f"reads the register of lane {source}, which {why}: an undefined value",
            "let that lane execute the instruction and name it in the member mask, or ignore what is read",
        )  # fmt: skip

"""Control flow, barriers and instructions without effect (PTX ISA 9.7.12 and 9.7.13).

An action returns the index in the linked code at which its active lanes go on, -1 to exit, an array of one
index a lane, or None to fall through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Immediate, Label, Vector
from qdbg.runtime.interpreter.data import Action, allow, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.names import EXIT
from qdbg.runtime.interpreter.operands import Decoder

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp


@builder("bra")
def _bra(decoder: Decoder) -> Action:
    allow(decoder, "uni")
    (label,) = decoder.instruction.operands
    if not isinstance(label, Label):
        raise Refusal("branches to something that is not a label")
    target = decoder.names.target(label.name)

    def action(warp: Warp, active: Array) -> int:
        return target

    return action


@builder("brx")
def _brx(decoder: Decoder) -> Action:
    """Each lane goes to the label that its index chooses; an index beyond the table is an error."""
    allow(decoder, "idx", "uni")
    source, table = decoder.instruction.operands
    read = decoder.read(source, "u32")
    labels = (
        [one.name for one in table.elements if isinstance(one, Label)] if isinstance(table, Vector) else []
    )
    targets = np.array([decoder.names.target(name) for name in labels], np.int64)

    def action(warp: Warp, active: Array) -> Array:
        chosen = read(warp)
        wrong = active & (chosen >= len(targets))
        if wrong.any():
            lane = int(np.argmax(wrong))
            raise warp.fault(
                f"{warp.name(lane)} branches by entry {int(chosen[lane])} of a table of {len(targets)}; "
                "check the index", "out of bounds", lane,
            )  # fmt: skip
        return targets[np.where(active, chosen, 0)]

    return action


@builder("exit")
def _exit(decoder: Decoder) -> Action:
    allow(decoder)

    def action(warp: Warp, active: Array) -> int:
        return EXIT

    return action


@builder("trap")
def _trap(decoder: Decoder) -> Action:
    allow(decoder)

    def action(warp: Warp, active: Array) -> None:
        lane = int(np.argmax(active))
        raise warp.fault(f"{warp.name(lane)} executed trap", "trap", lane)

    return action


@builder(
    "membar",
    "fence",
    "nanosleep",
    "brkpt",
    "pmevent",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
    "griddepcontrol",
)
def _no_effect(decoder: Decoder) -> Action:
    """Memory here is sequentially consistent and has no caches, so that ordering and hints do nothing."""

    def action(warp: Warp, active: Array) -> None:
        return None

    return action


@builder("bar", "barrier")
def _bar(decoder: Decoder) -> Action:
    instruction = decoder.instruction
    allow(decoder, "sync", "arrive", "warp", "cta", "aligned")
    operands = instruction.operands
    if instruction.has("warp"):
        members = decoder.read(operands[0], "u32")

        def wait_for_warp(warp: Warp, active: Array) -> None:
            warp.wait_for_lanes(active, members(warp))

        return wait_for_warp
    ident = decoder.read(operands[0], "u32")
    count = decoder.read(operands[1] if len(operands) > 1 else Immediate(0), "u32")
    waits = instruction.has("sync")

    def action(warp: Warp, active: Array) -> None:
        if waits:
            warp.wait_at_barrier(active, ident(warp), count(warp))
        else:
            warp.arrive_at_barrier(int(ident(warp)[int(np.argmax(active))]))

    return action

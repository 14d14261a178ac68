"""Control flow and instructions without effect (PTX ISA 9.7.12 and 9.7.13).

An action returns the index in the linked code at which its active lanes go on, -1 to exit, an array of one
index a lane, or None to fall through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Label, Vector
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

"""Instructions that lanes of a warp execute together.

A `.sync` instruction makes a thread wait until every thread of its member mask that has not exited has
executed the same instruction: one "with the same qualifiers and same membermask value" (PTX ISA 9.7.9,
"shfl.sync"; likewise vote, match, redux and bar.warp.sync).  It need not stand in the same place: lanes of
two branches meet, each at its own instruction, and the operation is over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdbg.runtime.interpreter.errors import Fault
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.operands import Read, Write

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

#: `Warp.barrier` of a lane that waits at a collective: this and above.  Those of the block are 0 to 15.
FIRST_MEETING = 16
_numbers: dict[str, int] = {}


def meeting_number(name: str) -> int:
    """What `Warp.barrier` holds for the collectives with this full name (opcode and qualifiers)."""
    return FIRST_MEETING + _numbers.setdefault(name, len(_numbers))


@dataclass(frozen=True)
class Collective:
    """The action of such an instruction.

    `members` reads the lanes' member masks.  `compute(warp, together, *operands)` gives a result for each of
    `writes`, for the lanes `together` (bool [lanes]) that met; the operands are what each lane's own
    instruction reads.
    """

    number: int
    members: Read
    operands: tuple[Read, ...]
    compute: Callable[..., tuple[Array, ...]]
    writes: tuple[Write, ...] = ()

    def __call__(self, warp: Warp, active: Array) -> None:
        """The active lanes arrive; raises `Fault` for one that its member mask does not name."""
        members = self.members(warp)
        mask = int(members[active.argmax()])
        here = lane_mask(active)
        if (members[active] == mask).all():
            if here & ~mask:
                raise _outsider(warp, active, members)
            if not mask & lane_mask(warp.live) & ~here:
                self.finish(warp, active, [(self, active)])
                return
        elif (active & (members >> _lanes(warp) & 1 == 0)).any():
            raise _outsider(warp, active, members)
        warp.wait_at_barrier(active, np.full(warp.lanes, self.number), members)

    def finish(self, warp: Warp, together: Array, parts: list[tuple[Collective, Array]]) -> None:
        """Give all lanes that met their results; `parts` says which of them stand at which instruction."""
        operands = [read(warp) for read in self.operands]
        for other, lanes in parts[1:]:
            theirs = [read(warp) for read in other.operands]
            operands = [np.where(lanes, new, old) for old, new in zip(operands, theirs, strict=True)]
        results = self.compute(warp, together, *operands)
        for one, lanes in parts:
            for write, result in zip(one.writes, results, strict=True):
                write(warp, lanes, result)


def open_meetings(warp: Warp) -> None:
    """Finish the collectives of a warp at which no lane is missing any more."""
    live = lane_mask(warp.live)
    for together in meetings(warp):
        first = int(together.argmax())
        if not int(warp.needed[first]) & live & ~lane_mask(together):
            finish_meeting(warp, together)


def finish_meeting(warp: Warp, together: Array) -> None:
    """Finish the collective at which these lanes wait, and let them go on."""
    places = {int(index) for index in warp.waiting[together]}
    parts = [(_at(warp, index), together & (warp.waiting == index)) for index in sorted(places)]
    parts[0][0].finish(warp, together, parts)
    warp.waiting[together] = -1


def meetings(warp: Warp) -> Iterator[Array]:
    """The groups of lanes (bool [lanes]) that wait for the same members at the same kind of collective."""
    waiting = (warp.waiting >= 0) & (warp.barrier >= FIRST_MEETING)
    keys = {(int(b), int(m)) for b, m in zip(warp.barrier[waiting], warp.needed[waiting], strict=True)}
    for number, members in sorted(keys):
        yield waiting & (warp.barrier == number) & (warp.needed == members)


def lane_mask(lanes: Array) -> int:
    """bool [lanes] as the bits of a member mask."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def _at(warp: Warp, index: int) -> Collective:
    action = warp.program.operation(index).action
    assert isinstance(action, Collective)
    return action


def _lanes(warp: Warp) -> Array:
    return np.arange(warp.lanes, dtype=np.uint32)


def _outsider(warp: Warp, active: Array, members: Array) -> Fault:
    lane = int((active & (members >> _lanes(warp) & 1 == 0)).argmax())
    message = (
        f"{warp.name(lane)} is lane {lane}, which its member mask {int(members[lane]):#x} does not name, "
        "so that the result is undefined; name every lane that executes it"
    )
    return warp.fault(message, "member mask", lane)

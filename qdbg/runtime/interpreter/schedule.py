"""Which lanes of a warp run next.

Of the lanes that can run, those furthest behind in control-flow order go first, so that the others wait and
all meet again at the latest where their paths join (the post-dominator).  That alone could starve a lane,
say the one that holds the lock which those behind it spin for, whereas independent thread scheduling (sm_70
and later) promises that every thread makes progress.  So patience is limited: when lanes were left waiting
for `PATIENCE` in a row, those that ran go behind all others.  An instruction by which a loop may wait for
another lane (an atomic, a volatile or ordered load) counts many times as much as others, `nanosleep` as much
as it takes.  Who waits for whom never changes results that do not depend on timing, since each lane has a pc
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

Mask = NDArray[np.bool_]
#: An instruction, the lanes at it, and whether no other lane can run.
Choice = tuple[int, Mask, bool]

#: How long lanes may be left waiting by others of their warp: the sum of the weights of what these execute.
PATIENCE = 4096
#: Choices that are remembered.
_REMEMBERED = 1 << 13


class Schedule:
    """The turns of one warp's lanes: int64 [lanes], those with lower numbers run first.

    `known` remembers choices; the warps of a launch share it.
    """

    def __init__(self, lanes: int, known: dict[bytes, Choice | None]):
        self.turns = np.zeros(lanes, np.int64)
        self._waited = 0  # by lanes for others in a row, counted as PATIENCE is
        self._known = known

    def choose(self, warp: Warp) -> Choice | None:
        """What to issue next, None if no lane can run; the mask is not to be modified.

        It follows from `pc`, `waiting`, the turns and the calls that lanes are in, and is remembered, since a
        loop comes to the same places again.
        """
        key = warp.pc.tobytes() + warp.waiting.tobytes() + self.turns.tobytes()
        if warp.program.has_calls:
            calls = warp.stack.key()
            if calls is None:
                return self._find(warp)
            key += calls
        known = self._known
        if key not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = self._find(warp)
        return known[key]

    def ran(self, mask: Mask, alone: bool, weight: int) -> None:
        """Note that the lanes in `mask` ran, and unless `alone` others waited for them."""
        if alone:
            if self._waited:
                self._waited = 0
                self.turns[:] = 0
            return
        self._waited += weight
        if self._waited >= PATIENCE:
            self._waited = 1
            self.turns[mask] = self.turns.max() + 1

    def copy(self) -> Schedule:
        """An independent copy."""
        copy = Schedule(len(self.turns), self._known)
        copy.turns[:] = self.turns
        copy._waited = self._waited
        return copy

    def _find(self, warp: Warp) -> Choice | None:
        runnable = warp.runnable
        lanes = np.flatnonzero(runnable)
        if not len(lanes):
            return None
        turns = self.turns[lanes]
        first = warp.stack.first(lanes[turns == turns.min()], warp.pc, warp.program.rank)
        index = int(warp.pc[first])
        mask = runnable & (warp.pc == index)
        mask.flags.writeable = False
        return index, mask, np.count_nonzero(mask) == len(lanes)

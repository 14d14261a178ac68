"""The past of a launch: snapshots to return to.

An earlier place is reached from the newest snapshot before it, by making the forward passes in between
again.  Snapshots are taken every few passes.  When they outgrow their memory, those go first whose
neighbours lie closest in proportion to their age, so that the near past stays dense and the far past
thins out; passes that are made again leave snapshots as the first time, so the past becomes dense
again where somebody walks in it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.isa import Reg
from qdbg.runtime.log import Place
from qdbg.runtime.trace import Event, Trace

#: Forward passes between two snapshots, and seconds if those passes take longer: replaying either is
#: well under what a person notices.
EVERY, SECONDS = 64, 0.04
#: Bytes for snapshots, unless somebody says otherwise.
BUDGET = 256 << 20
#: What trace, token events and the objects themselves add to a snapshot, in bytes.
_REST = 24_000
#: A scalar, and an entry of a dictionary, in bytes.
_SCALAR, _ENTRY = 32, 64


@dataclass(frozen=True, eq=False)
class Moment:
    """Everything that is needed to be at `place` again; never modified."""

    place: Place
    engine: Any
    lockstep: Any
    trace: Trace
    recent: tuple[Event, ...]
    seen: Mapping[str, NDArray[np.int64]]
    holds: Mapping[Reg, NDArray[np.object_]]
    completed: int
    held: int | None


class History:
    """Moments by place, within a budget of bytes; 0 keeps the first one alone."""

    def __init__(self, budget: int = BUDGET, every: int = EVERY, clock: Callable[[], float] = time.monotonic):
        self._budget, self._every, self._clock = budget, every, clock
        self._moments: list[Moment] = []
        self._sizes: list[int] = []
        self._shared: set[int] = set()  # what the first moment holds costs the others nothing
        self._last = 0.0

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def used(self) -> int:
        """Bytes that the moments hold, about."""
        return sum(self._sizes)

    @property
    def budget(self) -> int:
        """Bytes that they may hold."""
        return self._budget

    @budget.setter
    def budget(self, size: int) -> None:
        self._budget = size
        self._thin()

    def due(self, passes: int) -> bool:
        """Whether a moment should be kept after so many passes."""
        if not self._budget or passes <= (last := self._moments[-1].place.passes):
            return False
        return passes - last >= self._every or self._clock() - self._last >= SECONDS

    def keep(self, moment: Moment) -> None:
        """Add a moment that is later than all others."""
        seen = set(self._shared)
        size = weight(moment.engine, seen) + weight(moment.lockstep, seen)
        self._sizes.append(_REST + size)
        self._moments.append(moment)
        if len(self._moments) == 1:
            self._shared = seen
        self._thin()
        self._last = self._clock()

    def rewind(self, place: Place) -> Moment:
        """The newest moment that is not behind `place`; later ones are forgotten."""
        count = bisect_right(self._moments, place, key=lambda moment: moment.place)
        del self._moments[count:], self._sizes[count:]
        self._last = self._clock()
        return self._moments[-1]

    def _thin(self) -> None:
        """Forget moments until the others fit; the first one stays."""
        excess = self.used - self._budget
        if excess <= 0:
            return
        passes = np.array([moment.place.passes for moment in self._moments])
        passes = np.append(passes, passes[-1] + self._every)  # its end stands for now
        while excess > 0 and len(self._moments) > 1:
            gap, age = passes[2:] - passes[:-2], passes[-1] - passes[1:-1]
            victim = 1 + int(np.argmin(gap / age))
            excess -= self._sizes[victim]
            passes = np.delete(passes, victim)
            del self._moments[victim], self._sizes[victim]


def weight(value: Any, seen: set[int]) -> int:
    """The bytes that a value and what it refers to take, about.

    seen: ids of objects that cost nothing any more, all of them alive; those met are added to it.
    """
    if value is None or isinstance(value, int | float | str | type):
        return _SCALAR
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if (size := getattr(value, "nbytes", None)) is not None:
        return int(size) + 2 * _ENTRY
    if isinstance(value, Mapping):
        return sum(_ENTRY + weight(part, seen) for part in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return _ENTRY + sum(weight(part, seen) for part in value)
    names = getattr(type(value), "__slots__", ())
    parts = [getattr(value, name) for name in names] or getattr(value, "__dict__", {}).values()
    return _ENTRY + sum(weight(part, seen) for part in parts)

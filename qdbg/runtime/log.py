"""Where a launch came by, a few bytes a PTX instruction: enough to find any earlier place to go back to."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Place(NamedTuple):
    """A point of a launch: forward passes made, and free PTX instructions stepped over since the newest."""

    passes: int
    skips: int = 0


class Log:
    """Stands and skips.  A *stand* is a number of passes after which the machine stood in front of a PTX
    instruction; a *skip* is a free instruction that was stepped over by itself.
    """

    def __init__(self, path: Callable[[int, int], tuple[int, ...]]):
        """path: the PTX instructions from one up to another, as `Correspondence.path`."""
        self._path = path
        self._stands = array("q")
        self._next = array("i")  # the PTX instruction that came next there
        self._anchor = array("i")  # and the one that the machine completed next
        self._skips = array("q")  # passes at which a free instruction was stepped over, once for each

    def stand(self, passes: int, index: int, anchor: int) -> None:
        """The machine stands in front of PTX instruction `index`; known stands are left alone."""
        if not self._stands or passes > self._stands[-1]:
            self._stands.append(passes)
            self._next.append(index)
            self._anchor.append(anchor)

    def skip(self, passes: int) -> None:
        """A free PTX instruction was stepped over after so many passes."""
        self._skips.append(passes)

    def skips(self, passes: int) -> int:
        """How many were stepped over after so many passes."""
        return bisect_right(self._skips, passes) - bisect_left(self._skips, passes)

    def earlier(self, here: Place) -> Iterator[tuple[Place, int]]:
        """Places before `here` in front of a PTX instruction, and that instruction, newest first."""
        for i in range(bisect_right(self._stands, here.passes) - 1, -1, -1):
            path = self._path(self._next[i], self._anchor[i])
            for skips in range(len(path) - 1, -1, -1):
                place = Place(self._stands[i], skips)
                if place < here:
                    yield place, path[skips]

    def arrivals(self, here: Place, line: Callable[[int], int | None]) -> Iterator[Place]:
        """Those of them that begin a line, after an instruction of another one; `line` of an instruction."""
        arrival: Place | None = None
        current: int | None = None
        for place, index in self.earlier(here):
            if (at := line(index)) is None:
                continue
            if arrival is not None and at != current:
                yield arrival
            arrival, current = place, at
        if arrival is not None:
            yield arrival

    def truncate(self, place: Place) -> None:
        """Forget what came behind a place."""
        count = bisect_right(self._stands, place.passes)
        del self._stands[count:], self._next[count:], self._anchor[count:]
        del self._skips[bisect_left(self._skips, place.passes) + place.skips :]

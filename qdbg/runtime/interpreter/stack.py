"""The call stacks of a warp: one a lane, each with its own depth (PTX ISA 9.7.12, "call" and "ret")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[np.intp]
Registers = Mapping[str, NDArray[np.uint64]]

#: Depths up to which there is a key: 16 of them are 4 KiB in a warp of 32 lanes.
_DEEP = 16


class Stack:
    """Return addresses, frames and saved registers.

    depth: int64 [lanes], calls that a lane is in; frame, top: uint64 [lanes], where its current frame begins
    and ends in local memory.  A row of the stacked arrays belongs to a depth, a column to a lane.
    """

    def __init__(self, lanes: int, frame_bytes: int):
        """`frame_bytes`: the size of the kernel's own frame, which begins at 0."""
        self.depth = np.zeros(lanes, np.int64)
        self.frame = np.zeros(lanes, np.uint64)
        self.top = np.full(lanes, frame_bytes, np.uint64)
        self._returns = np.zeros((0, lanes), np.int64)
        self._frames = np.zeros((0, lanes), np.uint64)
        self._tops = np.zeros((0, lanes), np.uint64)
        self._saved: dict[str, NDArray[np.uint64]] = {}

    def push(
        self, lanes: Lanes, going_on: int, frames: NDArray[np.uint64], size: int, save: Iterable[str],
        registers: Registers,
    ) -> None:  # fmt: skip
        """Enter frames of `size` bytes at `frames`; the lanes will go on at `going_on`.

        The registers named in `save` come back when the frame is left.
        """
        level = self.depth[lanes]
        self._grow(int(level.max()) + 1)
        self._returns[level, lanes] = going_on
        self._frames[level, lanes] = self.frame[lanes]
        self._tops[level, lanes] = self.top[lanes]
        for name in save:
            rows = self._saved.get(name, self._frames[:0])
            if len(rows) < len(self._frames):
                rows = self._saved[name] = _taller(rows, len(self._frames))
            rows[level, lanes] = registers[name][lanes]
        self.frame[lanes] = frames
        self.top[lanes] = frames + np.uint64(size)
        self.depth[lanes] += 1

    def pop(self, lanes: Lanes, saved: Iterable[str], registers: Registers) -> None:
        """Leave the current frame."""
        self.depth[lanes] -= 1
        level = self.depth[lanes]
        self.frame[lanes] = self._frames[level, lanes]
        self.top[lanes] = self._tops[level, lanes]
        for name in saved:
            registers[name][lanes] = self._saved[name][level, lanes]

    def going_on(self, lanes: Lanes) -> NDArray[np.int64]:
        """Where each of the lanes goes on when it leaves its current frame."""
        found: NDArray[np.int64] = self._returns[self.depth[lanes] - 1, lanes]
        return found

    def callers(self, lane: int) -> list[int]:
        """The indices of the calls that a lane is in, the outermost first."""
        return [int(index) - 1 for index in self._returns[: self.depth[lane], lane]]

    def first(self, lanes: Lanes, pc: NDArray[np.int64], rank: NDArray[np.int64]) -> int:
        """The lane that is furthest behind in control-flow order.

        Call stacks are compared from the outermost frame inwards.  A lane about to execute a call is behind
        one that is in the same call, and this one is behind all that have returned from it.
        """
        level = 0
        while True:
            inside = self.depth[lanes] > level
            if not inside.any():
                return int(lanes[rank[pc[lanes]].argmin()])
            at = np.where(inside, self._returns[level, lanes] - 1, pc[lanes])
            order = 2 * rank[at] + inside
            least = order.min()
            lanes = lanes[order == least]
            if not least & 1:
                return int(lanes[0])
            level += 1

    def key(self) -> bytes | None:
        """Stacks of the same key are alike; None where calls are nested too deeply to have a short key."""
        if len(self._returns) > _DEEP:
            return None
        return self.depth.tobytes() + self._returns.tobytes()

    def copy(self) -> Stack:
        """An independent copy."""
        copy = object.__new__(Stack)
        for name, value in vars(self).items():
            is_array = isinstance(value, np.ndarray)
            setattr(copy, name, value.copy() if is_array else {k: v.copy() for k, v in value.items()})
        return copy

    def _grow(self, levels: int) -> None:
        if levels > len(self._returns):
            height = max(levels, 2 * len(self._returns))
            self._returns = _taller(self._returns, height)
            self._frames = _taller(self._frames, height)
            self._tops = _taller(self._tops, height)


def _taller(rows: NDArray[Any], height: int) -> NDArray[Any]:
    """The rows, with zeros behind them."""
    taller = np.zeros((height, rows.shape[1]), rows.dtype)
    taller[: len(rows)] = rows
    return taller

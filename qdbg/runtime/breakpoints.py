"""Breakpoints on PTX lines.

A line that costs no pass (its instruction was folded, or nothing is left of it) is reached when the
warp's next machine instruction at or behind it is about to start: that instruction does its work.
A line of a device function is reached in every expansion of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdbg.compiler.ptx.ir import Function, Instruction


class BreakpointError(Exception):
    """A breakpoint that cannot be set; `str()` is one sentence."""


@dataclass(frozen=True)
class Breakpoint:
    """`line` is the PTX line of the instructions `indices` where it stops; `cuda_line` where set by one."""

    number: int
    line: int
    indices: tuple[int, ...]
    cuda_line: int | None = None
    hits: int = 0


class Breakpoints:
    """The breakpoints of a session.  Safe to change while the session runs in another thread."""

    def __init__(self, kernel: Function, cuda_line: Callable[[Instruction], int | None]):
        """cuda_line: the line of the user's own CUDA file that an instruction comes from."""
        self._kernel, self._cuda_line = kernel, cuda_line
        self._all: dict[int, Breakpoint] = {}  # by number
        self._number = 0

    def all(self) -> tuple[Breakpoint, ...]:
        """Every breakpoint, oldest first."""
        return tuple(self._all.values())

    def toggle(self, line: int) -> Breakpoint | None:
        """Set a breakpoint at the first instruction at or behind a PTX line, or remove the one there."""
        lines = [i.line for i in self._kernel.body if i.line >= line]
        if not lines:
            raise BreakpointError(f"line {line} is behind the last instruction of {self._kernel.name}")
        return self._toggle(min(lines), None)

    def toggle_cuda(self, line: int) -> Breakpoint | None:
        """The same for a CUDA line: its first instruction (or that of the next line with code)."""
        places = [(self._cuda_line(i), i.index, i.line) for i in self._kernel.body]
        candidates = [(at, index, ptx) for at, index, ptx in places if at is not None and at >= line]
        if not candidates:
            raise BreakpointError(
                f"no instruction of {self._kernel.name} comes from CUDA line {line} or later"
            )
        cuda_line, _, ptx_line = min(candidates)
        return self._toggle(ptx_line, cuda_line)

    def clear(self) -> None:
        """Remove every breakpoint."""
        self._all.clear()

    def has(self, index: int) -> bool:
        """Whether there is one on a PTX instruction."""
        return self._at(index) is not None

    def hit(self, index: int) -> Breakpoint | None:
        """The breakpoint on a PTX instruction, with one more hit; None if there is none."""
        found = self._at(index)
        if found is not None:
            self._all[found.number] = found = replace(found, hits=found.hits + 1)
        return found

    def withdraw(self, number: int) -> None:
        """Take a hit of a breakpoint back; it may be gone."""
        if (found := self._all.get(number)) is not None:
            self._all[number] = replace(found, hits=found.hits - 1)

    def _at(self, index: int) -> Breakpoint | None:
        return next((b for b in tuple(self._all.values()) if index in b.indices), None)

    def _toggle(self, line: int, cuda_line: int | None) -> Breakpoint | None:
        """A breakpoint on the first instruction of a PTX line, in every expansion."""
        body = self._kernel.body
        before = (0, *(i.line for i in body))
        indices = tuple(i.index for i in body if i.line == line != before[i.index])
        if (there := self._at(indices[0])) is not None:
            del self._all[there.number]
            return None
        self._number += 1
        made = self._all[self._number] = Breakpoint(self._number, line, indices, cuda_line)
        return made

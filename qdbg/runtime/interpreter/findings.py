"""What a launch may do but should not: undefined values, divergent barriers, races.

A fault stops a launch; a finding is only written down, once for each instruction and kind.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from qdbg.runtime.interpreter.errors import Coordinates

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

Kind = Literal["uninitialised shared memory", "inactive lane", "divergent barrier", "race"]


@dataclass(frozen=True)
class Finding:
    """A warning: `message` is one sentence with file and line; `line` is that of the PTX text.

    `block` and `thread` are coordinates (x, y, z) of the first thread that did it.
    """

    kind: Kind
    message: str
    line: int
    block: Coordinates
    thread: Coordinates


class Findings:
    """The findings of a launch, in the order in which they were made."""

    def __init__(self) -> None:
        self.list: list[Finding] = []
        self._known: set[Hashable] = set()

    def is_new(self, *key: Hashable) -> bool:
        """Whether this is asked with `key` for the first time."""
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def add(self, kind: Kind, warp: Warp, index: int, lane: int, message: str, cure: str) -> None:
        """Write down what a lane of a warp did at the instruction `index`."""
        source, instruction = warp.program.bound.source, warp.program.code[index]
        text = (
            f"{source.place(instruction)}: {warp.name(lane)} {message}; {cure}: {source.quote(instruction)}"
        )
        self.list.append(Finding(kind, text, instruction.line, warp.block.coordinates, warp.thread(lane)))

"""What can go wrong while PTX runs."""

from __future__ import annotations

from typing import Literal

from qdbg.compiler.ptx.ir import Instruction
from qdbg.compiler.source import Source

Reason = Literal[
    "out of bounds",
    "misaligned",
    "trap",
    "deadlock",
    "divergent barrier",
    "bad barrier",
    "member mask",
    "assertion",
    "stack overflow",
    "bad call",
]
Coordinates = tuple[int, int, int]


class Unsupported(Exception):
    """An instruction that the interpreter lacks was executed; `str()` is one sentence with file and line."""

    def __init__(self, source: Source, instruction: Instruction, why: str = "is not supported yet"):
        self.instruction, self.line = instruction, instruction.line
        cure = "rewrite the line without it" if "supported" in why else "correct it"
        super().__init__(f"{source.place(instruction)}: {source.quote(instruction)} {why}; {cure}")


class Refusal(ValueError):
    """Why an instruction cannot be decoded: the end of a sentence that begins with its text."""


class Fault(Exception):
    """The kernel did what a GPU stops for; `str()` is one sentence with file and line.

    `block` and `thread` are coordinates (x, y, z); `lane` the first lane that faulted; `address` is the
    byte address within the space that was accessed, None where no memory is involved.
    """

    def __init__(
        self,
        message: str,
        reason: Reason,
        line: int,
        block: Coordinates,
        thread: Coordinates,
        lane: int = 0,
        address: int | None = None,
    ):
        super().__init__(message)
        self.reason, self.line, self.block, self.thread = reason, line, block, thread
        self.lane, self.address = lane, address


class LimitReached(Exception):
    """The launch issued more instructions than it was allowed; `str()` is one sentence."""

    def __init__(self, limit: int):
        super().__init__(
            f"the launch did not end within {limit} warp instructions: endless loop? raise the limit if not"
        )

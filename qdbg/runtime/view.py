"""What the debugger shows at a stop: one frozen picture of session, machine and interpreter.

Values are plain tuples and numpy arrays that nobody writes to.  Views compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, overload

from qdbg.compiler.machine.config import WARP
from qdbg.runtime.breakpoints import Breakpoint

if TYPE_CHECKING:
    # Whoever makes a view has loaded numpy; the screen must not wait for it before it shows the source.
    import numpy as np
    from numpy.typing import NDArray

#: blockIdx or threadIdx: x, y, z.
Block = tuple[int, int, int]


class State(Enum):
    """What the session is doing; the value is its glyph."""

    READY = "○"
    STOPPED = "■"
    RUNNING = "►"
    MISMATCH = "✗"
    TRAPPED = "!"
    ENDED = "✓"


@dataclass(frozen=True)
class Mismatch:
    """The first disagreement: where, and what machine (`got`) and interpreter (`expected`) say.

    number: the forward pass; warp and lane: None where no lane is concerned; register: what differs, a PTX
    register (`%rd5.hi`: the high half of one), `memory` or `path`.
    """

    number: int
    block: Block
    warp: int | None
    lane: int | None
    line: int | None
    register: str
    expected: str
    got: str

    def __str__(self) -> str:
        lane = f" warp {self.warp} lane {self.lane}" if self.lane is not None else ""
        line = f" (line {self.line})" if self.line is not None else ""
        return (
            f"pass {self.number}: block {self.block}{lane} {self.register}: "
            f"machine {self.got}, interpreter {self.expected}{line}"
        )


@dataclass(frozen=True, eq=False)
class Values(Sequence["int | None"]):
    """A register's bits by lane, None where unknown.

    bits: uint64 [lanes], 0 where not `known`, bool [lanes].
    """

    bits: NDArray[np.uint64]
    known: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.bits)

    @overload
    def __getitem__(self, lane: int) -> int | None: ...
    @overload
    def __getitem__(self, lane: slice) -> list[int | None]: ...
    def __getitem__(self, lane: int | slice) -> int | list[int | None] | None:
        if isinstance(lane, slice):
            return list(self)[lane]
        return int(self.bits[lane]) if self.known[lane] else None

    def __iter__(self) -> Iterator[int | None]:
        pairs = zip(self.bits.tolist(), self.known.tolist(), strict=True)
        return (bits if known else None for bits, known in pairs)


@dataclass(frozen=True, eq=False)
class RegisterRow:
    """A PTX register in every lane of the block.

    place: the machine register that holds it (`v3`, `u5`; `v3,v4` for the two halves of 64 bits), or
    `folded` where its value went straight into another instruction; live: its value can still be read;
    machine and interpreter: values by lane, None where unknown; short: of 64 bits the machine has the low
    word only, since nothing looks at the rest; changed: since this lane was last stopped at; differs: the
    two disagree, and not only because one is ahead (there is a mismatch); stale: the machine's register
    holds something else by now, and the value is that of the last result token.
    """

    name: str
    type: str
    place: str
    live: bool
    machine: Values
    interpreter: Values
    short: NDArray[np.bool_]
    changed: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    stale: NDArray[np.bool_]

    def shown_type(self, lane: int) -> str:
        """The type as which to show what the machine has."""
        return "b32" if self.short[lane] else self.type


#: The name of shared memory among the arrays.
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class MemoryArray:
    """An array of the launch, or other memory, as 32-bit words; `interpreter` is shaped as `machine`.

    exact: no mismatch was found so far, so that words differ only where a store is in progress; thread: whose
    local memory it is, by its number in the block.
    """

    name: str
    address: int
    dtype: np.dtype[np.generic]
    machine: NDArray[np.uint32]
    interpreter: NDArray[np.uint32]
    changed: NDArray[np.bool_]
    exact: bool
    thread: int | None = None

    def seen_by(self, thread: int) -> bool:
        """Whether a thread sees it: of local memory its own."""
        return self.thread in (None, thread)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Words in which machine and interpreter disagree."""
        different: NDArray[np.bool_] = self.machine != self.interpreter
        return different & (not self.exact)


@dataclass(frozen=True)
class TokenLine:
    """A generated token: pass, token, meaning, PTX line (None for the machine's own bookkeeping), margin."""

    number: int
    token: str
    meaning: str
    line: int | None
    margin: float | None


@dataclass(frozen=True)
class TrapReport:
    """Where and why the kernel trapped."""

    block: Block
    thread: Block
    warp: int
    lane: int
    line: int | None
    reason: str

    def __str__(self) -> str:
        at = f" at line {self.line}" if self.line else ""
        who = f"block {self.block} thread {self.thread} (warp {self.warp} lane {self.lane})"
        return f"{who} trapped{at}: {self.reason}"


@dataclass(frozen=True, eq=False)
class View:
    """One stop.

    line, cuda_line: 1-based source lines of the next PTX instruction, or of the one that trapped;
    place, cuda_place: the same, but at a mismatch its line, and at the end that of the last work; focus:
    the thread that is looked at, by its number in the block, which is the machine's lane; active: lanes
    that run; fronts: (PTX line, lane mask) of every group of lanes; covered: PTX lines that cost no pass;
    tokens: the newest ones, oldest first; passes: made so far; instructions: PTX instructions issued so far,
    once a warp, where an expanded call is what it becomes (`Outcome` counts the launch's own).
    """

    title: str
    engine: str
    geometry: str
    state: State
    status: str
    passes: int
    instructions: int
    pc: int
    machine: str
    line: int | None
    cuda_line: int | None
    place: int | None
    cuda_place: int | None
    grid: Block
    block_dim: Block
    block: Block
    focus: int
    exists: tuple[bool, ...]
    active: tuple[bool, ...]
    registers: tuple[RegisterRow, ...]
    memory: tuple[MemoryArray, ...]
    tokens: tuple[TokenLine, ...]
    mismatch: Mismatch | None
    trap: TrapReport | None
    breakpoints: tuple[Breakpoint, ...]
    covered: frozenset[int]
    fronts: tuple[tuple[int, int], ...]

    @property
    def engine_line(self) -> str:
        """Engine and checkpoint, e.g. `stock, nano 14 layers of 1024`."""
        return ", ".join(part for part in (self.engine, self.geometry) if part)

    @property
    def thread(self) -> Block:
        """threadIdx of the focus lane."""
        return thread_index(self.focus, self.block_dim)

    @property
    def warp(self) -> int:
        """The warp that the focus is in."""
        return self.focus // WARP

    @property
    def warps(self) -> int:
        """Warps of the block."""
        return -(-sum(self.exists) // WARP)

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes of the focused warp that exist, as numbers of threads."""
        start = self.warp * WARP
        return tuple(start + i for i, there in enumerate(self.exists[start : start + WARP]) if there)

    @property
    def masks(self) -> tuple[int, ...]:
        """The active mask of every warp, its lane 0 in bit 0."""
        mask = sum(1 << lane for lane, on in enumerate(self.active) if on)
        return tuple(of_warp(mask, warp) for warp in range(self.warps))

    @property
    def mask(self) -> int:
        """The active mask of the focused warp."""
        return self.masks[self.warp]


def of_warp(mask: int, warp: int) -> int:
    """A warp's part of a mask of threads, its lane 0 in bit 0."""
    return mask >> warp * WARP & (1 << WARP) - 1


def thread_index(linear: int, block: Block) -> Block:
    """threadIdx of a thread number, x fastest."""
    x, y, _ = block
    return linear % x, linear // x % y, linear // (x * y)

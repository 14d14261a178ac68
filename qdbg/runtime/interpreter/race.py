"""Data races: two threads, nothing that orders their accesses, and one of them writes (PTX ISA 8, "Memory
Consistency Model").

Within a block, order is kept exactly, with vector clocks.  It comes from barriers, from bar.warp.sync (lanes
of a warp are *not* ordered by running together), and from strong operations: an atomic, or a volatile,
relaxed, acquire or release access.  One that writes publishes what its thread did so far, one that reads the
same place receives it; that holds whether or not the fences that PTX also asks for are there, so that a
missing fence is not found.  Two strong operations never race.  Between blocks order comes from strong
operations alone, and a block that one of its threads is ordered behind counts as a whole.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Instruction, Space
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.warp import thread_name
from qdbg.runtime.interpreter.watch import Watch

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.block import Block
    from qdbg.runtime.interpreter.memory import Memory
    from qdbg.runtime.interpreter.program import Program
    from qdbg.runtime.interpreter.warp import Warp

_WORD = 4
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")


class Access(NamedTuple):
    """What a thread did to the bytes `mask` of a word, when its own clock stood at `clock`."""

    mask: int
    block: int
    thread: int
    clock: int
    instruction: int
    strong: bool


@dataclass
class Cell:
    """The accesses to a word that a later one might race with; reads of the running block, by thread."""

    writes: list[Access] = field(default_factory=list)
    reads: dict[tuple[int, ...], Access] = field(default_factory=dict)
    block: int = 0


@dataclass
class Published:
    """What strong writes to a place made known: clocks of threads of `block`, and whole blocks as bits."""

    block: int
    clocks: NDArray[np.int32]
    blocks: int


class RaceWatch(Watch):
    """Finds races in global and shared memory."""

    def __init__(self, program: Program, memory: Memory):
        self._program, self._memory = program, memory
        self._threads = program.bound.threads
        self._places: dict[int, Published] = {}
        self._cells: dict[int, Cell] = {}
        self._start(0)

    def _start(self, block: int) -> None:
        self._block = block
        #: [t, u]: up to which clock of thread u thread t is ordered behind it.
        self._clocks = np.eye(self._threads, dtype=np.int32)
        self._blocks = [0] * self._threads  # bits: earlier blocks that a thread is ordered behind
        self._arrived: dict[int, Published] = {}

    def enter(self, block: Block) -> None:
        """A block begins: its threads know of nothing, and its shared memory is its own."""
        self._start(block.number)
        base, size = self._memory.shared_window
        for word in range(base // _WORD, (base + size) // _WORD):
            self._cells.pop(word, None)
        for place in [p for p in self._places if base <= p < base + size]:
            del self._places[place]

    def access(
        self, warp: Warp, index: int, space: Space, lanes: NDArray[np.intp], located: Array, size: int
    ) -> None:
        """Compare each lane's access with those before it, and remember it."""
        if space not in ("global", "shared", "generic"):
            return
        reads, writes, strong = _effects(self._program.code[index])
        for lane, place in zip(lanes.tolist(), located.tolist(), strict=True):
            if place >= self._memory.end:
                continue
            thread = int(warp.threads[lane])
            if strong and reads and (published := self._places.get(place)) is not None:
                self._receive(thread, published)
            clock = int(self._clocks[thread, thread])
            for word in range(place // _WORD, (place + size - 1) // _WORD + 1):
                first, last = max(place - word * _WORD, 0), min(place + size - word * _WORD, _WORD)
                mask = (1 << last) - (1 << first)
                access = Access(mask, self._block, thread, clock, index, strong)
                self._touch(warp, lane, word, access, writes)
            if strong and writes:
                self._publish(thread, place)

    def _touch(self, warp: Warp, lane: int, word: int, access: Access, writes: bool) -> None:
        cell = self._cells.setdefault(word, Cell())
        if cell.block != self._block:  # one read of another block stands for all of its reads
            cell.reads = {(r.block, -1, r.mask, r.strong): r for r in cell.reads.values()}
            cell.block = self._block
        for other in cell.writes:
            if self._races(access, other):
                self._report(warp, lane, word, access, other, (writes, True))
        if not writes:
            cell.reads[access.block, access.thread, access.mask, access.strong] = access
            return
        for other in cell.reads.values():
            if self._races(access, other):
                self._report(warp, lane, word, access, other, (True, False))
        # What those before this one would race with later on, this one races with as well.
        cell.writes = [w for w in cell.writes if w.mask & ~access.mask] + [access]
        cell.reads = {key: r for key, r in cell.reads.items() if r.mask & ~access.mask}

    def _races(self, access: Access, other: Access) -> bool:
        if not access.mask & other.mask or (access.strong and other.strong):
            return False
        if other.block != self._block:
            return not self._blocks[access.thread] >> other.block & 1
        return bool(self._clocks[access.thread, other.thread] < other.clock)

    # -- order ---------------------------------------------------------------------------------------------

    def arrive(self, ident: int, threads: NDArray[np.int64]) -> None:
        """What the threads did becomes known to those that wait at the barrier."""
        self._arrived[ident] = self._joined(threads, self._arrived.get(ident))
        self._clocks[threads, threads] += 1

    def open(self, ident: int, threads: NDArray[np.int64]) -> None:
        """The threads are ordered behind each other and behind those that arrived."""
        self._order(threads, self._arrived.pop(ident, None))

    def synchronise(self, threads: NDArray[np.int64]) -> None:
        """The threads are ordered behind each other."""
        self._order(threads, None)

    def _order(self, threads: NDArray[np.int64], arrived: Published | None) -> None:
        if len(threads):
            joined = self._joined(threads, arrived)
            self._clocks[threads] = joined.clocks
            self._clocks[threads, threads] += 1
            for thread in threads.tolist():
                self._blocks[thread] = joined.blocks

    def _joined(self, threads: NDArray[np.int64], more: Published | None) -> Published:
        clocks, blocks = self._clocks[threads].max(axis=0), more.blocks if more else 0
        if more is not None:
            clocks = np.maximum(clocks, more.clocks)
        for thread in threads.tolist():
            blocks |= self._blocks[thread]
        return Published(self._block, clocks, blocks)

    def _receive(self, thread: int, published: Published) -> None:
        self._blocks[thread] |= published.blocks
        if published.block == self._block:
            np.maximum(self._clocks[thread], published.clocks, out=self._clocks[thread])
        else:
            self._blocks[thread] |= 1 << published.block

    def _publish(self, thread: int, place: int) -> None:
        before = self._places.get(place)
        if before is not None and before.block != self._block:
            before = Published(self._block, np.zeros_like(before.clocks), before.blocks | 1 << before.block)
        self._places[place] = self._joined(np.array([thread]), before)
        self._clocks[thread, thread] += 1

    # -- history -------------------------------------------------------------------------------------------

    def save(self) -> Any:
        """A copy of the state."""
        state = (self._block, self._clocks, self._blocks, self._arrived, self._places, self._cells)
        return deepcopy(state)

    def restore(self, state: Any) -> None:
        """Return to a saved state, which stays valid."""
        self._block, self._clocks, self._blocks, self._arrived, self._places, self._cells = deepcopy(state)

    def _report(
        self, warp: Warp, lane: int, word: int, access: Access, other: Access, wrote: tuple[bool, bool]
    ) -> None:
        findings = self._program.findings
        if not findings.is_new(
            "race", min(access.instruction, other.instruction), max(access.instruction, other.instruction)
        ):
            return
        source, instruction = self._program.bound.source, self._program.code[other.instruction]
        address = word * _WORD + (access.mask & other.mask & -(access.mask & other.mask)).bit_length() - 1
        space = "shared" if self._memory.is_shared(np.array(address)) else "global"
        if space == "shared":
            address -= self._memory.shared_window[0]
        thread = thread_name(self._program.bound, other.thread, other.block)
        does, did = ("writes" if wrote[0] else "reads"), ("wrote" if wrote[1] else "read")
        findings.add(
            "race", warp, access.instruction, lane,
            f"{does} {space} address {address:#x}, which {thread} {did} at "
            f"{source.place(instruction)} ({source.quote(instruction)}) with nothing to order the two",
            "put a barrier between them, or make both atomic",
        )  # fmt: skip


def _effects(instruction: Instruction) -> tuple[bool, bool, bool]:
    """Whether a memory instruction reads, writes, and is strong."""
    if instruction.opcode in ("atom", "red"):
        return True, True, True
    strong = instruction.has(*_STRONG)
    return instruction.opcode != "st", instruction.opcode == "st", strong

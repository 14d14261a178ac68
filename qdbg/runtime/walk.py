"""The interpreter's threads, led along their own paths instead of by its scheduler.

Each runs ahead through PTX instructions that cost the machine nothing, up to the work that the machine is
at.  Lanes are the machine's: the block's threads, warp after warp.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.lowering.ir import high_half
from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.interpreter.warp import coordinates
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.threads import Mask, Threads
from qdbg.runtime.view import Block

#: Behind the name of a 64-bit register: its high half.
HIGH = high_half("")


class Walk:
    """Where the lanes are, and what they have computed.  `known`: register -> lanes that wrote it."""

    def __init__(self, correspondence: Correspondence, interpreter: Interpreter, bound: BoundLaunch):
        self.map = correspondence
        self.kernel = bound.kernel
        self.bound = bound
        self.interpreter = interpreter
        self.threads = Threads(interpreter)
        #: Where lanes go on that are led to work, and where those go on that only run ahead.
        self._free = self._all_but(correspondence.anchors)
        self._ahead = self._all_but(correspondence.anchors | correspondence.accesses.keys())
        self._towards: dict[int, Mask] = {}  # work -> where lanes stand that may get there next
        self.known: dict[str, Mask] = self._nothing_known()
        # Lanes without which a barrier completed: bool [2, lanes], of the block and of the warp.
        self._missed = np.zeros((2, len(self.threads)), np.bool_)

    @property
    def block(self) -> Block:
        """blockIdx of the block that the interpreter is in."""
        return coordinates(self.interpreter.block, self.bound.grid)

    @property
    def issued(self) -> int:
        """PTX instructions issued, counted once a warp."""
        return self.interpreter.instructions

    # -- where the interpreter is -----------------------------------------------------------------------

    def position(self, lanes: Mask, anchor: int) -> int:
        """The next PTX instruction of these lanes, of which the machine will complete `anchor` next."""
        there = self._pad(lanes)
        pcs = self.threads.pc[there]
        together = len(pcs) > 0 and (pcs == pcs[0]).all() and self.threads.runnable[there].all()
        return int(pcs[0]) if together else anchor

    def fronts(self) -> list[tuple[int, int]]:
        """(PTX instruction, lane mask) of every group of lanes that has not left the kernel."""
        groups: dict[int, int] = {}
        for lane, pc in enumerate(self.threads.pc.tolist()):
            if pc >= 0:
                groups[pc] = groups.get(pc, 0) | 1 << lane
        return sorted(groups.items())

    def skip(self, index: int, lanes: Mask) -> None:
        """Execute a free PTX instruction of these lanes."""
        there = self._pad(lanes) & (self.threads.pc == index)
        self._execute(index, there)
        self._complete(there)

    def value(self, register: str, lane: int) -> int | None:
        """A register's bits in a lane, None before the lane wrote it.

        64 bits wide, or 32 for one half of a register: the name is as in `Instr.result`.
        """
        name, shift = half(register)
        if not self.known[name][lane]:
            return None
        return self.threads.value(name, lane) >> shift

    def words(self) -> NDArray[np.uint32]:
        """Memory as 32-bit words from MEMORY_BASE on, as far as anything is laid out."""
        end = -(-self.bound.memory_end // 4) * 4
        padded = np.zeros(end - MEMORY_BASE, np.uint8)
        content = self.interpreter.memory[MEMORY_BASE:end]
        padded[: len(content)] = content
        return padded.view(np.uint32)

    def local_words(self, thread: int, count: int) -> NDArray[np.uint32]:
        """The first words of a thread's local memory."""
        return self.threads.local(thread, 4 * count).view(np.uint32)

    # -- history --------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """An opaque copy."""
        return self.interpreter.snapshot(), dict(self.known), self._missed.copy()

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot, which stays valid."""
        inner, known, missed = snapshot
        self.interpreter.restore(inner)
        self.known, self._missed = dict(known), missed.copy()

    # -- inside ---------------------------------------------------------------------------------------------

    def _nothing_known(self) -> dict[str, Mask]:
        return {name: np.zeros(len(self.threads), np.bool_) for name in self.kernel.registers}

    def _all_but(self, places: Collection[int]) -> Mask:
        """Which PTX instructions are not among `places`: bool [instructions + 1], also at -1."""
        others = np.ones(len(self.kernel.body) + 1, np.bool_)
        others[list(places)] = False
        return others

    def _next_block(self) -> None:
        self.interpreter.next_block()
        self.known = self._nothing_known()
        self._missed[:] = False

    def _execute(self, index: int, lanes: Mask) -> Mask:
        """Execute a PTX instruction; the lanes whose guard held."""
        events = self.threads.execute(index, lanes)
        active = self.threads.joined([(event.warp, event.active) for event in events])
        for name in {name for event in events for name in event.writes}:
            self.known[name] = self.known[name] | active  # not in place: snapshots share masks
        return active

    def _arrive(self, anchor: int, lanes: Mask, uniform: bool) -> Mask:
        """Let lanes run ahead until they stand at work; those whose work `anchor` is."""
        there = self._bound_for(anchor) if uniform else self._pad(lanes)
        self._catch_up(there, led=True)
        for _ in range(len(self.kernel.body)):
            if not (there & self.threads.stuck).any() or (uniform and self._at(anchor).any()):
                break
            self._go_on_without()
            self._catch_up(there, led=True)
        return self._at(anchor) if uniform else there

    def _bound_for(self, anchor: int) -> Mask:
        """The lanes that may get to work `anchor` next.  The others stay where a person can stop them."""
        if anchor not in self._towards:
            self._towards[anchor] = ~self._all_but(self.map.towards(anchor))
        return self.threads.live & self._towards[anchor][self.threads.pc]

    def _complete(self, lanes: Mask) -> None:
        """The machine is past an instruction at which these lanes met: let none of them wait for others."""
        if (lanes & self.threads.stuck).any():
            self._run_ahead(self.threads.live)
        if (lanes & self.threads.stuck).any():
            self._go_on_without()

    def _go_on_without(self) -> None:
        """The machine went on without lanes that leave the kernel later on, which it may."""
        self._missed |= self.threads.missing()
        self.threads.release()

    def _at(self, index: int) -> Mask:
        """The lanes that are about to execute a PTX instruction."""
        at: Mask = self.threads.runnable & (self.threads.pc == index)
        return at

    def _catch_up(self, lanes: Mask, led: bool = False) -> None:
        """Execute what costs nothing until each of the lanes stands at work or waits.

        led: the machine has done work for these lanes just now, so that no access before it is too early.
        """
        self._run_ahead(lanes, led)
        if (lanes & self.threads.stuck).any():
            self._run_ahead(self.threads.live)  # the others may be all that the barrier waits for
            self._run_ahead(lanes, led)

    def _run_ahead(self, lanes: Mask, led: bool = False) -> None:
        free = self._free if led else self._ahead
        for _ in range(2 * len(self.kernel.body) * len(lanes)):
            pcs = self.threads.pc
            ahead = lanes & self.threads.runnable & (free[pcs] | self._passing(pcs))
            if not ahead.any():
                return
            index = int(pcs[ahead].min())
            self._execute(index, ahead & (pcs == index))

    def _passing(self, pcs: NDArray[np.int64]) -> Mask:
        """Lanes that stand at work which is not theirs, their guard being false."""
        passing = np.zeros(len(pcs), np.bool_)
        if not self.map.optional:
            return passing
        for index in self.map.optional.intersection(pcs.tolist()):
            guard = self.kernel.body[index].guard
            assert guard is not None
            holds = self.threads.register(guard.register).astype(np.bool_) ^ guard.negated
            passing |= (pcs == index) & ~holds
        return passing

    def _pad(self, lanes: Mask) -> Mask:
        """The machine's lanes as the interpreter counts them, in whole warps; those behind do not exist."""
        count = len(self.threads)
        padded = np.zeros(count, np.bool_)
        padded[: len(lanes)] = lanes[:count]
        return padded


def half(register: str) -> tuple[str, int]:
    """The PTX register of which a name as in `Instr.result` is (half of) one, and the bits below it."""
    name = register.removesuffix(HIGH)
    return name, 0 if name == register else 32

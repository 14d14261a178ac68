"""The reference interpreter in step with the machine.

After every machine instruction that completes a PTX instruction, the interpreter executes the same PTX
instruction, and the free ones in front of it, for the same lanes.  Each lane must get there on its
own path: it runs ahead through what costs nothing, and has gone astray if that leads it to other work.
The register that was computed must hold the same bits in every lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qdbg.compiler.machine.config import MEMORY_BASE, WARP
from qdbg.compiler.machine.isa import LACKING
from qdbg.compiler.ptx.ir import TYPE_BITS
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.interpreter import Fault, Interpreter
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.numbers import show
from qdbg.runtime.state import MachineState
from qdbg.runtime.threads import Mask
from qdbg.runtime.trace import Event as TokenEvent
from qdbg.runtime.trace import Trace
from qdbg.runtime.view import Block, Mismatch
from qdbg.runtime.walk import Walk, half


class Lockstep(Walk):
    """Keeps the interpreter where the machine is, and the first mismatch."""

    def __init__(self, correspondence: Correspondence, interpreter: Interpreter, bound: BoundLaunch):
        super().__init__(correspondence, interpreter, bound)
        self.completed = 0  #: PTX instructions that cost passes and are done
        self.mismatch: Mismatch | None = None
        self._results: dict[str, dict[int, tuple[int, int]]] = {}  #: at hand: lane -> (value, pass)
        self._number = 0  # the pass that is being followed
        #: A trap that the machine has yet to come to: it does the access later, on the side of other work.
        self._due: Fault | None = None
        #: The branching instruction that the machine is in: anchor, its lanes so far, all of it uniform.
        self._open: tuple[int, Mask, bool] | None = None

    # -- following the machine ----------------------------------------------------------------------------

    def result(self, register: str, values: Mapping[int, int], number: int) -> None:
        """Pass `number` completed results of the PTX instruction at hand, by lane."""
        self._results.setdefault(register, {}).update((lane, (v, number)) for lane, v in values.items())

    def finished(self, event: TokenEvent, lanes: Mask, uniform: bool, following: int | None) -> Mask:
        """The machine finished an instruction for `lanes`; returns the lanes whose work it was.

        A uniform instruction runs once for all the lanes that are there; its pattern means nothing.
        following: the machine instruction that comes next, None at the end.
        """
        self._number = event.number
        pc, anchor, there = event.pc, self.map.anchor[event.pc], self._pad(lanes)
        if anchor is not None:
            completes = self.map.completes(pc)
            if self.map.chooses(pc):
                self._choose(anchor, self._bound_for(anchor) if uniform else there, completes)
            elif anchor in self.map.branching:
                self._gather(anchor, there, uniform)
            elif completes:
                there = self._work(anchor, lanes, uniform)
            elif uniform and not self._blind:
                there = self._here(anchor, lanes)
        if self._open is not None and self.map.leaves(self._open[0], following):
            anchor, lanes, uniform = self._open
            self._open = None
            self._work(anchor, lanes, uniform)
        return there

    def enter(self, block: Block, number: int) -> None:
        """The machine is about to run this block."""
        if self._blind or block == self.block:
            return
        self._number = number
        self._leave()
        if self.mismatch is None:
            self._next_block()
        if self.mismatch is None and block != self.block:
            self._report(None, None, "block", str(self.block), str(block))

    def trapped(self, trace: Trace) -> None:
        """The machine trapped: so must the interpreter, in the same lane.

        Not compared: an instruction that only the machine lacks, and a barrier that not all threads reach.
        The interpreter may complete that together with others; if it cannot, it notices when nothing is left
        to run.
        """
        assert trace.trap is not None
        self._number = trace.count
        lane, reason, pc = trace.trap
        anchor = self.map.anchor[pc]
        if anchor is None or self.mismatch is not None or reason in LACKING:
            return
        if self.map.barrier(anchor):
            return
        if self._due is not None and self.threads.number(self._due) == lane:
            return
        uniform = trace.program.code[pc].uniform
        said = reason.name.lower().replace("_", " ")
        try:
            there = self._arrive(anchor, trace.lanes, uniform)
            if self._none_astray(anchor, there):
                self._execute(anchor, there)
                self._report(lane, anchor, "trap", "no trap", said)
        except Fault as fault:
            # Which access traps first is not defined where lanes trap at different ones.
            same = self.map.trapping(pc) == self._place(fault)
            if same and self.threads.number(fault) != lane and not uniform:
                self._report(lane, anchor, "trap", f"thread {fault.thread}: {fault.reason}", said)

    def end(self, number: int, state: MachineState) -> None:
        """The launch is over: every lane must be through, and all of memory agree."""
        self._number = number
        if self._due is not None:
            self._unexpected(self._due, self._place(self._due))
        if self.mismatch is None:
            self._leave()
        if self.mismatch is not None:
            return
        expected, got = self.words(), state.memory
        wrong = np.flatnonzero((expected != got[: len(expected)]) & state.allocated[: len(expected)])
        if len(wrong):
            address = MEMORY_BASE + 4 * int(wrong[0])
            name = next(
                (a.name for a in self.bound.allocations if a.address <= address < a.end), "shared memory"
            )
            self.mismatch = Mismatch(
                number, self.block, None, None, None, f"memory at {address:#x} ({name})",
                f"{int(expected[wrong[0]]):#010x}", f"{int(got[wrong[0]]):#010x}",
            )  # fmt: skip

    def report(self, number: int, sentence: str) -> None:
        """Something that the machine cannot do happened."""
        if self.mismatch is None:
            self.mismatch = Mismatch(
                number, self.block, None, None, None, "path", "a token that makes sense", sentence
            )

    # -- values ---------------------------------------------------------------------------------------------

    def width(self, register: str) -> int:
        """Bits of a register, or of half of one, that count: those above them are arbitrary."""
        return min(32, TYPE_BITS[self.kernel.registers[half(register)[0]]])

    # -- history --------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """An opaque copy."""
        results = {name: dict(values) for name, values in self._results.items()}
        return super().snapshot(), self.completed, self.mismatch, results, self._open, self._due

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot, which stays valid."""
        walk, self.completed, self.mismatch, results, self._open, self._due = snapshot
        self._results = {name: dict(values) for name, values in results.items()}
        super().restore(walk)

    # -- inside ---------------------------------------------------------------------------------------------

    def _execute(self, index: int, lanes: Mask) -> Mask:
        active = super()._execute(index, lanes)
        if self.map.barrier(index):
            late = active & self._missed[int(self.kernel.body[index].has("warp"))]
            if late.any():
                self._report(int(np.argmax(late)), index, "barrier", "waits there", "completed without it")
        return active

    def _gather(self, anchor: int, lanes: Mask, uniform: bool) -> None:
        """The machine did a part of a branching instruction."""
        if self._open is not None:
            _, before, alone = self._open
            lanes, uniform = before if uniform else lanes if alone else before | lanes, alone and uniform
        self._open = anchor, lanes, uniform

    def _work(self, anchor: int, lanes: Mask, uniform: bool) -> Mask:
        """The machine is done with `anchor`: so must the interpreter be; the lanes whose work it was."""
        self.completed += 1
        results, self._results = self._results, {}
        if self._due is not None and self.map.accesses[self._place(self._due)] == anchor:
            self._unexpected(self._due, anchor)
        if self._blind:
            return self._pad(lanes)
        there = self._advance(anchor, lanes, uniform)
        for register, values in results.items():
            self._compare(anchor, register, {lane: v for lane, v in values.items() if there[lane]})
        return there

    def _choose(self, anchor: int, lanes: Mask, completes: bool) -> None:
        """The machine decided which lanes run `anchor`; those whose guard is false have passed it."""
        if completes:
            self._results = {}
        if self._blind:
            self.completed += completes
            return
        try:
            self._catch_up(lanes)
            here = lanes & self._at(anchor)
            if completes and here.any():
                self._execute(anchor, here)
        except Fault as fault:
            self._unexpected(fault, anchor)
        self.completed += completes or not here.any()

    def _advance(self, anchor: int, lanes: Mask, uniform: bool) -> Mask:
        """Execute up to and including `anchor`; the lanes that did, none if one of them cannot."""
        try:
            there = self._arrive(anchor, lanes, uniform)
            if self._none_astray(anchor, there):
                self._execute(anchor, there)
                self._complete(there)
                return there
        except Fault as fault:
            self._unexpected(fault, anchor)
        return np.zeros(len(self.threads), np.bool_)

    def _here(self, anchor: int, lanes: Mask) -> Mask:
        """The lanes whose work a uniform part of `anchor` is."""
        try:
            return self._arrive(anchor, lanes, uniform=True)
        except Fault as fault:
            self._unexpected(fault, anchor)
        return np.zeros(len(self.threads), np.bool_)

    def _none_astray(self, anchor: int, lanes: Mask) -> bool:
        """Whether `lanes`, of which there must be some, all stand at `anchor`."""
        astray = lanes & ~self._at(anchor) if lanes.any() else self.threads.live
        if astray.any():
            self._astray(int(np.argmax(astray)), anchor)
        return not astray.any()

    def _astray(self, lane: int, anchor: int | None) -> None:
        """Machine and interpreter took different paths."""
        body = self.kernel.body
        pc = int(self.threads.pc[lane])
        at = "at the end" if pc < 0 else f"at line {body[pc].line}"
        went = "at the end" if anchor is None else f"at line {body[anchor].line}"
        self._report(lane, anchor, "path", at, went)

    def _leave(self) -> None:
        """The block is over: whatever its lanes still have to do must be free."""
        self._catch_up(self.threads.live)
        if (live := self.threads.live).any():
            self._astray(int(np.argmax(live)), None)

    def _compare(self, anchor: int, register: str, results: Mapping[int, tuple[int, int]]) -> None:
        mask = (1 << self.width(register)) - 1
        # The machine has the two halves of a 64-bit register one after the other, if it needs both.
        declared = self.kernel.registers[half(register)[0]]
        type_ = declared if TYPE_BITS[declared] <= 32 else "b32"
        for lane, (got, self._number) in results.items():
            expected = self.value(register, lane)
            if expected is not None and (expected ^ got) & mask:
                self._report(lane, anchor, register, show(expected & mask, type_), show(got & mask, type_))
                return

    @property
    def _blind(self) -> bool:
        """The interpreter cannot follow any more."""
        return self.mismatch is not None or self._due is not None

    def _place(self, fault: Fault) -> int:
        """The PTX instruction that faulted: no lane has moved on from it."""
        return int(self.threads.pc[self.threads.number(fault)])

    def _unexpected(self, fault: Fault, anchor: int) -> None:
        """The interpreter faulted where the machine did not; or did not yet, which is due then."""
        if self._due is None and self.map.accesses.get(self._place(fault), anchor) != anchor:
            self._due = fault
            return
        lane = self.threads.number(fault)
        self._report(lane, anchor, "trap", f"thread {fault.thread}: {fault.reason}", "no trap")

    def _report(self, lane: int | None, index: int | None, register: str, expected: str, got: str) -> None:
        if self.mismatch is None:
            line = self.kernel.body[index].line if index is not None else None
            warp, own = (None, None) if lane is None else divmod(lane, WARP)
            self.mismatch = Mismatch(self._number, self.block, warp, own, line, register, expected, got)

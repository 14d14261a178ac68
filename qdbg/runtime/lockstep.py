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
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.machine.isa import Trap
from qdbg.compiler.ptx.ir import TYPE_BITS
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.interpreter import Fault, Interpreter, Warp
from qdbg.runtime.interpreter.warp import coordinates
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.numbers import show
from qdbg.runtime.state import MachineState
from qdbg.runtime.trace import Event, Trace
from qdbg.runtime.view import Block, Mismatch

Mask = NDArray[np.bool_]


class Lockstep:
    """Keeps the interpreter where the machine is, and the first mismatch."""

    def __init__(self, correspondence: Correspondence, interpreter: Interpreter, bound: BoundLaunch):
        self.map = correspondence
        self.kernel = bound.kernel
        self.bound = bound
        self.interpreter = interpreter
        self.completed = 0  #: PTX instructions that cost passes and are done
        self.mismatch: Mismatch | None = None
        self._results: dict[str, dict[int, tuple[int, int]]] = {}  #: at hand: lane -> (value, pass)
        self._costly = np.array(sorted(correspondence.anchors), np.int64)
        self.known: dict[str, Mask] = self._nothing_known()
        self._missed = np.zeros(len(self.warp.pc), np.bool_)  # lanes without which a barrier completed
        self._number = 0  # the pass that is being followed

    @property
    def warp(self) -> Warp:
        """The interpreter's warp; the machine runs blocks of one warp."""
        return self.interpreter.warps[0]

    @property
    def block(self) -> Block:
        """blockIdx of the block that the interpreter is in."""
        return coordinates(self.interpreter.block, self.bound.grid)

    @property
    def issued(self) -> int:
        """PTX instructions that the warp has issued."""
        return self.interpreter.instructions

    # -- where the interpreter is -----------------------------------------------------------------------

    def position(self, lanes: Mask, anchor: int) -> int:
        """The next PTX instruction of these lanes, of which the machine will complete `anchor` next."""
        there = self._pad(lanes)
        at = {int(pc) for pc in self.warp.pc[there]}
        return at.pop() if len(at) == 1 and self.warp.runnable[there].all() else anchor

    def fronts(self) -> list[tuple[int, int]]:
        """(PTX instruction, lane mask) of every group of lanes that has not left the kernel."""
        groups: dict[int, int] = {}
        for lane in np.flatnonzero(self.warp.live):
            pc = int(self.warp.pc[lane])
            groups[pc] = groups.get(pc, 0) | 1 << int(lane)
        return sorted(groups.items())

    # -- following the machine ----------------------------------------------------------------------------

    def skip(self, index: int, lanes: Mask) -> None:
        """Execute a free PTX instruction of these lanes."""
        self._execute(index, self._pad(lanes) & (self.warp.pc == index))

    def result(self, register: str, values: Mapping[int, int], number: int) -> None:
        """Pass `number` completed results of the PTX instruction at hand, by lane."""
        self._results.setdefault(register, {}).update((lane, (v, number)) for lane, v in values.items())

    def finished(self, event: Event, lanes: Mask, uniform: bool) -> Mask:
        """The machine finished an instruction for `lanes`; returns the lanes whose work it was.

        A uniform instruction runs once for all the lanes that are there; its pattern means nothing.
        """
        self._number = event.number
        anchor = self.map.anchor[event.pc]
        completes = self.map.completes(event.pc)
        there = self._pad(lanes)
        if self.mismatch is not None:
            self.completed += completes
        elif anchor is not None and self.map.chooses(event.pc):
            self._choose(anchor, self.warp.live if uniform else there, completes)
        elif anchor is not None and completes:
            self.completed += 1
            there = self._advance(anchor, lanes, uniform)
            for register, values in self._results.items():
                self._compare(anchor, register, {lane: v for lane, v in values.items() if there[lane]})
        if completes:
            self._results = {}
        return there

    def enter(self, block: Block, number: int) -> None:
        """The machine is about to run this block."""
        if self.mismatch is not None or block == self.block:
            return
        self._number = number
        self._leave()
        if self.mismatch is None:
            self.interpreter.next_block()
            self.known = self._nothing_known()
            self._missed[:] = False
        if self.mismatch is None and block != self.block:
            self._report(None, None, "block", str(self.block), str(block))

    def trapped(self, trace: Trace) -> None:
        """The machine trapped: so must the interpreter, in the same lane.

        Not compared: an instruction that only the machine lacks, and a barrier that can never complete,
        which the interpreter notices when nothing else is left to run.
        """
        assert trace.trap is not None
        self._number = trace.count
        lane, reason, pc = trace.trap
        anchor = self.map.anchor[pc]
        if anchor is None or self.mismatch is not None or reason is Trap.UNSUPPORTED:
            return
        if self.map.barrier(anchor):
            return
        uniform = trace.program.code[pc].uniform
        said = reason.name.lower().replace("_", " ")
        try:
            there = self._arrive(anchor, trace.lanes, uniform)
            if self._none_astray(anchor, there):
                self._execute(anchor, there)
                self._report(lane, anchor, "trap", "no trap", said)
        except Fault as fault:
            if fault.lane != lane and not uniform:
                self._report(lane, anchor, "trap", f"lane {fault.lane}: {fault.reason}", said)

    def end(self, number: int, state: MachineState) -> None:
        """The launch is over: every lane must be through, and all of memory agree."""
        self._number = number
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
                number, self.block, None, None, f"memory at {address:#x} ({name})",
                f"{int(expected[wrong[0]]):#010x}", f"{int(got[wrong[0]]):#010x}",
            )  # fmt: skip

    def report(self, number: int, sentence: str) -> None:
        """Something that the machine cannot do happened."""
        if self.mismatch is None:
            self.mismatch = Mismatch(
                number, self.block, None, None, "path", "a token that makes sense", sentence
            )

    # -- values ---------------------------------------------------------------------------------------------

    def value(self, register: str, lane: int) -> int | None:
        """A register's bits in a lane, None before the lane wrote it."""
        return int(self.warp.registers[register][lane]) if self.known[register][lane] else None

    def words(self) -> NDArray[np.uint32]:
        """Memory as 32-bit words from MEMORY_BASE on, as far as anything is laid out."""
        end = -(-self.bound.memory_end // 4) * 4
        padded = np.zeros(end - MEMORY_BASE, np.uint8)
        content = self.interpreter.memory[MEMORY_BASE:end]
        padded[: len(content)] = content
        return padded.view(np.uint32)

    def width(self, register: str) -> int:
        """Bits of a register that machine and interpreter have in common: narrowed ones are 32 wide."""
        return min(32, TYPE_BITS[self.kernel.registers[register]])

    # -- history --------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """An opaque copy."""
        known = {name: mask.copy() for name, mask in self.known.items()}
        results = {name: dict(values) for name, values in self._results.items()}
        missed = self._missed.copy()
        return self.interpreter.snapshot(), self.completed, self.mismatch, known, results, missed

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot, which stays valid."""
        inner, self.completed, self.mismatch, known, results, missed = snapshot
        self._results = {name: dict(values) for name, values in results.items()}
        self.interpreter.restore(inner)
        self.known = {name: mask.copy() for name, mask in known.items()}
        self._missed = missed.copy()

    # -- inside ---------------------------------------------------------------------------------------------

    def _nothing_known(self) -> dict[str, Mask]:
        return {name: np.zeros(len(self.warp.pc), np.bool_) for name in self.kernel.registers}

    def _execute(self, index: int, lanes: Mask) -> None:
        event = self.warp.execute(index, lanes)
        for name in event.writes:
            self.known[name] |= event.active
        late = event.active & self._missed
        if late.any() and self.map.barrier(index):
            self._report(int(np.argmax(late)), index, "barrier", "waits there", "completed without it")

    def _choose(self, anchor: int, lanes: Mask, completes: bool) -> None:
        """The machine decided which lanes run `anchor`; those whose guard is false have passed it."""
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
                return there
        except Fault as fault:
            self._unexpected(fault, anchor)
        return np.zeros_like(self._missed)

    def _arrive(self, anchor: int, lanes: Mask, uniform: bool) -> Mask:
        """Let lanes run ahead until they stand at work; those whose work `anchor` is."""
        there = self.warp.live if uniform else self._pad(lanes)
        self._catch_up(there)
        for _ in range(len(self.kernel.body)):
            stuck = there & (self.warp.waiting >= 0)
            if not stuck.any() or (uniform and self._at(anchor).any()):
                break
            # The machine went on without lanes that leave the kernel later on, which it may.
            self._missed |= self.warp.live & (self.warp.waiting < 0)
            self.warp.waiting[:] = -1
            self._catch_up(there)
        return self._at(anchor) if uniform else there

    def _at(self, index: int) -> Mask:
        """The lanes that are about to execute a PTX instruction."""
        at: Mask = self.warp.runnable & (self.warp.pc == index)
        return at

    def _catch_up(self, lanes: Mask) -> None:
        """Execute what costs nothing until each of the lanes stands at work or waits."""
        self._run_ahead(lanes)
        if (lanes & (self.warp.waiting >= 0)).any():
            self._run_ahead(self.warp.live)  # the others may be all that the barrier waits for

    def _run_ahead(self, lanes: Mask) -> None:
        for _ in range(2 * len(self.kernel.body) * len(lanes)):
            ahead = lanes & self.warp.runnable & (~np.isin(self.warp.pc, self._costly) | self._passing())
            if not ahead.any():
                return
            index = int(self.warp.pc[ahead].min())
            self._execute(index, ahead & (self.warp.pc == index))

    def _passing(self) -> Mask:
        """Lanes that stand at work which is not theirs, their guard being false."""
        passing = np.zeros_like(self._missed)
        for index in {int(pc) for pc in self.warp.pc} & self.map.optional:
            guard = self.kernel.body[index].guard
            assert guard is not None
            holds = self.warp.registers[guard.register].astype(np.bool_) ^ guard.negated
            passing |= (self.warp.pc == index) & ~holds
        return passing

    def _none_astray(self, anchor: int, lanes: Mask) -> bool:
        """Whether `lanes`, of which there must be some, all stand at `anchor`."""
        astray = lanes & ~self._at(anchor) if lanes.any() else self.warp.live
        if astray.any():
            self._astray(int(np.argmax(astray)), anchor)
        return not astray.any()

    def _astray(self, lane: int, anchor: int | None) -> None:
        """Machine and interpreter took different paths."""
        body = self.kernel.body
        at = "at the end" if not self.warp.live[lane] else f"at line {body[int(self.warp.pc[lane])].line}"
        went = "at the end" if anchor is None else f"at line {body[anchor].line}"
        self._report(lane, anchor, "path", at, went)

    def _leave(self) -> None:
        """The block is over: whatever its lanes still have to do must be free."""
        self._catch_up(self.warp.live)
        if self.warp.live.any():
            self._astray(int(np.argmax(self.warp.live)), None)

    def _compare(self, anchor: int, register: str, results: Mapping[int, tuple[int, int]]) -> None:
        mask = (1 << self.width(register)) - 1
        # A 64-bit register that the machine narrowed is compared, and shown, as its low word.
        declared = self.kernel.registers[register]
        type_ = declared if TYPE_BITS[declared] <= 32 else "b32"
        for lane, (got, self._number) in results.items():
            expected = self.value(register, lane)
            if expected is not None and (expected ^ got) & mask:
                self._report(lane, anchor, register, show(expected & mask, type_), show(got & mask, type_))
                return

    def _unexpected(self, fault: Fault, anchor: int) -> None:
        """The interpreter faulted where the machine did not."""
        self._report(fault.lane, anchor, "trap", f"lane {fault.lane}: {fault.reason}", "no trap")

    def _report(self, lane: int | None, index: int | None, register: str, expected: str, got: str) -> None:
        if self.mismatch is None:
            line = self.kernel.body[index].line if index is not None else None
            self.mismatch = Mismatch(self._number, self.block, lane, line, register, expected, got)

    def _pad(self, lanes: Mask) -> Mask:
        """The machine's lanes as the interpreter counts them: its warps are as wide or wider."""
        padded = np.zeros(len(self.warp.pc), np.bool_)
        padded[: len(lanes)] = lanes
        return padded

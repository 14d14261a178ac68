"""Draws the `View` of a session: decodes the engine's state and lays it beside the interpreter's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE, WARP
from qdbg.compiler.machine.isa import Reg, Spill
from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.runtime.commands import CommandError
from qdbg.runtime.contents import Registers
from qdbg.runtime.launch_private import private_memory
from qdbg.runtime.numbers import bits_of, show
from qdbg.runtime.state import MachineState
from qdbg.runtime.trace import Event, meaning
from qdbg.runtime.view import MemoryArray, RegisterRow, TokenLine, View
from qdbg.runtime.walk import half

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

#: Tokens in a view.
SHOWN = 200
#: What was shown last: PTX register -> value by lane, and memory.
Marks = tuple[dict[str, list[int | None]], NDArray[np.uint32] | None]


class Painter:
    """Paints views, and remembers what each lane showed when it was last stopped at."""

    def __init__(self, session: Session):
        self._session = session
        self._flow = ControlFlow(session.kernel)
        self._names = _in_order_of_definition(session)
        self._live = _liveness(self._flow)
        self._private = private_memory(session.bound)
        self._before: dict[str, list[int | None]] = {}
        self._memory_before: NDArray[np.uint32] | None = None

    @property
    def marks(self) -> Marks:
        """What each lane showed when it was last stopped at."""
        return dict(self._before), self._memory_before

    def recall(self, marks: Marks | None) -> None:
        """Tell changes from earlier marks; None: nothing counts as changed at the next stop."""
        before, self._memory_before = marks if marks is not None else ({}, None)
        self._before = dict(before)

    def paint(self) -> View:
        """The picture at this stop."""
        session = self._session
        state = session.engine.state()
        index, place = session.standing()
        trace, lockstep = session.trace, session.lockstep
        active = np.zeros(len(trace.exists), np.bool_)
        if not session.ended:
            active = trace.lanes
        line, cuda_line = self._lines(index)
        seen_line, seen_cuda_line = self._lines(place)
        fronts = tuple((session.kernel.body[at].line, mask) for at, mask in lockstep.fronts())
        return View(
            title=session.title,
            engine=session.engine.name,
            geometry=session.geometry,
            state=session.state,
            status=session.status,
            passes=len(session.tokens),
            instructions=lockstep.issued,
            pc=trace.pc,
            machine=str(trace.instruction).rstrip("- "),
            line=line,
            cuda_line=cuda_line,
            place=seen_line,
            cuda_place=seen_cuda_line,
            grid=session.bound.grid,
            block_dim=session.bound.block,
            block=session.block,
            focus=session.focus,
            exists=tuple(bool(x) for x in trace.exists),
            active=tuple(bool(x) for x in active),
            fronts=fronts,
            registers=self._registers(state, active),
            memory=self._memory(state),
            tokens=tuple(self._token(e) for e in list(session.recent)[-SHOWN:]),
            mismatch=session.mismatch,
            trap=session.trap(),
            breakpoints=session.breakpoints.all(),
            covered=session.map.free_lines,
        )

    def _lines(self, index: int | None) -> tuple[int | None, int | None]:
        """PTX and CUDA line of a PTX instruction."""
        if index is None:
            return None, None
        instruction = self._session.kernel.body[index]
        return instruction.line, self._session.source.cuda_line(instruction)

    def describe(self, name: str) -> str:
        """A register in every lane, or an array, as one line of text."""
        session = self._session
        state = session.engine.state()
        if name in session.kernel.registers:
            rows = self._registers(state, session.trace.lanes, remember=False)
            row = next(r for r in rows if r.name == name)
            lanes = (
                f"{'t' if len(row.machine) > WARP else 'l'}{lane} {show(v, row.shown_type(lane)) or '?'}"
                for lane, v in enumerate(row.machine)
            )
            return f"{name} ({row.place}): " + "  ".join(lanes)
        for array in self._memory(state, remember=False):
            if array.name == name and array.thread in (None, session.focus):
                return f"{name} at {array.address:#x}: " + " ".join(str(v) for v in elements(array)[:64])
        raise CommandError(f"there is no register and no array {name!r} in {session.kernel.name}")

    # -- registers ----------------------------------------------------------------------------------------

    def _registers(
        self, state: MachineState, active: NDArray[np.bool_], remember: bool = True
    ) -> tuple[RegisterRow, ...]:
        session, lockstep = self._session, self._session.lockstep
        lanes = range(int(np.count_nonzero(session.trace.exists)))
        # As long as there is no mismatch, one of the two is merely ahead of the other.
        compared = session.mismatch is not None
        result = session.trace.instruction.result if not session.ended else None
        busy = half(result)[0] if result is not None else None
        at = [self._live[pc] if pc >= 0 else frozenset() for pc in lockstep.threads.pc[: len(lanes)].tolist()]
        registers = Registers(session, state)
        rows = []
        for name in self._names:
            reference = [lockstep.value(name, lane) for lane in lanes]
            found = [
                registers.content(name, lane, reference[lane], name in at[lane], name == busy)
                for lane in lanes
            ]
            machine = [content.value for content in found]
            old = self._before.get(name, [None] * len(lanes))
            if remember:
                self._before[name] = [machine[i] if active[i] or session.ended else old[i] for i in lanes]
            rows.append(
                RegisterRow(
                    name,
                    session.kernel.registers[name],
                    registers.place(name),
                    any(name in live for live in at),
                    tuple(machine),
                    tuple(reference),
                    tuple(content.short for content in found),
                    tuple(m is not None and m != o for m, o in zip(machine, old, strict=True)),
                    tuple(compared and name != busy and content.differs for content in found),
                    tuple(content.stale for content in found),
                )
            )
        return tuple(rows)

    # -- memory, tokens, trap -------------------------------------------------------------------------------

    def _memory(self, state: MachineState, remember: bool = True) -> tuple[MemoryArray, ...]:
        """Arrays, shared memory, parameters where they lie in memory, and every thread's local memory."""
        bound, lockstep = self._session.bound, self._session.lockstep
        private, words = self._private, np.dtype("<i4")
        flat = [(a.name, a.address, a.size, a.data.dtype) for a in bound.allocations]
        if bound.shared_bytes:
            flat.append(("shared", bound.shared_base, bound.shared_bytes, words))
        reference = lockstep.words()
        arrays = []
        for name, address, size, dtype in flat:
            start = (address - MEMORY_BASE) // 4
            expected = reference[start : start + (size + 3) // 4].copy()
            arrays.append(self._array(state, name, address, dtype, expected))
        if private.parameter_bytes:
            padded = bound.parameters + bytes(-len(bound.parameters) % 4)
            expected = np.frombuffer(padded, np.uint32)
            arrays.append(self._array(state, "params", private.parameters, words, expected))
        for thread, (address, size) in enumerate(private.windows):
            expected = lockstep.local_words(thread, size // 4)
            arrays.append(self._array(state, "local", address, words, expected, thread))
        if remember:
            self._memory_before = state.memory
        return tuple(arrays)

    def _array(
        self,
        state: MachineState,
        name: str,
        address: int,
        dtype: np.dtype[np.generic],
        expected: NDArray[np.uint32],
        thread: int | None = None,
    ) -> MemoryArray:
        before = self._memory_before if self._memory_before is not None else state.memory
        first = (address - MEMORY_BASE) // 4
        words = state.memory[first : first + len(expected)]
        changed = words != before[first : first + len(expected)]
        exact = self._session.mismatch is None
        return MemoryArray(name, address, dtype, words, expected, changed, exact, thread)

    def _token(self, event: Event) -> TokenLine:
        session = self._session
        anchor = session.map.anchor[event.pc]
        line = session.kernel.body[anchor].line if anchor is not None else None
        name = half(event.register)[0] if event.register is not None else None
        type_ = session.kernel.registers[name] if name is not None else "b32"
        said = meaning(event, type_ if bits_of(type_) <= 32 else "b32", -(-session.bound.threads // WARP))
        return TokenLine(event.number, str(event.token), said, line, event.margin)


def elements(array: MemoryArray) -> list[object]:
    """An array's elements in its own type, as the machine has them."""
    size = array.machine.nbytes // array.dtype.itemsize * array.dtype.itemsize
    return list(np.frombuffer(array.machine.tobytes()[:size], array.dtype).tolist())


def _read(state: MachineState, place: Reg | Spill, lane: int) -> int:
    if isinstance(place, Spill):
        return int(state.memory[(place.address + place.stride * lane - MEMORY_BASE) // 4])
    return int(state.uniforms[place.index] if place.uniform else state.registers[lane, place.index])


def _in_order_of_definition(session: Session) -> list[str]:
    """Registers in the order in which the PTX text first writes them."""
    names: dict[str, None] = {}
    for instruction in session.kernel.body:
        names.update(dict.fromkeys(ControlFlow.writes(instruction)))
    return list(names)


def _liveness(flow: ControlFlow) -> list[frozenset[str]]:
    """For every instruction the registers that it or a later one reads."""
    live: list[frozenset[str]] = [frozenset()] * len(flow.function.body)
    for block in flow.blocks:
        after = flow.live_out[block.index]
        for index in range(block.end - 1, block.start - 1, -1):
            instruction = flow.function.body[index]
            after = (after - frozenset(flow.writes(instruction))) | frozenset(flow.reads(instruction))
            live[index] = after
    return live

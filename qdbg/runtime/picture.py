"""Draws the `View` of a session: decodes the engine's state and lays it beside the interpreter's."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE, WARP
from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.runtime.commands import CommandError
from qdbg.runtime.contents import Registers
from qdbg.runtime.launch_private import private_memory
from qdbg.runtime.numbers import bits_of, show
from qdbg.runtime.state import MachineState
from qdbg.runtime.trace import Event, meaning
from qdbg.runtime.view import SHARED, MemoryArray, RegisterRow, TokenLine, Values, View
from qdbg.runtime.walk import half

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

#: Tokens in a view.
SHOWN = 200
#: Elements of an array in a line of text.
PRINTED = 64
#: What was shown last: registers as (bits, whether known), [registers, lanes] each, and memory.
Marks = tuple[tuple[NDArray[np.uint64], NDArray[np.bool_]] | None, NDArray[np.uint32] | None]
NOTHING: Marks = (None, None)


class Painter:
    """Paints views, and remembers what each lane showed when it was last stopped at."""

    def __init__(self, session: Session):
        self._session = session
        self._names = _in_order_of_definition(session)
        self._live = _liveness(session.map.flow, self._names)
        self._private = private_memory(session.bound)
        self._machine = Registers(session, self._names)
        self._before, self._memory_before = NOTHING
        self._tokens: dict[int, tuple[Event, TokenLine]] = {}  # by pass: what the last picture showed

    @property
    def marks(self) -> Marks:
        """What each lane showed when it was last stopped at."""
        return self._before, self._memory_before

    def recall(self, marks: Marks | None) -> None:
        """Tell changes from earlier marks; None: nothing counts as changed at the next stop."""
        self._before, self._memory_before = marks if marks is not None else NOTHING

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
            exists=tuple(trace.exists.tolist()),
            active=tuple(active.tolist()),
            fronts=fronts,
            registers=self._registers(state, active),
            memory=self._memory(state),
            tokens=self._newest(),
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
        if name in self._names:
            rows = self._registers(state, session.trace.lanes, remember=False)
            row = rows[self._names.index(name)]
            folded = row.place == "folded"
            letter = "t" if len(row.machine) > WARP else "l"
            texts = [
                show(value, row.shown_type(lane)) or (f"({show(known, row.type)})" if folded else "") or "?"
                for lane, (value, known) in enumerate(zip(row.machine, row.interpreter, strict=True))
            ]
            return f"{name} ({row.place}): " + "  ".join(_runs(texts, letter))
        for array in self._memory(state, remember=False):
            if array.name == name and array.seen_by(session.focus):
                found = elements(array)
                rest = f" … ({len(found)} in all)" if len(found) > PRINTED else ""
                return f"{name} at {array.address:#x}: " + " ".join(map(str, found[:PRINTED])) + rest
        raise CommandError(f"there is no register and no array {name!r} in {session.kernel.name}")

    # -- registers ----------------------------------------------------------------------------------------

    def _registers(
        self, state: MachineState, active: NDArray[np.bool_], remember: bool = True
    ) -> tuple[RegisterRow, ...]:
        if not self._names:
            return ()
        session, lockstep, names = self._session, self._session.lockstep, self._names
        count = int(np.count_nonzero(session.trace.exists))
        result = session.trace.instruction.result if not session.ended else None
        busy = half(result)[0] if result is not None else None
        live = self._live[:, lockstep.threads.pc[:count]]
        known = np.stack([lockstep.known[name] for name in names])[:, :count]
        reference = np.where(known, lockstep.threads.registers(names)[:, :count], np.uint64(0))
        found = self._machine.read(state, reference, known, live, busy)
        if self._before is None:
            self._before = np.zeros_like(found.bits), np.zeros_like(found.known)
        bits, there = self._before
        changed = found.known & ~(there & (found.bits == bits))
        if remember:
            looked_at = np.ones(count, np.bool_) if session.ended else active[:count]
            self._before = np.where(looked_at, found.bits, bits), np.where(looked_at, found.known, there)
        # As long as there is no mismatch, one of the two is merely ahead of the other.
        differs = found.differs & (session.mismatch is not None)
        differs[[name == busy for name in names]] = False
        alive: list[bool] = np.any(live, axis=1).tolist()
        return tuple(
            RegisterRow(
                name,
                session.kernel.registers[name],
                self._machine.places[row],
                alive[row],
                Values(found.bits[row], found.known[row]),
                Values(reference[row], known[row]),
                found.short[row],
                changed[row],
                differs[row],
                found.stale[row],
            )
            for row, name in enumerate(names)
        )

    # -- memory, tokens, trap -------------------------------------------------------------------------------

    def _memory(self, state: MachineState, remember: bool = True) -> tuple[MemoryArray, ...]:
        """Arrays, shared memory, parameters where they lie in memory, and every thread's local memory."""
        bound, lockstep = self._session.bound, self._session.lockstep
        private, words = self._private, np.dtype("<i4")
        flat = [(a.name, a.address, a.size, a.data.dtype) for a in bound.allocations]
        if bound.shared_bytes:
            flat.append((SHARED, bound.shared_base, bound.shared_bytes, words))
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

    def _newest(self) -> tuple[TokenLine, ...]:
        """The newest tokens; those of the last picture that are still there are not put into words again."""
        events = list(self._session.recent)[-SHOWN:]
        last, self._tokens = self._tokens, {}
        for event in events:
            seen = last.get(event.number)
            self._tokens[event.number] = (
                seen if seen is not None and seen[0] is event else (event, self._token(event))
            )
        return tuple(line for _, line in self._tokens.values())

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


def _runs(texts: list[str], letter: str) -> list[str]:
    """A text a lane, equal neighbours together: `l0 7`, `l1-3 0`."""
    found, lane = [], 0
    for text, run in groupby(texts):
        last = lane + len(list(run)) - 1
        found.append(f"{letter}{lane}{f'-{last}' if last > lane else ''} {text}")
        lane = last + 1
    return found


def _in_order_of_definition(session: Session) -> list[str]:
    """Registers in the order in which the PTX text first writes them."""
    names: dict[str, None] = {}
    for instruction in session.kernel.body:
        names.update(dict.fromkeys(ControlFlow.writes(instruction)))
    return list(names)


def _liveness(flow: ControlFlow, names: list[str]) -> NDArray[np.bool_]:
    """At which instructions it or a later one reads a register: bool [names, instructions + 1].

    The last column stands for lanes that have left, whose pc is -1.
    """
    rows = {name: row for row, name in enumerate(names)}
    live = np.zeros((len(names), len(flow.function.body) + 1), np.bool_)
    for block in flow.blocks:
        after = flow.live_out[block.index]
        for index in range(block.end - 1, block.start - 1, -1):
            instruction = flow.function.body[index]
            after = (after - frozenset(flow.writes(instruction))) | frozenset(flow.reads(instruction))
            live[[rows[name] for name in after if name in rows], index] = True
    return live

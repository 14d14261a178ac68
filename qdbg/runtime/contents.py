"""What the machine's registers hold of the PTX program's, in each lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdbg.compiler.lowering.ir import high_half
from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.machine.isa import Op, Reg, Spill
from qdbg.compiler.ptx.ir import TYPE_BITS
from qdbg.runtime.state import MachineState

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

_WORD = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Content:
    """What the machine has of a PTX register in a lane; as in `RegisterRow`."""

    value: int | None
    short: bool
    differs: bool
    stale: bool


class Registers:
    """The register file at a stop.

    A machine register holds several PTX registers over time.  It has the one whose result was written last;
    or, as a move whose two ends share a machine register writes nothing, one that can still be read and
    whose bits are there.  Of any other the last result is known, from its token.
    """

    def __init__(self, session: Session, state: MachineState):
        self._session, self._state = session, state
        self._pending = self._not_written_yet()

    def place(self, name: str) -> str:
        """Where a PTX register lives, for a person."""
        locations = self._session.program.locations
        found = [str(locations[n]) for n in (name, high_half(name)) if n in locations]
        return ",".join(found) or "folded"

    def content(self, name: str, lane: int, reference: int | None, live: bool, busy: bool) -> Content:
        """A register in a lane.

        reference: the interpreter's value; live: the lane can still read it; busy: it is being computed.
        """
        # A uniform register holds the same for lanes that never came here: theirs is not shown.
        if reference is None and not busy and self._session.mismatch is None:
            return Content(None, False, False, False)
        wide = TYPE_BITS[self._session.kernel.registers[name]] == 64
        low = self._half(name, lane, reference, live)
        high = self._half(high_half(name), lane, None if reference is None else reference >> 32, live)
        if low.value is None or high.value is None or not wide:
            return Content(low.value, wide and low.value is not None, low.differs, low.stale)
        value = low.value | high.value << 32
        return Content(value, False, low.differs or high.differs, low.stale or high.stale)

    def _half(self, name: str, lane: int, reference: int | None, live: bool) -> Content:
        session = self._session
        place = session.program.locations.get(name)
        if place is None:
            return Content(None, False, False, False)
        mask = (1 << session.lockstep.width(name)) - 1
        there = self._read(place, lane) & mask
        seen = session.seen.get(name, {}).get(lane)
        if isinstance(place, Spill):
            held = seen is not None and there == seen & mask
        else:
            held = session.holds.get(place, {}).get(lane) == name
        differs = reference is not None and bool((there ^ reference) & mask)
        if held or (live and reference is not None and not differs):
            return Content(there, False, differs, False)
        return Content(None if seen is None else seen & mask, False, False, seen is not None)

    def _read(self, place: Reg | Spill, lane: int) -> int:
        state = self._state
        if isinstance(place, Spill):
            return int(state.memory[(place.address + place.stride * lane - MEMORY_BASE) // 4])
        if (place, lane) in self._pending:
            return self._pending[place, lane]
        return int(state.uniforms[place.index] if place.uniform else state.registers[lane, place.index])

    def _not_written_yet(self) -> dict[tuple[Reg, int], int]:
        """Results that the newest token carries: they are written when it is fed, in the next pass."""
        session = self._session
        if not session.recent:
            return {}
        event = session.recent[-1]
        instr = session.program.code[event.pc]
        if event.value is None or instr.op is Op.CBR:
            return {}
        lanes = range(len(session.trace.exists)) if event.lane is None else (event.lane,)
        return {(instr.dst, lane): event.value & _WORD for lane in lanes}

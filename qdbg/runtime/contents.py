"""What the machine's registers hold of the PTX program's, in all lanes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.lowering.ir import high_half
from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.machine.isa import Op, Reg, Spill
from qdbg.compiler.ptx.ir import TYPE_BITS
from qdbg.runtime.state import MachineState

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

_HIGH = np.uint64(32)
_LOW_WORD = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What the machine has of PTX registers: arrays [registers, lanes]; as in `RegisterRow`.

    bits: uint64, 0 where not `known`.
    """

    bits: NDArray[np.uint64]
    known: NDArray[np.bool_]
    short: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    stale: NDArray[np.bool_]


class Registers:
    """The register file, read as the PTX program's registers.

    A machine register holds several PTX registers over time.  It has the one whose result was written last;
    or, as a move whose two ends share a machine register writes nothing, one that can still be read and
    whose bits are there.  Of any other the last result is known, from its token.
    """

    def __init__(self, session: Session, names: Sequence[str]):
        """names: the PTX registers, in the order of the rows."""
        self._session = session
        declared, locations = session.kernel.registers, session.program.locations
        wide = [row for row, name in enumerate(names) if TYPE_BITS[declared[name]] == 64]
        #: Rows of the registers, then those of the high halves of the wide ones.
        self._halves = [*names, *(high_half(names[row]) for row in wide)]
        self._wide = np.array(wide, np.intp)
        self._places = [locations.get(name) for name in self._halves]
        self._masks = np.array([(1 << session.lockstep.width(n)) - 1 for n in self._halves], np.uint64)
        self._labels = np.array(self._halves, np.object_)[:, None]
        #: Where a PTX register lives, for a person.
        self.places = [
            ",".join(str(locations[n]) for n in (name, high_half(name)) if n in locations) or "folded"
            for name in names
        ]

    def read(
        self,
        state: MachineState,
        reference: NDArray[np.uint64],
        known: NDArray[np.bool_],
        live: NDArray[np.bool_],
        busy: str | None,
    ) -> Contents:
        """All registers in all lanes that exist.

        reference: the interpreter's values where `known`; live: lanes that can still read a register; busy:
        the one that is being computed.  All arrays are [registers, lanes].
        """
        count, wide = len(reference), self._wide
        halves = self._read_halves(
            state,
            np.concatenate([reference & _LOW_WORD, reference[wide] >> _HIGH]),
            np.concatenate([known, known[wide]]),
            np.concatenate([live, live[wide]]),
        )
        bits, has, short = halves.bits[:count], halves.known[:count], halves.short[:count]
        differs, stale = halves.differs[:count], halves.stale[:count]
        both = has[wide] & halves.known[count:]
        bits[wide] |= np.where(both, halves.bits[count:] << _HIGH, np.uint64(0))
        short[wide] = has[wide] & ~both
        differs[wide] |= halves.differs[count:] & both
        stale[wide] |= halves.stale[count:] & both
        if self._session.mismatch is None:
            # A uniform register holds the same for lanes that never came here: theirs is not shown.
            shown = known.copy()
            if busy in self._halves[:count]:
                shown[self._halves.index(busy)] = True
            for flags in (has, short, differs, stale):
                flags &= shown
            bits[~has] = 0
        return Contents(bits, has, short, differs, stale)

    def _read_halves(
        self,
        state: MachineState,
        reference: NDArray[np.uint64],
        known: NDArray[np.bool_],
        live: NDArray[np.bool_],
    ) -> Contents:
        """Registers of up to 32 bits and halves of wider ones, [halves, lanes]."""
        session, shape = self._session, reference.shape
        masks = self._masks[:, None]
        there = self._words(state, shape) & masks
        never = np.full(len(session.trace.exists), -1, np.int64)
        last = np.stack([session.seen.get(name, never) for name in self._halves])[:, : shape[1]]
        seen, last_bits = last >= 0, last.astype(np.uint64) & masks
        nobody = np.full(len(session.trace.exists), None, np.object_)
        whose = np.stack([self._whose(place, nobody) for place in self._places])[:, : shape[1]]
        held = (whose == self._labels).astype(np.bool_)
        spilled = [isinstance(place, Spill) for place in self._places]
        held[spilled] = (seen & (there == last_bits))[spilled]
        nowhere = [place is None for place in self._places]
        wrong = known & (there != reference & masks)
        has = held | (live & known & ~wrong)
        has[nowhere] = False
        seen[nowhere] = False
        bits = np.where(has, there, np.where(seen, last_bits, np.uint64(0)))
        return Contents(bits, has | seen, np.zeros(shape, np.bool_), held & wrong, seen & ~has)

    def _whose(self, place: Reg | Spill | None, nobody: NDArray[np.object_]) -> NDArray[np.object_]:
        """Whose result a machine register has, by lane."""
        return self._session.holds.get(place, nobody) if isinstance(place, Reg) else nobody

    def _words(self, state: MachineState, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """The words at the places of all halves, [halves, lanes]; 0 where there is no place."""
        words, lanes = np.zeros(shape, np.uint64), np.arange(shape[1])
        pending = self._not_written_yet()
        for row, place in enumerate(self._places):
            if isinstance(place, Spill):
                words[row] = state.memory[(place.address + place.stride * lanes - MEMORY_BASE) // 4]
            elif place is not None:
                uniform = place.uniform
                words[row] = (
                    state.uniforms[place.index] if uniform else state.registers[: shape[1], place.index]
                )
                if pending is not None and pending[0] == place:
                    words[row, pending[1]] = pending[2]
        return words

    def _not_written_yet(self) -> tuple[Reg, slice, int] | None:
        """Machine register, lanes and result of the newest token: it is written in the next pass."""
        session = self._session
        if not session.recent:
            return None
        event = session.recent[-1]
        instr = session.program.code[event.pc]
        if event.value is None or instr.op is Op.CBR:
            return None
        lanes = slice(None) if event.lane is None else slice(event.lane, event.lane + 1)
        return instr.dst, lanes, event.value & int(_LOW_WORD)

"""A warp: lanes with a program counter each, registers across the lanes, and one instruction at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Instruction, Space
from qdbg.runtime.interpreter.bounds import ErrorBound
from qdbg.runtime.interpreter.errors import Coordinates, Fault, Reason
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.memory import AccessError, Memory
from qdbg.runtime.interpreter.names import EXIT
from qdbg.runtime.interpreter.schedule import Mask, Schedule
from qdbg.runtime.interpreter.specials import CLOCKS, fixed_specials
from qdbg.runtime.interpreter.stack import Stack

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.block import Block
    from qdbg.runtime.launch import BoundLaunch

#: The arrays of a warp that execution changes, registers apart.
_STATE = ("pc", "carry", "waiting", "barrier", "needed", "stack", "schedule")
#: Bytes of a string that printf or an assertion reads.
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Printed:
    """What one call of printf in device code printed; block and thread are indices (x, y, z)."""

    block: Coordinates
    thread: Coordinates
    text: str


#: What messages say that an access does, other than load.
_VERBS = {"st": "stores to", "atom": "updates", "red": "updates"}


@dataclass(frozen=True, eq=False)
class Event:
    """One executed warp instruction.

    block and warp: numbers; index: the instruction's place in the linked code; mask: the lanes that were
    at it, active: those whose guard held (bool [lanes], not to be modified); writes: the destinations'
    contents afterwards (uint64 [lanes]); memory: (space, addresses uint64 [active lanes], bytes a lane) of
    a load or store; error: what the ISA lets hardware differ by in what an approximate instruction wrote,
    None otherwise.
    """

    block: int
    warp: int
    index: int
    mask: NDArray[np.bool_]
    active: NDArray[np.bool_]
    writes: dict[str, NDArray[np.uint64]]
    memory: tuple[Space, NDArray[np.uint64], int] | None
    error: ErrorBound | None = None


class Warp:
    """`lanes` threads of a block that share instruction issue.

    pc: int64 [lanes], index into the linked code, -1 where the lane has exited or never existed;
    registers: name -> uint64 [lanes], bit patterns, 0 before the first write, those of a device function
    named `function::register`; carry: bool [lanes], CC.CF; stack: the calls that the lanes are in;
    waiting: int64 [lanes], index of the instruction at which a lane waits for others, -1 if it does not;
    barrier: int64 [lanes], the barrier that it waits at, or the kind of collective (`meeting_number`).
    """

    def __init__(self, block: Block, number: int):
        program = block.program
        self.block, self.number, self.lanes = block, number, program.lanes
        self.program = program
        self.memory: Memory = block.memory
        self.threads = np.arange(self.lanes, dtype=np.int64) + number * self.lanes
        self.exists = self.threads < program.bound.threads
        self.pc = np.where(self.exists, np.int64(program.entry), np.int64(EXIT))
        self.registers: dict[str, NDArray[np.uint64]] = {
            name: np.zeros(self.lanes, np.uint64) for name in program.registers
        }
        self.stack = Stack(self.lanes, program.names.frame_bytes)
        self.carry = np.zeros(self.lanes, np.bool_)
        self.waiting = np.full(self.lanes, -1, np.int64)
        self.barrier = np.zeros(self.lanes, np.int64)
        self.needed = np.zeros(self.lanes, np.int64)  # threads the barrier waits for, or lanes as a mask
        self.schedule = Schedule(self.lanes, program.choices)
        self._specials = fixed_specials(program.bound, block.coordinates, number, self.threads)
        self._access: tuple[Space, NDArray[np.uint64], int] | None = None
        self._current = 0

    @property
    def live(self) -> NDArray[np.bool_]:
        """Lanes that have not exited."""
        return self.pc >= 0

    @property
    def exited(self) -> NDArray[np.bool_]:
        """Lanes that have exited or never existed."""
        return self.pc < 0

    @property
    def runnable(self) -> NDArray[np.bool_]:
        """Live lanes that wait at no barrier."""
        return (self.pc >= 0) & (self.waiting < 0)

    def next(self) -> tuple[int, Mask] | None:
        """The instruction to issue and the lanes at it, not to be modified; None if no lane can run."""
        choice = self.schedule.choose(self)
        return None if choice is None else choice[:2]

    def step(self) -> Event | None:
        """Execute the next instruction; None if no lane can run.  Raises as `execute` does."""
        choice = self.schedule.choose(self)
        return None if choice is None else self._issue(*choice)

    def execute(self, index: int, mask: Mask) -> Event:
        """Execute the instruction at `index` for exactly the lanes in `mask`, which must all be there.

        Raises `ValueError` if one is not, `Fault` and `Unsupported`.  When a lane faults, the lanes below
        it have done the instruction, it and those above have not, and no lane has moved on.
        """
        runnable = self.runnable
        ready = mask & runnable & (self.pc == index)
        if not 0 < np.count_nonzero(mask) == np.count_nonzero(ready):
            raise ValueError(f"not every lane of the mask is about to execute instruction {index}")
        return self._issue(index, mask.copy(), np.count_nonzero(mask) == np.count_nonzero(runnable))

    def _issue(self, index: int, mask: Mask, alone: bool) -> Event:
        """Execute; `alone` says that no lane outside `mask` could run."""
        operation = self.program.operation(index)
        self._current, self._access = index, None
        active, jump = mask, None
        with np.errstate(all="ignore"):
            if operation.guard is not None:
                active = mask & operation.guard(self)
            if active is mask or np.count_nonzero(active):
                try:
                    jump = operation.action(self, active)
                except Fault as fault:
                    below = active & (np.arange(self.lanes) < fault.lane)
                    if below.any():
                        operation.action(self, below)
                    raise
        self.pc[mask] = self.program.follow(index + 1)
        if jump is not None:
            self.pc[active] = jump if isinstance(jump, int) else jump[active]
        self.schedule.ran(mask, alone, operation.weight)
        self.program.issued += 1
        if self.block.waiting:
            self.block.release(self, mask)
        writes = {name: self.registers[name].copy() for name in operation.writes}
        return Event(
            self.block.number, self.number, index, mask, active, writes, self._access, operation.error
        )

    def save(self) -> dict[str, Any]:
        """A copy of what execution changes."""
        state: dict[str, Any] = {name: getattr(self, name).copy() for name in _STATE}
        state["registers"] = {name: values.copy() for name, values in self.registers.items()}
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Return to a saved state, which stays valid."""
        for name in _STATE:
            setattr(self, name, state[name].copy())
        self.registers = {name: values.copy() for name, values in state["registers"].items()}

    # What actions use.

    @property
    def instruction(self) -> Instruction:
        """The instruction that is being executed."""
        return self.program.code[self._current]

    @property
    def index(self) -> int:
        """Its index in the linked code."""
        return self._current

    def special(self, name: str) -> NDArray[np.uint64]:
        """The lanes' values of a special register (PTX ISA 10)."""
        fixed = self._specials.get(name)
        if fixed is not None:
            return fixed
        shift, bits = CLOCKS[name]
        return np.full(self.lanes, self.program.issued >> shift & (1 << bits) - 1, np.uint64)

    def locate(
        self, space: Space, addresses: NDArray[np.uint64], active: NDArray[np.bool_], size: int
    ) -> tuple[NDArray[np.intp], Array]:
        """The active lanes' numbers, and where in the memory image they access `size` bytes."""
        lanes = np.flatnonzero(active)
        chosen = addresses[lanes]
        try:
            located = self.memory.locate(space, chosen, self.threads[lanes], self.stack.top[lanes], size)
        except AccessError as error:
            raise self._access_fault(error, int(lanes[error.position]), space, size) from None
        self._access = (space, chosen, size)
        for watch in self.program.watches:
            watch.access(self, self._current, space, lanes, located, size)
        return lanes, located

    def wait_at_barrier(self, active: Array, ident: Array, count: Array) -> None:
        """The active lanes wait at a barrier of the block for `count` threads, 0 meaning all.

        Or at a collective, whose number `ident` then is, for the lanes in their member masks `count`.
        """
        self.block.waiting = self.block.changed = True
        np.copyto(self.waiting, self._current, where=active)
        np.copyto(self.barrier, ident, where=active, casting="unsafe")
        np.copyto(self.needed, count, where=active, casting="unsafe")

    def place(self, lane: int) -> int:
        """The index of the instruction that a lane waits at, or else of the one that is being executed."""
        waiting = int(self.waiting[lane])
        return waiting if waiting >= 0 else self._current

    def word(self, lane: int, address: int, size: int) -> int:
        """The unsigned value of `size` bytes at a generic address, as a lane sees it."""
        active = np.arange(self.lanes) == lane
        _, located = self.locate("generic", np.full(self.lanes, address, np.uint64), active, size)
        self._access = None  # it is not the instruction's own
        return int(self.memory.load(located, size)[0])

    def string(self, lane: int, address: int) -> str:
        """The text at a generic address up to a zero byte, at most `_LONGEST` bytes of it."""
        found = bytearray()
        while len(found) < _LONGEST and (byte := self.word(lane, address + len(found), 1)):
            found.append(byte)
        return found.decode("utf-8", "replace")

    def print(self, lane: int, text: str) -> None:
        """A lane prints."""
        self.program.printed.append(Printed(self.block.coordinates, self.thread(lane), text))

    def fault(self, message: str, reason: Reason, lane: int, address: int | None = None) -> Fault:
        """A fault of a lane at the current instruction."""
        instruction = self.instruction
        source = self.program.bound.source
        return Fault(
            f"{source.place(instruction)}: {message}: {source.quote(instruction)}",
            reason, instruction.line, self.block.coordinates, self.thread(lane), lane, address,
        )  # fmt: skip

    def thread(self, lane: int) -> Coordinates:
        """A lane's thread index, x, y, z."""
        return coordinates(int(self.threads[lane]), self.program.bound.block)

    def name(self, lane: int) -> str:
        """A thread as messages name it."""
        return thread_name(self.program.bound, int(self.threads[lane]), self.block.number)

    def _access_fault(self, error: AccessError, lane: int, space: Space, size: int) -> Fault:
        verb = _VERBS.get(self.instruction.opcode, "loads from")
        place = (
            f"{self.name(lane)} {verb} {space if space != 'generic' else 'global'} address {error.address:#x}"
        )
        cure = "check the index against the size"
        if error.reason == "misaligned":
            why = f"which is not a multiple of the {size} bytes that it accesses"
            cure = "align the pointer"
        elif space in ("global", "const", "generic"):
            why = f"which is outside every array{self.program.nearest(error.address)}"
        else:
            why = f"which is outside the {space} memory of the kernel"
        return self.fault(f"{place}, {why}; {cure}", error.reason, lane, error.address)


def coordinates(number: int, shape: Coordinates) -> Coordinates:
    """The index (x, y, z) of a thread or block from its number, x fastest."""
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def thread_name(bound: BoundLaunch, thread: int, block: int) -> str:
    """A thread, given by its number in a block and that one's number, as messages name it."""
    return (
        f"thread {_tuple(coordinates(thread, bound.block))} of block {_tuple(coordinates(block, bound.grid))}"
    )


def _tuple(triple: Coordinates) -> str:
    return "({}, {}, {})".format(*triple)

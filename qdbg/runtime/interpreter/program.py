"""A kernel prepared for one launch: linked with what it calls, decoded, and ordered for the scheduler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.compiler.ptx.ir import Function, Instruction, Module, Register
from qdbg.runtime.interpreter.decode import Operation, decode
from qdbg.runtime.interpreter.findings import Findings
from qdbg.runtime.interpreter.names import EXIT, Names
from qdbg.runtime.interpreter.watch import Watch
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.launch_memory import function_addresses, reachable

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.schedule import Choice
    from qdbg.runtime.interpreter.warp import Printed

#: As much as the frames of nested calls may take in a thread; only what is used costs anything.
STACK_BYTES = 1 << 16


@dataclass(frozen=True, eq=False)
class Routine:
    """A function in the linked code: its instructions are `code[start:end]`."""

    function: Function
    start: int
    end: int
    names: Names


class Program:
    """The linked code of a launch, decoded on demand, an instruction at its first execution.

    code: every instruction that can run.  The kernel's body comes first, so that an index below its length
    is an index into that body; then the device functions that it can reach, each with a `ret` behind its
    last instruction.  routines: the kernel, then these functions; recursive: those that may be called while
    they run.  registers: the names of all registers, as a warp keeps them; rank[i]: the place of
    instruction i when blocks are laid out in control-flow order; issued: the warp instructions so far;
    printed: what printf in device code printed so far; findings: warnings so far; watches: who is told of
    accesses to memory.
    """

    def __init__(self, bound: BoundLaunch, lanes: int):
        self.kernel, self.bound, self.lanes = bound.kernel, bound, lanes
        self.issued = 0
        self.printed: list[Printed] = []
        self.choices: dict[bytes, Choice | None] = {}  # what warps remember of their scheduling
        self.findings = Findings()
        self.watches: tuple[Watch, ...] = ()
        self.code: list[Instruction] = []
        self.routines: list[Routine] = []
        for function in _linked(bound.source.ptx, bound.kernel):
            self._link(function)
        self.names = self.routines[0].names
        self.has_calls = len(self.routines) > 1
        self.registers = tuple(r.names.key(name) for r in self.routines for name in r.names.registers)
        self.entry = self.follow(0)
        self._by_name = {routine.function.name: routine for routine in self.routines}
        addresses = function_addresses(bound.source.ptx)
        self._by_address = {addresses[r.function.name]: r for r in self.routines[1:]}
        self.recursive = frozenset(r for r in self.routines[1:] if self._reenters(r))
        self._starts = [routine.start for routine in self.routines]
        self._operations: list[Operation | None] = [None] * len(self.code)
        self.rank: NDArray[np.int64] = self._ranks()

    @property
    def stack_bytes(self) -> int:
        """Local memory of a thread for the frames of its calls."""
        return STACK_BYTES if self.has_calls else 0

    def operation(self, index: int) -> Operation:
        """The decoded instruction at `index`."""
        found = self._operations[index]
        if found is None:
            found = decode(self.routine(index).names, self.lanes, self.code[index])
            self._operations[index] = found
        return found

    def routine(self, index: int) -> Routine:
        """The function that holds the instruction at `index`."""
        return self.routines[bisect_right(self._starts, index) - 1]

    def named(self, name: str) -> Routine:
        """A device function by its name."""
        return self._by_name[name]

    def at_address(self, address: int) -> Routine | None:
        """The device function at an address, None where there is none."""
        return self._by_address.get(address)

    def follow(self, index: int) -> int:
        """A program counter; running off the end of the kernel exits."""
        return EXIT if index == len(self.kernel.body) else index

    def nearest(self, address: int) -> str:
        """A hint for messages: the allocation that ends or starts closest to an address."""
        allocations = self.bound.allocations
        if not allocations:
            return ""
        close = min(allocations, key=lambda a: max(a.address - address, address - a.end, 0))
        return f" (the nearest is {close.name}, {close.address:#x} to {close.end:#x})"

    def _link(self, function: Function) -> None:
        """Append a function.  The `ret` also keeps a kernel's end from being another function's start."""
        start = len(self.code)
        line = function.body[-1].line if function.body else function.line
        last = Instruction(len(function.body), line, "ret", "ret", (), ())
        self.code += [*function.body, last]
        names = Names(function, self.bound, start)
        self.routines.append(Routine(function, start, len(self.code), names))

    def _reenters(self, routine: Routine) -> bool:
        """Whether a function may be called while it runs, by what it mentions."""
        module = self.bound.source.ptx
        name = routine.function.name
        return name in reachable(module, routine.function) or any(
            i.opcode == "call" and any(isinstance(o, Register) for o in i.operands)
            for r in self.routines[1:]
            for i in r.function.body
        )

    def _ranks(self) -> NDArray[np.int64]:
        rank = np.zeros(len(self.code), np.int64)
        for routine in self.routines:
            flow = ControlFlow(routine.function)
            reachable = list(flow.order)
            rest = [block.index for block in flow.blocks if block.index not in set(reachable)]
            place = routine.start
            for number in (*reachable, *rest):
                block = flow.blocks[number]
                size = block.end - block.start
                start = routine.start + block.start
                rank[start : start + size] = np.arange(place, place + size)
                place += size
            rank[routine.end - 1] = place
        return rank


def _linked(module: Module, kernel: Function) -> Iterator[Function]:
    """The kernel, then the device functions that it can reach, in the module's order."""
    reached = reachable(module, kernel)
    yield kernel
    for function in module.functions:
        if function.name in reached and not function.is_entry and "external" not in function.directives:
            yield function

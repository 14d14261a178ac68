"""Instruction selection: a PTX kernel becomes blocks of machine operations on virtual registers.

Instructions that the machine lacks become traps where they stand.  A predicated instruction without
effects becomes a select; any other is branched around.  Control flow is here, PTX ISA 9.7.12 and 9.7.13;
each family of values has a module, and so have loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qdbg.compiler.lowering.addresses import Addresses
from qdbg.compiler.lowering.arithmetic import Arithmetic
from qdbg.compiler.lowering.atomics import Atomics
from qdbg.compiler.lowering.bits import Bits
from qdbg.compiler.lowering.builder import Builder, is_temporary
from qdbg.compiler.lowering.calls import remaining_call
from qdbg.compiler.lowering.division import Division
from qdbg.compiler.lowering.fields import Fields
from qdbg.compiler.lowering.ir import Blocks, Branch, Geometry, Jump, Stop, Value
from qdbg.compiler.lowering.long_division import LongDivision
from qdbg.compiler.lowering.meetings import Meetings
from qdbg.compiler.lowering.memory import Memory
from qdbg.compiler.lowering.moves import Moves
from qdbg.compiler.lowering.operands import BLOCK_INDEX, Operands
from qdbg.compiler.lowering.permute import Permute
from qdbg.compiler.lowering.shuffle import Shuffle
from qdbg.compiler.lowering.synchronise import Synchronise
from qdbg.compiler.lowering.types import Unsupported
from qdbg.compiler.lowering.warp import Warp
from qdbg.compiler.machine.isa import Cond, Op, Trap
from qdbg.compiler.ptx.ir import Function, Guard, Instruction, Label, Module, PtxError, Vector

_NOTHING = (
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "nanosleep",
    "pmevent",
    "brkpt",
    "griddepcontrol",
)


def select(module: Module, kernel: Function, geometry: Geometry, meetings: Meetings) -> Blocks:
    """The kernel's blocks for the whole grid, the entry first.  Raises PtxError for senseless operands."""
    return _Selector(module, kernel, geometry, meetings).run()


class _Selector:
    def __init__(self, module: Module, kernel: Function, geometry: Geometry, meetings: Meetings):
        self.path, self.module, self.kernel, self.geometry = module.path, module, kernel, geometry
        self.builder = Builder(kernel.registers)
        self.operands = Operands(module, kernel, geometry, self.builder)
        self.values: dict[str, Callable[[Instruction], None]] = {}
        for family in (Addresses, Arithmetic, Bits, Division, Fields, Moves, Permute):
            self.values |= family(self.builder, self.operands).selectors
        self.collectives: dict[str, Callable[[Instruction], None]] = {}
        for collective in (Atomics, Shuffle, Synchronise, Warp):
            self.collectives |= collective(self.builder, self.operands, meetings).selectors
        self.memory = Memory(self.builder, self.operands)
        self.long_division = LongDivision(self.builder, self.operands)
        self.labels = {name: self.builder.reserve() for name in kernel.labels}
        self.kernel_exit = self.builder.exit
        self.at_label: dict[int, list[int]] = {}
        for name, index in kernel.labels.items():
            self.at_label.setdefault(index, []).append(self.labels[name])

    def run(self) -> Blocks:
        builder = self.builder
        start = builder.reserve()
        builder.enter(start)
        self.kernel_exit = self._grid_loop(start)
        builder.blocks[start].starts = self.kernel_exit != builder.exit
        builder.blocks[self.kernel_exit].done = True
        for instruction in self.kernel.body:
            for block in self.at_label.get(instruction.index, ()):
                builder.enter(block)
            if not builder.open:  # unreachable until the next label
                builder.enter(builder.reserve())
            builder.at = (instruction.index,)
            try:
                self._instruction(instruction)
            except (LookupError, ValueError, StopIteration):  # operands or types that the opcode cannot have
                cause = f"malformed operands for `{instruction.text}`"
                raise PtxError(self.path, instruction.line, cause) from None
        for block in self.at_label.get(len(self.kernel.body), ()):
            builder.enter(block)
        if builder.open:
            builder.close(Jump(self.kernel_exit))
        return builder.finished()

    def _grid_loop(self, start: int) -> int:
        """Where a block of the grid ends: the block index counts up, x fastest, and the next one starts."""
        builder = self.builder
        after = builder.exit
        for axis in reversed("xyz"):
            size = self.geometry.grid["xyz".index(axis)]
            if size == 1:
                continue
            inside, index = builder.current, BLOCK_INDEX[axis]
            count, wrap = builder.reserve(), builder.reserve()
            builder.current = count
            builder.op(Op.ADD, index, addend=1, dst=index)
            builder.close(Branch(index, Cond.LT, size, start, wrap))
            builder.current = wrap
            if after != builder.exit:
                builder.copy(index, 0)
            builder.close(Jump(after))
            after, builder.current = count, inside
        return after

    # --- one instruction ---------------------------------------------------------------------------

    def _instruction(self, i: Instruction) -> None:
        builder = self.builder
        if i.guard is None or i.opcode == "bra":
            return self._unguarded(i)
        before = len(builder.operations)
        if i.opcode in self.values:
            try:
                self.values[i.opcode](i)
                self._select_results(before, i.guard)
                return None
            except Unsupported:
                del builder.operations[before:]
        inside, after = builder.reserve(), builder.reserve()
        builder.close(self._branch(i.guard, inside, after))
        builder.enter(inside)
        self._unguarded(i)
        builder.enter(after)
        return None

    def _select_results(self, since: int, guard: Guard) -> None:
        """Make the newest operations keep the old value of what they write where the guard is false."""
        builder = self.builder
        written: dict[str, str] = {}
        chooser: Value = guard.register
        for position in range(since, len(builder.operations)):
            operation = builder.operations[position].substitute(dict(written))
            dst = operation.dst
            if dst is not None and not is_temporary(dst):
                fresh = written[dst] = builder.temporary()
                operation = replace(operation, dst=fresh, result=None)
            builder.operations[position] = operation
        results = list(written.items())
        if guard.register in written and len(results) > 1:  # the guard itself changes: keep its old value
            builder.copy(chooser := builder.temporary(), guard.register)
        for register, fresh in results:
            yes, no = (register, fresh) if guard.negated else (fresh, register)
            builder.op(Op.SEL, yes, no, chooser, dst=register)

    def _unguarded(self, i: Instruction) -> None:
        before = len(self.builder.operations)
        try:
            self._translate(i)
        except Unsupported as missing:
            del self.builder.operations[before:]
            self._stop(Trap.UNSUPPORTED, missing.what or f"`{i.name}`")

    def _translate(self, i: Instruction) -> None:
        builder = self.builder
        if self.long_division.applies(i):
            return self.long_division.translate(i)
        if i.opcode in self.values:
            return self.values[i.opcode](i)
        if i.opcode in self.collectives:
            return self.collectives[i.opcode](i)
        match i.opcode:
            case "ld" | "ldu":
                self.memory.load(i)
            case "st":
                self.memory.store(i)
            case "bra":
                self._bra(i)
            case "brx":
                self._brx(i)
            case "ret" | "exit":
                builder.close(Jump(self.kernel_exit))
            case "trap":
                self._stop(Trap.USER)
            case "call":
                trap = remaining_call(self.module, self.kernel, i)
                if trap is not None:
                    self._stop(trap)
            case opcode if opcode in _NOTHING:
                pass
            case _:
                raise Unsupported
        return None

    # --- control flow ------------------------------------------------------------------------------

    def _stop(self, reason: Trap, lacks: str = "") -> None:
        self.builder.close(Stop(reason, self.kernel_exit, self.builder.at, lacks))

    def _branch(self, guard: Guard, taken: int, other: int) -> Branch:
        cond = Cond.EQ if guard.negated else Cond.LT | Cond.GT
        return Branch(guard.register, cond, 0, taken, other, self.builder.at)

    def _bra(self, i: Instruction) -> None:
        label = i.operands[0]
        if not isinstance(label, Label):
            raise Unsupported
        target = self.labels[label.name]
        if i.guard is None:
            return self.builder.close(Jump(target))
        other = self.builder.reserve()
        self.builder.close(self._branch(i.guard, target, other))
        return self.builder.enter(other)

    def _brx(self, i: Instruction) -> None:
        """Goes to the label that an index chooses (PTX ISA 9.7.12.4): a comparison for each entry."""
        index, table = i.operands
        if not isinstance(table, Vector):
            raise Unsupported
        chosen = self.operands.value(index)
        for number, label in enumerate(table.elements):
            if not isinstance(label, Label):
                raise Unsupported
            other = self.builder.reserve()
            end = Branch(chosen, Cond.EQ, number, self.labels[label.name], other, self.builder.at)
            self.builder.close(end)
            self.builder.enter(other)
        self._stop(Trap.OUT_OF_BOUNDS)

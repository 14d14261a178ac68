"""From blocks to a list of machine instructions with symbolic targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import (
    MASK,
    Branch,
    Exit,
    Jump,
    Operation,
    Parameter,
    Stop,
    Value,
    inverse,
)
from qdbg.compiler.lowering.scopes import Scopes
from qdbg.compiler.machine.isa import ADDRESS_OPS, LANE_INDEX, NONE, Cond, Instr, Op, Pattern, Reg, Trap

Label = int
_ALWAYS = Cond.LT | Cond.EQ | Cond.GT
_WITHOUT_B = ADDRESS_OPS - {Op.ST, Op.LDA} | {Op.SUB, Op.SX8, Op.SX16, Op.POPC, Op.CLZ, Op.BREV, Op.MASK}


def needs_register(operation: Operation, operand: str) -> bool:
    """Whether operand `a`, `b` or `c` takes a register: not if it is 0, unused, or fits the immediate."""
    value = getattr(operation, operand)
    if operand == "b" and isinstance(value, int):
        return value != 0 and operation.op not in _WITHOUT_B and operation.addend != 0
    return bool(value != 0)


@dataclass(frozen=True, slots=True)
class Item:
    """An instruction whose `target` and `skip` are labels; a label is the number of a block, or negative."""

    instr: Instr
    target: Label | None = None
    skip: Label | None = None

    @property
    def is_jump(self) -> bool:
        """Whether control always goes to `target`."""
        return self.instr.op is Op.BR and self.target == self.skip


@dataclass(slots=True)
class Code:
    """Items in layout order; `labels` maps a label to the index of the item that it precedes."""

    items: list[Item]
    labels: dict[Label, int]


class Locations:
    """Where values live: registers as allocated, constants and parameters in uniform registers of their own.

    `base` is the first uniform register that holds no computed value; `fixed` counts from there.
    """

    def __init__(self, numbers: dict[str, int], uniform: frozenset[str]):
        self.numbers, self.uniform = numbers, uniform
        self.fixed: dict[int | Parameter, int] = {}
        self.base = max((n + 1 for r, n in numbers.items() if r in uniform), default=0)

    def register(self, value: Value) -> Reg:
        """The operand field for a value."""
        if isinstance(value, str):
            if value in self.uniform:
                return Reg(self.numbers[value], uniform=True)
            return Reg(self.numbers[value])
        if isinstance(value, int | Parameter):
            if value == 0:
                return NONE
            return Reg(self.fixed.setdefault(value, len(self.fixed)) + self.base, uniform=True)
        return LANE_INDEX


class Emitter:
    """Writes the blocks of a scheduled graph out, one after another."""

    def __init__(self, frontier: Frontier, scopes: Scopes, locations: Locations):
        self.frontier, self.scopes, self.locations = frontier, scopes, locations
        self.code = Code([], {})
        self._spare = -1
        self._written: set[Reg] = set()
        self._late: list[Callable[[], None]] = []

    def run(self) -> Code:
        for node in range(len(self.frontier.graph.blocks)):
            if self.frontier.into[node]:
                self._block(node)
        for emit in self._late:
            emit()
        return self.code

    # --- pieces --------------------------------------------------------------------------------------

    def _put(self, instr: Instr, target: Label | None = None, skip: Label | None = None) -> None:
        self.code.items.append(Item(instr, target, skip))

    def _label(self, label: Label) -> None:
        self.code.labels[label] = len(self.code.items)

    def _fresh(self) -> Label:
        self._spare -= 1
        return self._spare

    def _block(self, node: int) -> None:
        block, pattern = self.frontier.graph.blocks[node], self.scopes.patterns[node]
        self._label(node)
        for elsewhere in self.scopes.elsewhere.get(node, ()):
            assert block.barrier is not None
            self._check_barrier(elsewhere, block.barrier)
        once = not any(node in loop for loop in self.frontier.graph.rounds)
        for operation in block.operations:
            if not self._pointless(operation, once):
                self._put(self._instr(operation, pattern))
            if operation.dst is not None:
                self._written.add(self.locations.register(operation.dst))
        for slot in self.scopes.clears.get(node, ()):
            self._put(Instr(Op.CLR, slot=slot, pattern=pattern))
        for slot in self.scopes.sets.get(node, ()):
            self._put(Instr(Op.CBR, slot=slot, cond=_ALWAYS, pattern=pattern))
        self._end(node, pattern)

    def _pointless(self, operation: Operation, once: bool) -> bool:
        """A copy onto itself, or of 0 to a register that was never written and so still reads 0.

        Outside loops (`once`) all that was written comes earlier in the layout.
        """
        copied = operation.copied
        if copied is None or operation.dst is None:
            return False
        dst = self.locations.register(operation.dst)
        if copied == 0:
            return once and dst not in self._written
        return not isinstance(copied, int) and self.locations.register(copied) == dst

    def _instr(self, o: Operation, pattern: Pattern) -> Instr:
        register = self.locations.register
        instr = Instr(
            o.op,
            NONE if o.dst is None else register(o.dst),
            register(o.a),
            c=register(o.c),
            immediate=o.addend,
            scale=o.scale,
            cond=o.cond,
            width=o.width,
            signed=o.signed,
            shared=o.shared,
            held=o.held,
            spill=o.spill,
            pattern=pattern,
            ptx=o.ptx,
            result=o.result,
        )
        return instr if o.op in _WITHOUT_B else self._with_b(instr, o.b)

    def _with_b(self, instr: Instr, b: Value) -> Instr:
        """B as the immediate where it is a constant and the addend does not need that place."""
        if isinstance(b, int) and b != 0 and instr.immediate == 0:
            return replace(instr, immediate=b & MASK, immediate_is_b=True)
        return replace(instr, b=self.locations.register(b))

    # --- ends of blocks ------------------------------------------------------------------------------

    def _end(self, node: int, pattern: Pattern) -> None:
        end = self.frontier.graph.blocks[node].end
        match end:
            case Exit():
                self._put(Instr(Op.HALT))
            case Stop(reason, ptx=ptx):
                self._put(Instr(Op.TRAP, immediate=int(reason), pattern=pattern, ptx=ptx))
            case Jump(target):
                self._leave(node, [target], pattern, None)
                self._turns(node, frozenset({target}))
            case Branch() if node in self.frontier.together:
                self._uniform_branch(node, end, pattern)
            case Branch(taken=taken, other=other):
                self._leave(node, sorted((taken, other)), pattern, end)
                self._turns(node, frozenset({taken, other}))

    def _uniform_branch(self, node: int, end: Branch, pattern: Pattern) -> None:
        branch = Instr(Op.UBR, a=self.locations.register(end.a), cond=end.cond, pattern=pattern, ptx=end.ptx)
        taken, other = end.taken, end.other
        if taken == node + 1:
            taken, other, branch = other, taken, replace(branch, cond=inverse(end.cond))
        self._put(self._with_b(branch, end.b), taken)
        self._jump(other)

    def _leave(self, node: int, targets: list[int], pattern: Pattern, branch: Branch | None) -> None:
        """Write the bits of the lanes that go where it is not yet their turn."""
        leaving = [target for target in targets if (node, target) in self.scopes.leaves]
        if not leaving:
            return
        first, *second = leaving
        slot = self.scopes.leaves[node, first]
        write = Instr(Op.CBR, slot=slot, pattern=pattern)
        if branch is not None:
            stay = inverse(branch.cond) if first == branch.taken else branch.cond
            a = self.locations.register(branch.a)
            write = self._with_b(replace(write, a=a, cond=stay, ptx=branch.ptx), branch.b)
        self._put(write)
        if second:  # for the lanes that are left, if any
            rest = Pattern(pattern.care | 1 << slot, pattern.value | 1 << slot)
            some, none = self._fresh(), self._fresh()
            self._put(Instr(Op.BR, pattern=rest), some, none)
            self._label(some)
            self._leave(node, second, rest, None)
            self._label(none)

    def _turns(self, node: int, edge: frozenset[int]) -> None:
        """Go to the first block that has lanes waiting."""
        turns = self.frontier.turns(node, edge)
        while len(turns) > 1:
            first, *turns = turns
            rest = turns[0] if len(turns) == 1 else self._fresh()
            self._put(Instr(Op.BR, pattern=self.scopes.patterns[first]), first, rest)
            if len(turns) == 1:
                return
            self._label(rest)
        self._jump(turns[0])

    def _jump(self, label: Label) -> None:
        self._put(Instr(Op.BR), label, label)

    # --- barriers ------------------------------------------------------------------------------------

    def _check_barrier(self, elsewhere: Pattern, ptx: int) -> None:
        """Trap if any lane matches the pattern."""
        trap, go_on = self._fresh(), self._fresh()
        self._put(Instr(Op.BR, pattern=elsewhere, ptx=(ptx,)), trap, go_on)
        self._label(go_on)

        def stuck() -> None:
            self._label(trap)
            self._put(Instr(Op.TRAP, immediate=int(Trap.BARRIER), pattern=elsewhere, ptx=(ptx,)))

        self._late.append(stuck)

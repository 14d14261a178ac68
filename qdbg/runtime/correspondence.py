"""Which machine instruction does the work of which PTX instruction.

A machine instruction names the PTX instructions it covers; the last of them in control-flow order is its
*anchor*.  When the last machine instruction with an anchor is finished, so is that PTX instruction,
together with all in front of it that are *free*: folded into others, or without anything left to do.
Machine instructions that only steer (BR, CLR, NOP) have no anchor: a PTX jump is free.

Some PTX instructions are *branching*: lanes part within them, as those with a true and those with a false
predicate do in a vote, or go round a loop, as in a division.  Such a one is done when control has left the
machine instructions with its anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from qdbg.compiler.machine.isa import Op, Program
from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.compiler.ptx.ir import Function, Instruction, Label

_STEERING = frozenset({Op.BR, Op.CLR, Op.NOP})
_CONDITIONS = frozenset({Op.CBR, Op.UBR})
#: What has an effect or none at all: the machine branches around it, while values are selected.
_BRANCHED_AROUND = _CONDITIONS | {Op.LD, Op.ST, Op.HOLD, Op.TRAP}
BARRIERS = ("bar", "barrier")


class Correspondence:
    """The static map between a program and its kernel."""

    def __init__(self, program: Program, kernel: Function):
        self.kernel = kernel
        self._program = program
        self.flow = ControlFlow(kernel)
        rank = _ranks(self.flow)
        self.anchor: tuple[int | None, ...] = tuple(
            max(i.ptx, key=rank.__getitem__) if i.ptx and i.op not in _STEERING else None
            for i in program.code
        )
        anchored = [(i, a) for i, a in zip(program.code, self.anchor, strict=True) if a is not None]
        works = [(i.op, a) for i, a in anchored]
        #: PTX indices that some machine instruction does the work of.  A barrier is none: only lanes
        #: that are elsewhere when others wait there meet an instruction of its own, a trap.
        self.anchors = frozenset(a for op, a in works if op is not Op.TRAP or not self.barrier(a))
        #: Those that a lane passes without any work where its guard is false.
        self.optional = frozenset(
            a
            for i, a in anchored
            if i.op in _BRANCHED_AROUND
            and not i.spill
            and kernel.body[a].guard is not None
            and kernel.body[a].opcode != "bra"
        )
        #: Accesses to memory that a machine instruction does on the side, each with the anchor of that.  They
        #: are free, but not at any time: lanes run ahead through them only towards work that is done.
        self.accesses: dict[int, int] = {}
        for i, a in anchored:
            found = (n for n in i.ptx if n not in self.anchors and _accesses(kernel.body[n]))
            self.accesses.update(dict.fromkeys(found, a))
        #: 1-based PTX lines of the instructions that cost no pass of their own.
        self.free_lines = frozenset(i.line for i in kernel.body if i.index not in self.anchors)
        self._last = [self._is_last(pc) for pc in range(len(program.code))]
        self._choices = self._find_choices()
        self.branching = frozenset(
            a
            for pc, a in enumerate(self.anchor)
            if a is not None
            and program.code[pc].op in _CONDITIONS
            and pc not in self._choices
            and not self._last[pc]
        )

    def completes(self, pc: int) -> bool:
        """Whether the PTX instruction that `pc` works on, if it is not branching, is done when `pc` is."""
        return self._last[pc] and self.anchor[pc] not in self.branching

    def leaves(self, anchor: int, pc: int | None) -> bool:
        """Whether a branching PTX instruction is done when control comes to `pc`; None: the end."""
        if pc is None:
            return True
        there = self.anchor[pc]
        return there is not None and there != anchor

    def chooses(self, pc: int) -> bool:
        """Whether `pc` decides which lanes run its anchor and which pass it."""
        return pc in self._choices

    def barrier(self, index: int) -> bool:
        """Whether a PTX instruction is a barrier."""
        return self.kernel.body[index].opcode in BARRIERS

    def trapping(self, pc: int) -> int | None:
        """The PTX instruction that traps where `pc` does: of a sum with a word in memory it is the load."""
        return max(self.accesses.keys() & self._program.code[pc].ptx, default=self.anchor[pc])

    def path(self, index: int, anchor: int) -> tuple[int, ...]:
        """The PTX instructions from `index` up to and including `anchor`; only free ones lie between.

        A path that the text alone does not decide is just the anchor.
        """
        found = []
        for step in self._walk(index):
            found.append(step)
            if step == anchor:
                return tuple(found)
            if step in self.anchors:
                break
        return (anchor,)

    def towards(self, anchor: int) -> frozenset[int]:
        """Where lanes may stand that can get to `anchor` without other work on the way; also there."""
        found, pending = {anchor}, [anchor]
        while pending:
            before = self._predecessors[pending.pop()]
            new = {n for n in before if n not in found and (n not in self.anchors or n in self.optional)}
            found |= new
            pending += new
        return frozenset(found)

    @cached_property
    def _predecessors(self) -> list[tuple[int, ...]]:
        """The instructions from which control may come to each instruction."""
        blocks = self.flow.blocks
        before: list[tuple[int, ...]] = [(n - 1,) for n in range(len(self.kernel.body))]
        for block in blocks:
            if block.start < block.end:
                before[block.start] = tuple(blocks[n].end - 1 for n in block.predecessors)
        return before

    def _walk(self, index: int) -> Iterator[int]:
        """Instructions in order of execution, as long as no condition decides it."""
        body = self.kernel.body
        for _ in range(len(body)):
            if index >= len(body):
                return
            yield index
            instruction = body[index]
            if instruction.opcode == "bra" and instruction.guard is None:
                (target,) = (o for o in instruction.operands if isinstance(o, Label))
                index = self.kernel.labels[target.name]
            else:
                index += 1

    def _find_choices(self) -> frozenset[int]:
        """The first condition of each optional PTX instruction: that is its guard."""
        found: dict[int, int] = {}
        for pc, anchor in enumerate(self.anchor):
            if anchor in self.optional and self._program.code[pc].op in _CONDITIONS:
                found.setdefault(anchor, pc)
        return frozenset(found.values())

    def _is_last(self, pc: int) -> bool:
        anchor = self.anchor[pc]
        if anchor is None:
            return False
        following = next((a for a in self.anchor[pc + 1 :] if a is not None), None)
        return following != anchor


def _accesses(instruction: Instruction) -> bool:
    """Whether an instruction accesses memory that may change."""
    return instruction.opcode in ("ld", "ldu", "st", "atom", "red") and not instruction.has("param", "const")


def _ranks(flow: ControlFlow) -> list[int]:
    """The place of every instruction in control-flow order, in which a definition comes before its uses."""
    rank = [0] * len(flow.function.body)
    place = 0
    for number in flow.order:
        block = flow.blocks[number]
        for index in range(block.start, block.end):
            rank[index] = place = place + 1
    return rank

"""Which machine instruction does the work of which PTX instruction.

A machine instruction names the PTX instructions it covers; the last of them is its *anchor*.  When the
last machine instruction with an anchor is finished, so is that PTX instruction, together with all
in front of it that are *free*: folded into others, or without anything left to do.  Machine
instructions that only steer (BR, CLR, NOP) have no anchor: a PTX jump is free.
"""

from __future__ import annotations

from collections.abc import Iterator

from qdbg.compiler.machine.isa import Op, Program
from qdbg.compiler.ptx.ir import Function, Label

_STEERING = frozenset({Op.BR, Op.CLR, Op.NOP})


class Correspondence:
    """The static map between a program and its kernel."""

    def __init__(self, program: Program, kernel: Function):
        self.kernel = kernel
        self.anchor: tuple[int | None, ...] = tuple(
            max(i.ptx) if i.ptx and i.op not in _STEERING else None for i in program.code
        )
        #: PTX indices that some machine instruction has as its anchor.
        self.anchors = frozenset(a for a in self.anchor if a is not None)
        #: 1-based PTX lines of the instructions that cost no pass of their own.
        self.free_lines = frozenset(i.line for i in kernel.body if i.index not in self.anchors)
        self._last = [self._is_last(pc) for pc in range(len(program.code))]

    def completes(self, pc: int) -> bool:
        """Whether the PTX instruction that `pc` works on is done when `pc` is."""
        return self._last[pc]

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

    def _is_last(self, pc: int) -> bool:
        anchor = self.anchor[pc]
        if anchor is None:
            return False
        following = next((a for a in self.anchor[pc + 1 :] if a is not None), None)
        return following != anchor

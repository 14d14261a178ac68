"""Blocks that lanes go to on one shared way, where the machine cannot take them there on ways of their own.

Edges to one of several targets lead to one new block instead and say in a register which of them they are
for; the new block branches by that register.  So a loop that is entered at two places gets one entry,
and lanes that would wait in front of two blocks wait in front of one, with one divergence bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from qdbg.compiler.lowering.ir import Block, Blocks, Branch, Jump, Stop, copy_of
from qdbg.compiler.machine.isa import Cond


def share_way(blocks: Blocks, targets: Sequence[int], sources: Iterable[int]) -> None:
    """Let the edges from `sources` to `targets`, two blocks or more, meet in new blocks behind the others."""
    written = {operation.dst for block in blocks for operation in block.operations}
    register = next(name for n in count(1) if (name := f"%way{n}") not in written)
    meeting = len(blocks)
    for number, target in enumerate(targets[:-1], 1):
        other = targets[-1] if number == len(targets) - 1 else len(blocks) + 1
        blocks.append(Block(Branch(register, Cond.EQ, number - 1, target, other)))
    for block in [blocks[source] for source in sources]:
        if isinstance(block.end, Stop):  # only in front of it
            block.retarget(dict.fromkeys(targets, meeting))
            continue
        if isinstance(block.end, Jump) and block.end.within in targets:
            block.end = Jump(block.end.target, meeting)
        leads = [number for number, target in enumerate(targets) if target in block.outcomes]
        for number in leads[1:]:
            block.retarget({targets[number]: len(blocks)})
            blocks.append(Block(Jump(meeting), [copy_of(register, number)]))
        for number in leads[:1]:  # lanes that go elsewhere write the register again before it is read
            block.retarget({targets[number]: meeting})
            block.operations.append(copy_of(register, number))

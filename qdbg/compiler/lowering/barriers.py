"""Which barriers lanes may miss.

A barrier waits for the threads of the block that have not exited (PTX ISA 9.7.13.1).  It completes where
every lane that is not at it exits without meeting another one; such lanes may run later than the barrier
here.  Where any other lane is elsewhere at that time, the machine traps: it may come to another barrier,
and lanes cannot meet at two instructions (a GPU lets warps do so).  A lane that traps never exits, so traps
run before what the lanes beside them do next: no barrier is passed in front of a trap.
"""

from __future__ import annotations

from dataclasses import replace

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import Block, Blocks, Branch, Stop, predecessors
from qdbg.compiler.ptx.cfg_graph import reachable


class Barriers:
    """`leaving`: blocks from which lanes exit without a barrier; `contested`: with one lanes may miss."""

    def __init__(self, frontier: Frontier):
        blocks, successors = frontier.graph.blocks, frontier.graph.successors
        onwards = [() if block.done else successors[n] for n, block in enumerate(blocks)]
        ahead = [reachable(onwards, [n], range(len(blocks))) for n in range(len(blocks))]
        stops = {n for n, block in enumerate(blocks) if block.barrier is not None}
        exits = {n for n, block in enumerate(blocks) if block.done}
        running = [() if isinstance(b.end, Stop) else onwards[n] for n, b in enumerate(blocks)]
        trapping = {n for n in range(len(blocks)) if not exits & reachable(running, [n], range(len(blocks)))}
        self.leaving = frozenset(n for n, found in enumerate(ahead) if not found & stops) - trapping
        self.contested = frozenset(n for n in stops if frontier.into[n] - {n} - self.leaving)


def traps_first(blocks: Blocks) -> Blocks:
    """Let each trap that a branch leads to lead on to the branch's other side, which lays it out before that.

    Nothing follows the trap: the edge only orders blocks.  A trap that several blocks lead to is repeated.
    """
    if all(block.barrier is None for block in blocks):
        return blocks
    before = predecessors(blocks)
    for place in range(len(blocks)):
        block = blocks[place]
        if not isinstance(block.end, Stop):
            continue
        for source in before[place]:
            branch = blocks[source].end
            if not isinstance(branch, Branch):
                continue
            other = branch.other if branch.taken == place else branch.taken
            if isinstance(blocks[other].end, Stop):
                continue
            blocks[source].retarget({place: len(blocks)})
            copy = Block(replace(block.end, target=other), list(block.operations), block.barrier)
            blocks.append(copy)
    return blocks

"""Which barriers lanes may miss.

A barrier waits for the threads of the block that have not exited (PTX ISA 9.7.13.1).  It completes where
every lane that is not at it exits without meeting another one; such lanes may run later than the barrier
here.  Any other lane that waits elsewhere at that time is a deadlock.
"""

from __future__ import annotations

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.ptx.cfg_graph import reachable


class Barriers:
    """`leaving`: blocks from which lanes exit without a barrier; `contested`: with one lanes may miss."""

    def __init__(self, frontier: Frontier):
        blocks, successors = frontier.graph.blocks, frontier.graph.successors
        onwards = [() if block.done else successors[n] for n, block in enumerate(blocks)]
        ahead = [reachable(onwards, [n], range(len(blocks))) for n in range(len(blocks))]
        stops = {n for n, block in enumerate(blocks) if block.barrier is not None}
        self.leaving = frozenset(n for n, found in enumerate(ahead) if not found & stops)
        self.contested = frozenset(n for n in stops if frontier.into[n] - {n} - self.leaving)

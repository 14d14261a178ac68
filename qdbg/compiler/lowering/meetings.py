"""Instructions that the lanes of a warp execute together, and who is there when they do.

Nobody has to wait for lanes that the layout brings along.  Behind a loop that waits (`spin`) it does not, if
other warps are to get through it first: there lanes wait until all of their own warp have come.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.ptx.cfg_graph import reachable
from qdbg.compiler.ptx.ir import Function

COLLECTIVES = ("activemask", "match", "redux", "shfl", "vote")


@dataclass(frozen=True)
class Meetings:
    """PTX instructions by index.

    together: those at which every lane of the block that exists is sure to be at one time; waiting: those in
    front of which lanes wait for the others of their warp.
    """

    together: frozenset[int]
    waiting: frozenset[int] = frozenset()


def meetings_of(kernel: Function) -> Meetings:
    """What to hope for at first."""
    return Meetings(frozenset(i.index for i in kernel.body if i.opcode in COLLECTIVES))


def revised(meetings: Meetings, frontier: Frontier, several_warps: bool) -> Meetings:
    """What turned out, in code that was made for `meetings`; the same if all of that is true."""
    missed: set[int] = set()
    waiting = set(meetings.waiting)
    for node, block in enumerate(frontier.graph.blocks):
        if not block.meets:
            continue
        if frontier.into[node] - {node}:
            missed.update(block.meets)
        stopped = [loop for loop in frontier.graph.rounds if loop.late and loop.end + 1 == node]
        around = {place for loop in stopped for place in range(loop.header, node)}
        if several_warps and stopped and not around & _passing(frontier, node):
            waiting.update(block.meets)
            missed.update(block.meets)
    return Meetings(meetings.together - missed, frozenset(waiting))


def _passing(frontier: Frontier, node: int) -> set[int]:
    """The blocks from which a lane may exit without having been at `node`."""
    blocks = frontier.graph.blocks
    backwards: list[tuple[int, ...]] = [() for _ in blocks]
    for place, block in enumerate(blocks):
        for successor in block.outcomes:
            if successor != node and not block.done:
                backwards[successor] = (*backwards[successor], place)
    exits = [
        place for place, block in enumerate(blocks) if (block.done or not block.successors) and place != node
    ]
    return reachable(backwards, exits, range(len(blocks)))

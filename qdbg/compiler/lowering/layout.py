"""The order of blocks in memory, which is also the order in which divergent lanes take turns.

Forward edges go forwards and every loop is contiguous, ending with the only block that goes back to its
header.  From here on a block's number is its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from qdbg.compiler.lowering.ir import Block, Blocks, Jump, predecessors, renumbered
from qdbg.compiler.lowering.spin import late_ends, observed
from qdbg.compiler.lowering.ways import share_way
from qdbg.compiler.ptx.cfg_graph import immediate_dominators, loop_order, postorder, reachable


@dataclass(frozen=True, slots=True)
class Loop:
    """The blocks `header` to `end`, from which lanes go back to the header.

    late: others get a turn before a new round, see `spin`, and `end` lies behind the loop itself.
    """

    header: int
    end: int
    late: bool = False

    def __contains__(self, block: int) -> bool:
        return self.header <= block <= self.end


class Graph:
    """Blocks in layout order with their loops (outer first) and dominators.  Block 0 is the entry."""

    def __init__(self, blocks: Blocks):
        self.blocks = blocks
        self.successors = [block.successors for block in blocks]
        self.predecessors = predecessors(blocks)
        self.idom = immediate_dominators(self.successors, 0)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, headers ascending."""
        ends = {header: max(sources) for header, sources in back_edges(self.blocks).items()}
        return tuple(Loop(header, ends[header]) for header in sorted(ends))

    @cached_property
    def rounds(self) -> tuple[Loop, ...]:
        """The loops, each up to where the machine looks for lanes that want another round of it."""
        late = late_ends(self.blocks, {loop.header: loop.end for loop in self.loops})
        return tuple(
            Loop(loop.header, late.get(loop.header, loop.end), loop.header in late) for loop in self.loops
        )

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path from the entry to `b` passes `a`."""
        while b > a:
            b = self.idom[b]
        return a == b

    def common_dominator(self, nodes: Sequence[int]) -> int:
        """The last block that dominates all of `nodes`."""
        found = nodes[0]
        for node in nodes[1:]:
            while found != node:
                if found > node:
                    found = self.idom[found]
                else:
                    node = self.idom[node]
        return found


def back_edges(blocks: Blocks) -> dict[int, list[int]]:
    """Loop header -> the blocks that go back to it, for blocks in order."""
    found: dict[int, list[int]] = {}
    for index, block in enumerate(blocks):
        for successor in block.successors:
            if successor <= index:
                found.setdefault(successor, []).append(index)
    return found


def arrange(blocks: Blocks) -> Blocks:
    """The blocks that block 0 reaches, in layout order, straight lines merged, every loop with one entry."""
    _skip_empty(blocks)
    _drop_closed(blocks)
    blocks = renumbered(blocks, _order(blocks))
    while entries := _second_entries(blocks):
        share_way(blocks, entries, range(len(blocks)))
        blocks = renumbered(blocks, _order(blocks))
    blocks = renumbered(blocks, _merge(blocks))
    while (place := _untidy_loop(blocks)) is not None:
        blocks = _add_latch(blocks, *place)
    return blocks


def shorter_first(blocks: Blocks) -> Blocks:
    """The blocks that block 0 reaches, numbered so that of a branch's two ways the shorter comes first.

    Its lanes have then met the others again before these go their way.  So the cases of a `switch`, which
    compilers put behind all of its comparisons, come each behind its own, and lanes that wait are few.
    """
    graph = Graph(blocks)
    dominated = dict.fromkeys(graph.idom, 1)
    for node in postorder(graph.successors, 0)[:-1]:
        dominated[graph.idom[node]] += dominated[node]
    longer_first = [
        tuple(sorted(successors, key=lambda n: dominated.get(n, 0), reverse=True))
        for successors in graph.successors
    ]
    return renumbered(blocks, postorder(longer_first, 0)[::-1])


def _skip_empty(blocks: Blocks) -> None:
    """Point branches past blocks that do nothing."""
    past: dict[int, int] = {}
    for index in range(len(blocks)):
        seen = {index}
        target = index
        while not (block := blocks[target]).operations and not _kept(block):
            end = block.end
            if not isinstance(end, Jump) or end.within is not None or end.target in seen:
                break
            seen.add(target := end.target)
        past[index] = target
    for block in blocks:
        block.retarget(past)


def _drop_closed(blocks: Blocks) -> None:
    """Forget loops (see `Jump.within`) that no lane goes round any more."""
    outcomes = [block.outcomes for block in blocks]
    for block in blocks:
        if isinstance(block.end, Jump) and block.end.within is not None:
            header = block.end.within
            if header not in reachable(outcomes, outcomes[header], range(len(blocks))):
                block.end = Jump(block.end.target)


def _kept(block: Block) -> bool:
    """Whether a block means something even without operations."""
    return block.barrier is not None or block.starts or bool(block.meets)


def _order(blocks: Blocks) -> list[int]:
    """Loop order, with the exit at the very end: a lane that is done must not end the launch for others."""
    successors = [block.successors for block in blocks]
    live = reachable(successors, [0], range(len(blocks)))
    backwards = [tuple(p for p in before if p in live) for before in predecessors(blocks)]
    order = loop_order(successors, backwards, 0)
    return [i for i in order if blocks[i].successors] + [i for i in order if not blocks[i].successors]


def _merge(blocks: Blocks) -> list[int]:
    """Append blocks to their only predecessor where that goes nowhere else; the blocks that remain."""
    before = predecessors(blocks)
    apart = observed(blocks)  # who waits must not keep others from what comes before a meeting
    kept: list[int] = []
    home: dict[int, int] = {}
    for index, block in enumerate(blocks):
        source = home.get(before[index][0], before[index][0]) if len(before[index]) == 1 else index
        joins = source < index and block.barrier is None and not (apart and (block.meets or block.done))
        if joins and blocks[source].end == Jump(index):
            blocks[source].operations += block.operations
            blocks[source].end, blocks[source].done = block.end, block.done
            blocks[source].meets += block.meets
            home[index] = source
        else:
            kept.append(index)
    return kept


def _second_entries(blocks: Blocks) -> list[int]:
    """The blocks at which a loop is entered, if they are several (the control flow is irreducible)."""
    graph = Graph(blocks)
    for header, sources in sorted(back_edges(blocks).items()):
        if all(graph.dominates(header, source) for source in sources):
            continue
        outside = graph.common_dominator([header, *sources])
        within = range(outside + 1, len(blocks))
        loop = reachable(graph.successors, [header], within) & reachable(graph.predecessors, [header], within)
        return sorted(n for n in loop if not loop.issuperset(graph.predecessors[n]))
    return []


def _untidy_loop(blocks: Blocks) -> tuple[int, int] | None:
    """Header and last block of an innermost loop that does not end with its only back edge."""
    backwards = predecessors(blocks)
    for header, sources in sorted(back_edges(blocks).items(), reverse=True):
        last = max(reachable(backwards, sources, range(header + 1, len(blocks))) | {header})
        if sources != [last]:
            return header, last
    return None


def _add_latch(blocks: Blocks, header: int, last: int) -> Blocks:
    """Let every jump back to `header` go through a new block after `last`."""
    for source in back_edges(blocks)[header]:
        blocks[source].retarget({header: len(blocks)})
    blocks.append(Block(Jump(header)))
    order = [*range(last + 1), len(blocks) - 1, *range(last + 1, len(blocks) - 1)]
    return renumbered(blocks, order)

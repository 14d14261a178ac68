"""Where lanes may be waiting while a block runs.

The machine runs one block at a time, for all lanes that wait in front of it, and always the earliest in
layout order (at the end of a loop: its header, while any lane wants another round).  So lanes reconverge
as early as the layout allows.  `into[n]` over-approximates the blocks in front of which lanes may wait
when n starts, n itself included: the thread frontier of Diamos et al., "SIMD Re-Convergence at Thread
Frontiers" (2011).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from qdbg.compiler.lowering.ir import Branch
from qdbg.compiler.lowering.layout import Graph

Nodes = frozenset[int]


class Frontier:
    """The waiting sets of a graph where the branches that end the blocks `together` keep lanes together."""

    def __init__(self, graph: Graph, together: Collection[int]):
        self.graph = graph
        self.together = frozenset(together)
        self._turns = [list(self._order_after(n)) for n in range(len(graph.blocks))]
        self.into: list[Nodes] = [frozenset() for _ in graph.blocks]
        self.into[0] = frozenset({0})
        waiting = [0]
        while waiting:
            node = waiting.pop()
            for edge in self.outcomes(node):
                others = self.after(node, edge)
                for successor in self.turns(node, edge):
                    if not others <= self.into[successor]:
                        self.into[successor] |= others
                        waiting.append(successor)
                    others -= {successor}

    def outcomes(self, node: int) -> list[Nodes]:
        """The sets of successors that the lanes of a block may go to at one time."""
        successors = self.graph.blocks[node].outcomes
        if node in self.together:
            return [frozenset({successor}) for successor in successors]
        return [frozenset(successors)] if successors else []

    def after(self, node: int, edge: Nodes) -> Nodes:
        """Blocks that may have lanes waiting when `node` ends and its lanes went to `edge`."""
        return (self.into[node] - {node}) | edge

    def turns(self, node: int, edge: Nodes, waiting: Nodes = frozenset()) -> list[int]:
        """The blocks that may run after `node`, first choice first; the last is sure to have lanes.

        waiting: further blocks in front of which lanes wait.
        """
        candidates = self.after(node, edge) | waiting
        found: list[int] = []
        for successor in self._turns[node]:
            if successor in candidates:
                found.append(successor)
                if edge <= set(found):
                    break
        return found

    def before(self, node: int, edge: Nodes, target: int) -> Nodes:
        """Blocks that may run while lanes that went from `node` to `target` wait for their turn."""
        if any(loop.late for loop in self.graph.rounds):
            return self._meanwhile(node, edge, target)
        left = [loop for loop in self.graph.loops if node in loop and target not in loop]
        low, high = (left[0].header, left[0].end) if left else (node + 1, node)
        within = range(low, max(high + 1, target) if target > node else high + 1)
        found = {n for n in self.after(node, edge) - {target} if n in within}
        stack = list(found)
        while stack:
            for successor in self.graph.successors[stack.pop()]:
                if successor in within and successor not in found and successor != target:
                    found.add(successor)
                    stack.append(successor)
        return frozenset(found)

    def _meanwhile(self, node: int, edge: Nodes, target: int) -> Nodes:
        """The same turn by turn, for loops whose lanes let others go first."""
        found: set[int] = set()
        waiting = [(node, edge)]
        while waiting:
            last, went = waiting.pop()
            for turn in self.turns(last, went, frozenset({target})):
                if turn == target:
                    break
                if turn not in found:
                    found.add(turn)
                    waiting += [(turn, outcome) for outcome in self.outcomes(turn)]
        return frozenset(found)

    def _order_after(self, node: int) -> Iterator[int]:
        """The order in which the machine looks for lanes when `node` ends.

        Inner loops end first.  Loops that wait take turns.
        """
        rounds = sorted(self.graph.rounds, key=lambda r: (r.late, r.header if r.late else -r.header))
        for position in range(node, len(self.graph.blocks)):
            if position > node:
                yield position
            yield from (loop.header for loop in rounds if loop.end == position and loop.header <= node)


def uniform_branches(graph: Graph, candidates: Collection[int]) -> Frontier:
    """The frontier where as many as possible of the `candidates`, whose lanes agree, branch as one.

    Lanes can go on together only to the block whose turn it is; where others may be waiting in
    between, the branch has to be treated as if they disagreed.
    """
    together = {n for n in candidates if isinstance(graph.blocks[n].end, Branch)}
    while True:
        frontier = Frontier(graph, together)
        late = {
            n
            for n in together
            if frontier.into[n] and any(set(frontier.turns(n, e)[:1]) != e for e in frontier.outcomes(n))
        }
        if not late:
            return frontier
        together -= late

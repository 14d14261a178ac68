"""Liveness of virtual registers, seen from one lane."""

from __future__ import annotations

from collections.abc import Iterator

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import Block, Operation, registers
from qdbg.compiler.lowering.layout import Graph


class Liveness:
    """`into[n]` and `out[n]`: the registers that hold a value read later, at either end of block n."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.into: list[frozenset[str]] = [frozenset() for _ in graph.blocks]
        self.out = list(self.into)
        waiting = list(range(len(graph.blocks)))
        while waiting:
            node = waiting.pop()
            self.out[node] = frozenset().union(*(self.into[s] for s in graph.successors[node]))
            live = set(self.out[node]) | set(registers(graph.blocks[node].reads_at_end()))
            for operation in reversed(graph.blocks[node].operations):
                step_back(operation, live)
            if live != self.into[node]:
                self.into[node] = frozenset(live)
                waiting += graph.predecessors[node]

    def backwards(self, node: int) -> Iterator[tuple[int, Operation, set[str]]]:
        """Position and operation, last first, each with the registers live right after it."""
        block: Block = self.graph.blocks[node]
        live = set(self.out[node]) | set(registers(block.reads_at_end()))
        for position in range(len(block.operations) - 1, -1, -1):
            operation = block.operations[position]
            yield position, operation, live
            step_back(operation, live)

    def wanted_elsewhere(self, frontier: Frontier, node: int) -> frozenset[str]:
        """Registers that lanes waiting in front of other blocks may still read while `node` runs."""
        return frozenset().union(*(self.into[other] for other in frontier.into[node] - {node}))


def step_back(operation: Operation, live: set[str]) -> None:
    """Turn the registers live after an operation into those live before it."""
    if operation.dst is not None:
        live.discard(operation.dst)
    live.update(registers(operation.sources))

"""Which registers are uniform: one value for the warp, computed once and kept in a uniform register.

A register is uniform if each of its definitions computes the same value in all active lanes, and none
overwrites a value that lanes waiting elsewhere still want.  The second condition is what divergence does to
uniformity: it fails where a branch lets some lanes keep an older value, or where lanes leave a loop at
different rounds, and for nothing else.
"""

from __future__ import annotations

from qdbg.compiler.lowering.frontier import Frontier, uniform_branches
from qdbg.compiler.lowering.ir import LANE, Operation, Value
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.lowering.liveness import Liveness
from qdbg.compiler.machine.isa import Op


def uniform_registers(graph: Graph, liveness: Liveness) -> tuple[frozenset[str], Frontier]:
    """The uniform registers, and the frontier that results when branches on them keep lanes together."""
    definitions: dict[str, list[tuple[int, Operation]]] = {}
    for index, block in enumerate(graph.blocks):
        for operation in block.operations:
            if operation.dst is not None:
                definitions.setdefault(operation.dst, []).append((index, operation))
    uniform = set(definitions)

    def agrees(value: Value) -> bool:
        return value in uniform if isinstance(value, str) else value != LANE

    while True:
        candidates = [n for n, b in enumerate(graph.blocks) if all(agrees(v) for v in b.reads_at_end())]
        frontier = uniform_branches(graph, candidates)
        wanted = [liveness.wanted_elsewhere(frontier, n) for n in range(len(graph.blocks))]
        varying = {
            register
            for register in uniform
            for index, operation in definitions[register]
            if not operation.once
            and (
                register in wanted[index]
                or operation.op is Op.HOLD  # lanes take turns: each finds what the one before left
                or not all(agrees(v) for v in operation.agreeing)
            )
        }
        if not varying:
            return frozenset(uniform), frontier
        uniform -= varying

"""Register allocation: vector registers by what one lane needs, uniform ones by what any lane needs.

Colouring of an interference graph (Chaitin 1982, without spilling), after merging the two sides of copies
that can share a register.
"""

from __future__ import annotations

from collections.abc import Iterable

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import LoweringError, registers
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.lowering.liveness import Liveness
from qdbg.compiler.machine.isa import Op

Interference = dict[str, set[str]]
Copy = tuple[str, str]


def allocate(
    graph: Graph, liveness: Liveness, frontier: Frontier, uniform: frozenset[str], vectors: int, uniforms: int
) -> dict[str, int]:
    """Register numbers for all virtual registers, uniform and vector ones numbered apart.

    vectors, uniforms: how many registers there are.  Raises LoweringError if they do not suffice.
    """
    interference, copies = _interference(graph, liveness, frontier, uniform)
    numbers: dict[str, int] = {}
    for what, limit, members in (
        ("vector registers a lane", vectors, [r for r in interference if r not in uniform]),
        ("uniform registers", uniforms, [r for r in interference if r in uniform]),
    ):
        found = _colour(interference, members, [c for c in copies if c[0] in members and c[1] in members])
        if max(found.values(), default=0) >= limit:
            found = _colour(interference, members, [])
        if (needed := max(found.values(), default=-1) + 1) > limit:
            raise LoweringError(
                f"the kernel keeps too many values at once: it needs {needed} {what} and the machine has "
                f"{limit}",
                grows=True,
            )
        numbers |= found
    return numbers


def _interference(
    graph: Graph, liveness: Liveness, frontier: Frontier, uniform: frozenset[str]
) -> tuple[Interference, list[Copy]]:
    found: Interference = {}
    copies: list[tuple[int, Copy]] = []
    for node, block in enumerate(graph.blocks):
        depth = sum(node in loop for loop in graph.loops)
        elsewhere = liveness.wanted_elsewhere(frontier, node) & uniform
        for register in registers(block.reads_at_end()):
            found.setdefault(register, set())
        for _, operation, live in liveness.backwards(node):
            for register in registers(operation.sources):
                found.setdefault(register, set())
            dst = operation.dst
            if dst is None:
                continue
            others = {r for r in live if (r in uniform) == (dst in uniform)}
            if operation.op is Op.SHFL and operation.a not in uniform and dst not in uniform:
                others.update(registers((operation.a,)))  # lanes still to come read it in this one
            copied = operation.copied
            if isinstance(copied, str) and (copied in uniform) == (dst in uniform):
                copies.append((depth, (dst, copied)))
                others.discard(copied)
            if dst in uniform:
                others |= elsewhere
            found.setdefault(dst, set()).update(others - {dst})
            for other in others - {dst}:
                found.setdefault(other, set()).add(dst)
    return found, [copy for _, copy in sorted(copies, key=lambda item: -item[0])]


def _colour(interference: Interference, members: Iterable[str], copies: Iterable[Copy]) -> dict[str, int]:
    """A number for every member; those that interfere differ, those that are copied share where possible."""
    name = {member: member for member in members}

    def root(member: str) -> str:
        while name[member] != member:
            member = name[member]
        return member

    edges = {member: set(interference[member]) for member in name}
    for first, second in copies:
        a, b = root(first), root(second)
        if a != b and b not in edges[a]:
            name[b] = a
            for other in edges.pop(b):
                edges[other].discard(b)
                edges[other].add(a)
                edges[a].add(other)
    order: list[str] = []
    degree = {member: len(others) for member, others in edges.items()}
    while degree:
        lightest = min(degree, key=lambda member: degree[member])
        del degree[lightest]
        order.append(lightest)
        for other in edges[lightest]:
            if other in degree:
                degree[other] -= 1
    numbers: dict[str, int] = {}
    for member in reversed(order):
        taken = {numbers[other] for other in edges[member] if other in numbers}
        numbers[member] = next(n for n in range(len(order)) if n not in taken)
    return {member: numbers[root(member)] for member in name}

"""Register allocation: vector registers by what one lane needs, uniform ones by what any lane needs.

Colouring of an interference graph (Chaitin 1982), after merging the two sides of copies that can share a
register.  Where the registers do not suffice, some move to memory (see `spill`), chosen by what that costs
and how many others they are in the way of, and the rest is coloured again (Briggs 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import LoweringError, registers
from qdbg.compiler.lowering.liveness import Liveness
from qdbg.compiler.lowering.spill import Spills
from qdbg.compiler.machine.isa import Op

Interference = dict[str, set[str]]
Copy = tuple[str, str]


@dataclass
class _Ranges:
    """Which registers hold values at the same time, and the copies between them, of inner loops first."""

    interference: Interference = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)


def allocate(frontier: Frontier, spills: Spills, vectors: int, uniforms: int) -> dict[str, int]:
    """Register numbers for the virtual registers of `spills.graph`, uniform and vector ones numbered apart.

    vectors, uniforms: how many registers there are.  Registers that do not fit are spilled, so that the
    graph's blocks change.  Raises LoweringError if that does not help.
    """
    ranges = _ranges(frontier, spills)
    numbers: dict[str, int] = {}
    for what, limit, uniform in (
        ("vector registers a lane", vectors, False),
        ("uniform registers", uniforms, True),
    ):
        while True:
            members = [r for r in ranges.interference if (r in spills.uniform) == uniform]
            found = _numbers(ranges, members, limit)
            if (needed := max(found.values(), default=-1) + 1) <= limit:
                break
            groups = _left_over(ranges, members, limit, spills.costs())
            if not groups:
                raise LoweringError(
                    f"the kernel keeps too many values at once: it needs {needed} {what} and the machine has "
                    f"{limit}",
                    grows=True,
                )
            spills.spill(groups, ranges.interference)
            ranges = _ranges(frontier, spills)
        numbers |= found
    return numbers


def _ranges(frontier: Frontier, spills: Spills) -> _Ranges:
    graph, uniform = spills.graph, spills.uniform
    liveness = Liveness(graph)
    ranges = _Ranges()
    found = ranges.interference
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
    ranges.copies = [copy for _, copy in sorted(copies, key=lambda item: -item[0])]
    return ranges


def _numbers(ranges: _Ranges, members: Sequence[str], limit: int) -> dict[str, int]:
    """Numbers below `limit` if they suffice; the more copies are merged, the more numbers it may take."""
    found: dict[str, int] = {}
    for merged, careful in ((ranges.copies, None), (ranges.copies, limit), ([], None)):
        colouring = _Colouring(ranges.interference, members)
        colouring.merge(merged, careful)
        found = colouring.numbers()
        if max(found.values(), default=-1) < limit:
            break
    return found


def _left_over(
    ranges: _Ranges, members: Sequence[str], limit: int, costs: dict[str, float]
) -> list[list[str]]:
    """Groups of merged registers that had better be spilled."""
    colouring = _Colouring(ranges.interference, members)
    colouring.merge(ranges.copies, limit)
    return colouring.left_over(limit, costs)


class _Colouring:
    """A graph of registers, or of groups that share a number; `edges` joins those that must differ."""

    def __init__(self, interference: Interference, members: Iterable[str]):
        self._name = {member: member for member in members}
        self.edges = {member: set(interference[member]) for member in self._name}

    def root(self, member: str) -> str:
        """The register that stands for a member's group."""
        while self._name[member] != member:
            member = self._name[member]
        return member

    def merge(self, copies: Iterable[Copy], limit: int | None = None) -> None:
        """Let both sides of copies share a number where they may.

        limit: only where the group is sure to get one of so many numbers if its neighbours do (Briggs).
        """
        edges = self.edges
        for first, second in copies:
            if first not in self._name:
                continue
            a, b = self.root(first), self.root(second)
            if a == b or b in edges[a]:
                continue
            if limit is not None:
                both = edges[a] & edges[b]
                heavy = sum(len(edges[n]) - (n in both) >= limit for n in edges[a] | edges[b])
                if heavy >= limit:
                    continue
            self._name[b] = a
            for other in edges.pop(b):
                edges[other].discard(b)
                edges[other].add(a)
                edges[a].add(other)

    def numbers(self) -> dict[str, int]:
        """The lowest number that is free, for every member, beginning with what has most neighbours."""
        order: list[str] = []
        degree = {member: len(others) for member, others in self.edges.items()}
        while degree:
            lightest = min(degree, key=lambda member: degree[member])
            self._take(lightest, degree)
            order.append(lightest)
        numbers: dict[str, int] = {}
        for member in reversed(order):
            taken = {numbers[other] for other in self.edges[member] if other in numbers}
            numbers[member] = next(n for n in range(len(order)) if n not in taken)
        return {member: numbers[self.root(member)] for member in self._name}

    def left_over(self, limit: int, costs: dict[str, float]) -> list[list[str]]:
        """Groups without a number below `limit`: the cheapest for the neighbours that they free."""
        groups: dict[str, list[str]] = {}
        for member in self._name:
            groups.setdefault(self.root(member), []).append(member)
        cost = {root: sum(costs.get(member, 0) for member in group) for root, group in groups.items()}
        order: list[str] = []
        degree = {member: len(others) for member, others in self.edges.items()}
        while degree:
            lightest = min(degree, key=lambda member: degree[member])
            if degree[lightest] >= limit:
                lightest = min(degree, key=lambda m: cost[m] / degree[m])
            self._take(lightest, degree)
            order.append(lightest)
        numbers: dict[str, int] = {}
        left = []
        for member in reversed(order):
            taken = {numbers[other] for other in self.edges[member] if other in numbers}
            free = next((n for n in range(limit) if n not in taken), None)
            if free is not None:
                numbers[member] = free
            elif cost[member] < float("inf"):
                left.append(groups[member])
        return left

    def _take(self, member: str, degree: dict[str, int]) -> None:
        """Remove a member from the graph whose degrees are given."""
        del degree[member]
        for other in self.edges[member]:
            if other in degree:
                degree[other] -= 1

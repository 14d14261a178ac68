"""Divergence bits: which block writes which, and the pattern under which each block runs.

When lanes leave block X for a block Y whose turn comes later, other blocks may run meanwhile and must
not pick them up.  So there is a *scope* for Y: one bit a lane, 0 in the lanes that have left for Y, and every
block that may run before Y asks for a 1.  The scope opens at a block that dominates all of these and that
cannot run again while lanes wait: if that block itself branches to Y, its CBR writes the bit of every
lane; otherwise it forgets the bits (CLR), and a forgotten bit matches.

Often the 1 need not be written over.  Of `if (c) T else E; J` the lanes that ran T must not run E, but E
is entered by nobody whose bit for E is not 0: E may ask for that 0, and T's lanes simply keep their 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from qdbg.compiler.lowering.barriers import Barriers
from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.ir import Branch, LoweringError, Stop
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.machine.isa import Pattern
from qdbg.compiler.ptx.cfg_graph import reachable

Edge = tuple[int, int]


@dataclass(slots=True)
class Scope:
    """The bit that is 0 in lanes that left for `target`.

    opener: where it opens; clears: whether by CLR; ones, zeros: blocks that ask for a 1 or a 0.
    """

    target: int
    opener: int
    clears: bool
    ones: frozenset[int]
    zeros: set[int] = field(default_factory=set)
    slot: int = -1

    def span(self, frontier: Frontier) -> range:
        """The blocks during which the bits must be kept: to the last that asks, or the end of its loop."""
        last = max(self.ones | self.zeros)
        for loop in frontier.graph.rounds:
            if self.opener < loop.header <= last <= loop.end:
                last = loop.end
        return range(self.opener, last + 1)


@dataclass(frozen=True)
class Scopes:
    """The divergence bits of a program.

    patterns[n]: the pattern of block n; leaves: the edges on which lanes write a 0, with its slot;
    clears[n]: the slots that block n forgets at its end; sets[n]: those that it sets to 1 instead, in its own
    lanes only; elsewhere[n]: the patterns of lanes that a barrier at the start of block n checks for.
    """

    patterns: list[Pattern]
    leaves: dict[Edge, int]
    clears: dict[int, list[int]]
    sets: dict[int, list[int]]
    elsewhere: dict[int, list[Pattern]]


class TooDeep(LoweringError):
    """More divergence bits are needed than there are; together: two blocks that could do with one."""

    def __init__(self, needed: int, slots: int, together: tuple[int, int] | None):
        super().__init__(
            f"divergent control flow is nested too deep: it needs {needed} divergence bits a lane and "
            f"the machine has {slots}",
            "split the kernel or flatten its branches",
        )
        self.needed, self.together = needed, together


def assign_scopes(frontier: Frontier, slots: int) -> Scopes:
    """Give every scope a slot.  Raises TooDeep where more are needed than there are.

    Asking for zeros saves tokens but keeps bits in use for longer: where they run out, the largest such
    saving is given up first.
    """
    barriers = Barriers(frontier)
    refused: set[int] = set()
    least: int | None = None
    while True:
        scopes, leaves = _Scoping(frontier, barriers, refused).run()
        needed = _assign_slots(frontier, scopes)
        if needed <= slots:
            break
        least = needed if least is None else min(least, needed)
        saving = [s for s in scopes if s.zeros]
        if not saving:
            raise TooDeep(least, slots, _together(frontier, scopes))
        refused.add(max(saving, key=lambda s: len(s.zeros)).target)
    slot = {scope.target: scope.slot for scope in scopes}
    clears: dict[int, list[int]] = {}
    sets: dict[int, list[int]] = {}
    for scope in scopes:
        for node in [scope.opener] * scope.clears + [scope.target] * _stays(frontier.graph, scope, leaves):
            sparing = barriers.contested & scope.ones or _disturbs(frontier, node, scope, scopes)
            (sets if sparing else clears).setdefault(node, []).append(scope.slot)
    patterns = [_pattern(n, scopes) for n in range(len(frontier.graph.blocks))]
    elsewhere = {n: _elsewhere(n, scopes, barriers) for n in barriers.contested}
    return Scopes(patterns, {edge: slot[edge[1]] for edge in leaves}, clears, sets, elsewhere)


def _elsewhere(node: int, scopes: list[Scope], barriers: Barriers) -> list[Pattern]:
    """Patterns of lanes that a barrier in `node` would wait for in vain.

    They differ from the lanes at the barrier in one bit, and are not on their way out.
    """
    care = value = 0
    for scope in scopes:
        if node in scope.ones and scope.target in barriers.leaving:
            care |= 1 << scope.slot
            value |= 1 << scope.slot
    others = [s for s in scopes if node in s.ones | s.zeros and not care >> s.slot & 1]
    return [Pattern(care | 1 << s.slot, value | int(node in s.zeros) << s.slot) for s in others]


def _assign_slots(frontier: Frontier, scopes: list[Scope]) -> int:
    """Number the scopes' slots so that those in use at one time differ; the number of slots."""
    placed: list[tuple[range, Scope]] = []
    for span, scope in sorted(((s.span(frontier), s) for s in scopes), key=lambda pair: pair[0].start):
        taken = {other.slot for busy, other in placed if span.start < busy.stop}
        scope.slot = next(slot for slot in range(len(scopes)) if slot not in taken)
        placed.append((span, scope))
    return max((scope.slot + 1 for scope in scopes), default=0)


def _stays(graph: Graph, scope: Scope, leaves: set[Edge]) -> bool:
    """Whether lanes that had to wait for the target would still have a 0 in a block that asks for a 1.

    So it is where the target starts a loop whose rounds take turns, unless they come by the opener again, or
    by a branch to the target, which writes the bit of every lane.
    """

    def writes(node: int) -> bool:
        left = [target for target in sorted(graph.successors[node]) if (node, target) in leaves]
        branches = isinstance(graph.blocks[node].end, Branch)
        return node == scope.opener or (branches and left[:1] == [scope.target])

    onwards = [() if writes(node) else successors for node, successors in enumerate(graph.successors)]
    return not scope.ones.isdisjoint(reachable(onwards, [scope.target], range(len(onwards))))


def _disturbs(frontier: Frontier, node: int, scope: Scope, scopes: list[Scope]) -> bool:
    """Whether a CLR in a block would forget bits that lanes of another round of a loop still need.

    Where rounds take turns, lanes wait in the middle of the loop for others that are in front of them.
    """
    loops = [loop for loop in frontier.graph.rounds if loop.late and node in loop]
    waiting = frontier.into[node] - {node}
    return any(
        other.slot == scope.slot and other.opener in loop
        for loop in loops
        for other in scopes
        if other is not scope and not waiting.isdisjoint(other.span(frontier)[1:])
    )


def _together(frontier: Frontier, scopes: list[Scope]) -> tuple[int, int] | None:
    """Two blocks in front of which lanes wait where most bits are in use, and to which one way may lead.

    It may if both lie in the same loops and nobody has to wait there for others.  Lanes should wait for both
    for long, and few edges lead to them: each takes a new instruction.
    """
    graph = frontier.graph
    spans = {scope.target: scope.span(frontier) for scope in scopes}
    crowded = max(range(len(graph.blocks)), key=lambda n: sum(n in span for span in spans.values()))
    groups: dict[tuple[int, ...], list[int]] = {}
    for target in sorted(target for target, span in spans.items() if crowded in span):
        block, loops = graph.blocks[target], [loop.header for loop in graph.loops if target in loop]
        if block.barrier is None and not (block.done or block.starts or block.meets or target in loops):
            groups.setdefault(tuple(loops), []).append(target)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for pair in (pair for group in groups.values() for pair in combinations(group, 2)):
        edges = [sum(n < pair[0] for n in graph.predecessors[target]) for target in pair]
        if all(edges):
            found[pair] = (pair[0] - max(spans[target].start for target in pair), sum(edges))
    longest = max((length for length, _ in found.values()), default=0)
    lasting = [pair for pair, (length, _) in found.items() if 2 * length >= longest]
    return min(lasting, key=lambda pair: found[pair][1]) if lasting else None


def _pattern(node: int, scopes: list[Scope]) -> Pattern:
    care = value = 0
    for scope in scopes:
        if node in scope.ones or node in scope.zeros:
            care |= 1 << scope.slot
            value |= int(node in scope.ones) << scope.slot
    return Pattern(care, value)


class _Scoping:
    """One attempt at scopes; targets in `refused` may not be asked for zeros."""

    def __init__(self, frontier: Frontier, barriers: Barriers, refused: set[int]):
        self.graph, self.barriers, self.refused = frontier.graph, barriers, refused
        self.headers = {loop.header for loop in self.graph.loops}
        self.meanwhile: dict[Edge, frozenset[int]] = {}
        self.edges: dict[int, list[Edge]] = {n: [] for n in range(len(self.graph.blocks))}
        for node, block in enumerate(self.graph.blocks):
            if isinstance(block.end, Stop) or not frontier.into[node]:
                continue  # no lane ever takes the edge
            for outcome in frontier.outcomes(node):
                for target in outcome:
                    self.meanwhile[node, target] = frontier.before(node, outcome, target)
                    self.edges[target].append((node, target))
        self.scopes: list[Scope] = []
        self.leaves: set[Edge] = set()

    def run(self) -> tuple[list[Scope], set[Edge]]:
        for target, edges in self.edges.items():
            leaving = [e for e in edges if self.meanwhile[e] and not self._excluded(e)]
            if leaving:
                self.scopes.append(self._open(target, leaving))
                self.leaves.update(leaving)
        return self.scopes, self.leaves

    def _excluded(self, edge: Edge) -> bool:
        """Whether the bit of an earlier scope keeps the lanes on this edge out of all that runs meanwhile.

        That scope's target must be entered by leaving only, with every bit written, and start no loop: who
        goes on where others leave for another round has a 1 again.
        """
        node, target = edge
        if self.barriers.contested and target in self.barriers.leaving:
            return False  # a barrier tells lanes on their way out from others by that target's own bit
        running = self.meanwhile[edge]
        for scope in self.scopes:
            if (
                node in scope.ones
                and not scope.clears
                and scope.target not in self.headers
                and scope.target not in self.refused
                and all(e in self.leaves for e in self.edges[scope.target])
                and all(self.graph.dominates(scope.target, n) for n in running)
            ):
                scope.zeros |= running
                return True
        return False

    def _open(self, target: int, leaving: list[Edge]) -> Scope:
        sources = {node for node, _ in leaving}
        ones = frozenset[int]().union(*(self.meanwhile[e] for e in leaving))
        opener = self.graph.common_dominator(sorted(ones | sources))
        while opener in ones:
            opener = self.graph.idom[opener]
        # Of two scopes that a branch leaves for, only the first has its bit written in all lanes.
        writes_all = opener in sources and not any(node == opener for node, _ in self.leaves)
        return Scope(target, opener, not writes_all, ones)

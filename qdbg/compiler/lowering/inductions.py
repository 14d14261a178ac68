"""Induction variables of a loop that march in step: one of them is enough.

Compilers walk arrays with a pointer each, beside the counter that ends the loop.  A pointer that is
incremented whenever the counter is equals a fixed base plus the counter times a power of two, which an
access computes on the way.  So the pointer's increment, a token or two for every lane in every round, goes.
(Strength reduction, Allen, Cocke and Kennedy 1981, the other way round.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from qdbg.compiler.lowering.ir import MASK, Blocks, Operation, Value, registers
from qdbg.compiler.lowering.layout import Graph, Loop
from qdbg.compiler.lowering.simplify import combine
from qdbg.compiler.machine.alu import signed
from qdbg.compiler.machine.isa import ADDRESS_OPS, Op
from qdbg.compiler.ptx.cfg_graph import reachable

Place = tuple[int, int]
_ACCESSES = ADDRESS_OPS - {Op.ADD, Op.ADDH}
_SHIFTS = range(4)


@dataclass(frozen=True)
class _Induction:
    """A register that a loop's last block increments by `step` at `position`, and starts from `start`,
    the value of its only definition outside; `start_place` is where that is."""

    register: str
    step: int
    position: int
    start: Value
    start_place: Place


def merge_inductions(blocks: Blocks) -> None:
    """Express pointers by the counter that is incremented beside them, where accesses can."""
    graph = Graph(blocks)
    for loop in graph.loops:
        found = _Loop(graph, loop)
        counters = [i for i in found.inductions if isinstance(i.start, int) and not found.only_addresses(i)]
        for pointer in found.inductions:
            if found.only_addresses(pointer) and any(found.merge(pointer, counter) for counter in counters):
                return  # places have shifted: the caller looks again


class _Loop:
    """A loop and the induction variables that its last block increments."""

    def __init__(self, graph: Graph, loop: Loop):
        self.graph, self.loop, self.blocks = graph, loop, graph.blocks
        self.definitions: dict[str, list[Place]] = {}
        for place, operation in self._operations(range(len(self.blocks))):
            if operation.dst is not None:
                self.definitions.setdefault(operation.dst, []).append(place)
        self.inductions = [
            induction
            for position in range(len(self.blocks[loop.end].operations))
            if (induction := self._induction(position)) is not None
        ]

    def _operations(self, nodes: range) -> Iterator[tuple[Place, Operation]]:
        for node in nodes:
            for position, operation in enumerate(self.blocks[node].operations):
                yield (node, position), operation

    def _induction(self, position: int) -> _Induction | None:
        here = (self.loop.end, position)
        o = self.blocks[self.loop.end].operations[position]
        if o.op is not Op.ADD or o.dst is None or (o.a, o.scale, o.c) != (o.dst, 0, 0) or o.held or o.once:
            return None
        others = [place for place in self.definitions[o.dst] if place != here]
        if len(others) != 1 or others[0][0] in self.loop or not self._starts_each_time(others[0][0]):
            return None
        node, at = others[0]
        start = self.blocks[node].operations[at]
        copied = start.copied if isinstance(start.copied, int) else o.dst
        return _Induction(o.dst, signed(o.addend), position, copied, others[0])

    def _starts_each_time(self, node: int) -> bool:
        """Whether whoever enters the loop, also for another time, comes from `node`."""
        if not self.graph.dominates(node, self.loop.header):
            return False
        leaving = {s for n in self._nodes() for s in self.graph.successors[n] if s not in self.loop}
        others = [n for n in range(len(self.blocks)) if n != node]
        return self.loop.header not in reachable(self.graph.successors, leaving - {node}, others)

    def _nodes(self) -> range:
        return range(self.loop.header, self.loop.end + 1)

    def only_addresses(self, induction: _Induction) -> bool:
        """Whether the loop uses the register in addresses only, and nothing else uses it."""
        register, own = induction.register, (self.loop.end, induction.position)
        if any(register in registers(block.reads_at_end()) for block in self.blocks):
            return False
        for place, o in self._operations(range(len(self.blocks))):
            if place == own or register not in o.sources:
                continue
            if place[0] not in self.loop or o.op not in _ACCESSES or o.b == register:
                return False
        return True

    def merge(self, pointer: _Induction, counter: _Induction) -> bool:
        """Replace the pointer by base + (counter << shift) + constant; False where that cannot be."""
        shift = next((n for n in _SHIFTS if counter.step << n == pointer.step), None)
        if shift is None or pointer.register == counter.register:
            return False
        base = pointer.start if isinstance(pointer.start, int) else f"{pointer.register}.base"
        assert isinstance(counter.start, int)
        better: dict[Place, Operation] = {}
        for place, user in self._operations(self._nodes()):
            if pointer.register not in user.sources or place == (self.loop.end, pointer.position):
                continue
            ahead = self._behind(place, pointer) - self._behind(place, counter)
            constant = pointer.step * ahead - (counter.start << shift)
            if isinstance(base, int):
                sum_ = Operation(Op.ADD, a=counter.register, scale=shift, addend=constant + base & MASK)
            else:
                sum_ = Operation(Op.ADD, a=counter.register, scale=shift, c=base, addend=constant & MASK)
            changed = combine(user, pointer.register, sum_)
            if changed is None:
                return False
            better[place] = changed
        for (node, position), operation in better.items():
            self.blocks[node].operations[position] = operation
        node, position = pointer.start_place
        if isinstance(base, str):
            start = self.blocks[node].operations[position]
            self.blocks[node].operations[position] = replace(start, dst=base, result=None)
        else:
            del self.blocks[node].operations[position]
        # Its place does not move: whatever started the pointer stands outside of the loop.
        del self.blocks[self.loop.end].operations[pointer.position]
        return True

    def _behind(self, place: Place, induction: _Induction) -> bool:
        """Whether the round's increment has been made at a place."""
        return place[0] == self.loop.end and place[1] > induction.position

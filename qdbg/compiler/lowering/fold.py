"""Optimisation on virtual registers: copies and constants propagate, sums fold into their users, comparisons
into their branches, and what nobody reads disappears."""

from __future__ import annotations

from dataclasses import replace

from qdbg.compiler.lowering.ir import Block, Blocks, Branch, Operation, Value, inverse, registers
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.lowering.liveness import Liveness, step_back
from qdbg.compiler.lowering.simplify import combine, simplify, simplify_end
from qdbg.compiler.machine.isa import Cond, Op

Facts = dict[str, Value]
_NOT_EQUAL = Cond.LT | Cond.GT
#: Operations with a result that do more than compute it: they may trap.
_EFFECTS = (Op.LD, Op.LDA, Op.HOLD)


def fold_definitions(blocks: Blocks) -> None:
    """Replace operands and conditions by the operations that compute them, where one pass can do both."""
    _Folder(blocks).run()


# --- copies ----------------------------------------------------------------------------------------


def propagate_copies(blocks: Blocks) -> None:
    """Replace registers by what they are copies of on every path, and drop copies that say nothing new."""
    graph = Graph(blocks)
    known: dict[int, Facts] = {0: {}}
    waiting = [0]
    while waiting:
        index = waiting.pop()
        facts = _transfer(blocks[index], dict(known[index]))
        for successor in graph.successors[index]:
            old = known.get(successor)
            new = facts if old is None else {r: v for r, v in old.items() if facts.get(r) == v}
            if new != old:
                known[successor] = dict(new)
                waiting.append(successor)
    for index, block in enumerate(blocks):
        facts = known.get(index, {})
        _transfer(block, facts, rewrite=True)
        if isinstance(block.end, Branch):
            a, b = (facts.get(v, v) if isinstance(v, str) else v for v in (block.end.a, block.end.b))
            block.end = simplify_end(replace(block.end, a=a, b=b))


def _transfer(block: Block, facts: Facts, rewrite: bool = False) -> Facts:
    kept = []
    for operation in block.operations:
        operation = simplify(operation.substitute(facts))
        copied, dst = operation.copied, operation.dst
        if dst is not None:
            if copied is not None and (copied == dst or facts.get(dst) == copied):
                continue
            for register in [r for r, v in facts.items() if dst in (r, v)]:
                del facts[register]
            if copied is not None:
                facts[dst] = copied
        kept.append(operation)
    if rewrite:
        block.operations = kept
    return facts


# --- folding definitions into uses -----------------------------------------------------------------


class _Folder:
    """Replaces operands by the operations that define them, where these still hold at the use."""

    def __init__(self, blocks: Blocks):
        self.blocks, self.graph = blocks, Graph(blocks)
        sites: dict[str, list[tuple[int, int]]] = {}
        for index, block in enumerate(blocks):
            for position, operation in enumerate(block.operations):
                if operation.dst is not None:
                    sites.setdefault(operation.dst, []).append((index, position))
        self.only = {register: found[0] for register, found in sites.items() if len(found) == 1}
        self.sites = sites

    def run(self) -> None:
        for index, block in enumerate(self.blocks):
            for position, operation in enumerate(block.operations):
                if operation.once and operation.dst in self.only and _is_known(operation):
                    block.operations[position] = replace(operation, once=False)
                self._improve(index, position)
            if isinstance(block.end, Branch):
                block.end = simplify_end(self._improved_branch(index, block.end))

    def _improve(self, index: int, position: int) -> None:
        operations = self.blocks[index].operations
        for _ in range(8):
            user = operations[position]
            attempts = (self._better(user, v, index, position) for v in registers(user.sources))
            better = next((attempt for attempt in attempts if attempt), None)
            if better is None:
                return
            operations[position] = better

    def _better(self, user: Operation, register: str, index: int, position: int) -> Operation | None:
        source = self._definition(register, index, position)
        if source is None:
            return None
        if user.op is Op.SEL and user.c == register and (flipped := _negation(source)):
            better: Operation | None = replace(user, a=user.b, b=user.a, c=flipped)
        else:
            better = combine(user, register, source) if user.op is not Op.ST or user.b != register else None
        return replace(better, ptx=_union(source.ptx, user.ptx)) if better else None

    def _improved_branch(self, index: int, end: Branch) -> Branch:
        while isinstance(end.a, str) and end.b == 0 and end.cond in (Cond.EQ, _NOT_EQUAL):
            source = self._definition(end.a, index, len(self.blocks[index].operations))
            if source is None:
                break
            ptx = _union(source.ptx, end.ptx)
            if source.op is Op.SET:
                cond = source.cond if end.cond == _NOT_EQUAL else inverse(source.cond)
                return replace(end, a=source.a, b=source.b, cond=cond, ptx=ptx)
            flipped = _negation(source)
            if flipped is None:
                break
            end = replace(end, a=flipped, cond=inverse(end.cond), ptx=ptx)
        return end

    def _definition(self, register: str, index: int, position: int) -> Operation | None:
        """The operation whose result `register` holds at a place, if known and its operands hold too."""
        operations = self.blocks[index].operations
        for at in range(position - 1, -1, -1):
            if operations[at].dst == register:
                overwritten = {o.dst for o in operations[at:position]}
                held = not overwritten.intersection(registers(operations[at].sources))
                return operations[at] if held and not operations[at].once else None
        site = self.only.get(register)
        if site is None or site[0] == index or not self.graph.dominates(site[0], index):
            return None
        source = self.blocks[site[0]].operations[site[1]]
        stable = all(self._settled(r, site) for r in registers(source.sources))
        return source if stable and source.dst == register and not source.once else None

    def _settled(self, register: str, site: tuple[int, int]) -> bool:
        """Whether the register's only definition comes before `site` on every path."""
        only = self.only.get(register)
        if only is None:
            return False
        return only < site if only[0] == site[0] else self.graph.dominates(only[0], site[0])


def _is_known(operation: Operation) -> bool:
    """Whether all lanes compute the same constant."""
    return operation.op is Op.ADD and all(isinstance(v, int) for v in operation.sources)


def _negation(source: Operation) -> str | None:
    """The predicate that `source` turns over, if that is what it does."""
    return source.a if source.op is Op.XOR and source.b == 1 and isinstance(source.a, str) else None


def _union(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({*a, *b}))


# --- dead code -------------------------------------------------------------------------------------


def remove_dead(blocks: Blocks) -> None:
    """Drop operations whose result nobody reads, or only such operations.  Loads stay."""
    needed = _needed(blocks)
    liveness = Liveness(Graph(blocks))
    for index, block in enumerate(blocks):
        live = set(liveness.out[index]) | set(registers(block.reads_at_end()))
        kept = []
        for operation in reversed(block.operations):
            if operation.op in _EFFECTS or operation.dst is None or operation.dst in needed & live:
                kept.append(operation)
                step_back(operation, live)
        block.operations = kept[::-1]


def _needed(blocks: Blocks) -> set[str]:
    """The registers that something with an effect depends on."""
    needed: set[str] = set()
    definitions: dict[str, list[Operation]] = {}
    waiting: list[str] = []

    def need(values: tuple[Value, ...]) -> None:
        for register in registers(values):
            if register not in needed:
                needed.add(register)
                waiting.append(register)

    for block in blocks:
        need(block.reads_at_end())
        for operation in block.operations:
            if operation.dst is None or operation.op in _EFFECTS:
                need(operation.sources)
            if operation.dst is not None:
                definitions.setdefault(operation.dst, []).append(operation)
    while waiting:
        for operation in definitions.get(waiting.pop(), ()):
            need(operation.sources)
    return needed

"""Values that have no register of their own: kept in memory, or computed again where they are read.

A spilled vector register is a word of memory a lane, interleaved by lane, so that `[(lane << 2) + constant]`
is its address; a spilled uniform register is one word.  Registers that are never live at the same time share
their place.  What follows from constants, parameters and the lane's number alone takes no memory: it is
computed anew in front of every reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from qdbg.compiler.lowering.emit import needs_register
from qdbg.compiler.lowering.ir import LANE, Block, Branch, Operation, Terminator, Value, copy_of, registers
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.lowering.operands import BLOCK_INDEX
from qdbg.compiler.machine.isa import PURE_OPS, Op, Spill

#: How much more often a block runs than the one around its loop, for weighing costs.
_ROUNDS = 8
_READ, _WRITTEN = 2, 1  # tokens: a value takes one to three, a store one


@dataclass
class _Place:
    """A place in memory and the registers that live there at different times."""

    spill: Spill
    residents: set[str]


class Spills:
    """Rewrites the blocks of a graph for registers that are to be in memory.

    base: byte address of the memory for them; threads: lanes that exist; size: bytes in use; uniform: the
    uniform registers, those that it made among them; places: spilled register -> where it is.
    """

    def __init__(self, graph: Graph, uniform: Iterable[str], base: int, threads: int):
        self.graph, self.base, self.threads = graph, base, threads
        self.uniform = set(uniform)
        self.size = 0
        self.places: dict[str, Spill] = {}
        self._made: set[str] = set(BLOCK_INDEX.values())
        self._all: list[_Place] = []
        self._conflicts: dict[str, set[str]] | None = None

    # --- choosing ----------------------------------------------------------------------------------

    def costs(self) -> dict[str, float]:
        """Register -> tokens that it costs to have it in memory; infinitely many where it cannot be there."""
        found: dict[str, float] = {}
        for weight, block in self._weighted():
            for value in _read([*block.operations, block.end]):
                found[value] = found.get(value, 0) + _READ * weight
            for operation in block.operations:
                if operation.dst is not None:
                    free = operation.copied is not None or _recomputable(operation)
                    found[operation.dst] = found.get(operation.dst, 0) + (not free) * _WRITTEN * weight
        return found | dict.fromkeys((*self._made, *self._short()), float("inf"))

    def _short(self) -> Iterator[str]:
        """Registers that are read at once, and only there: no other one can have their place meanwhile."""
        reads: Counter[str] = Counter()
        for block in self.graph.blocks:
            reads.update(_read([*block.operations, block.end]))
        for block in self.graph.blocks:
            units = [*_units(block.operations), (block.end,)]
            for unit, following in pairwise(units):
                near = Counter(_read([*unit, *following]))
                for operation in unit:
                    dst = operation.dst if isinstance(operation, Operation) else None
                    if dst is not None and reads[dst] == near[dst]:
                        yield dst

    def materialise(self, constants: Iterable[Value], count: int) -> bool:
        """Let the `count` least used constants be put into a register only where they are read.

        Returns whether there was one left to choose.
        """
        uses = {value: 0 for value in constants if isinstance(value, int)}
        for weight, block in self._weighted():
            for operation in block.operations:
                for name in ("a", "b", "c"):
                    value = getattr(operation, name)
                    if value in uses and needs_register(operation, name):
                        uses[value] += weight
        chosen = sorted((value for value in uses if uses[value]), key=lambda value: uses[value])[:count]
        self._rewrite({value: copy_of("", value) for value in chosen})
        return bool(chosen)

    def _weighted(self) -> Iterator[tuple[int, Block]]:
        for node, block in enumerate(self.graph.blocks):
            yield _ROUNDS ** sum(node in loop for loop in self.graph.loops), block

    # --- moving registers to memory ------------------------------------------------------------------

    def spill(self, groups: Sequence[Sequence[str]], conflicts: dict[str, set[str]]) -> None:
        """Move registers to memory, those of a group to the same place.

        conflicts: the registers that a register may not share its place with.
        """
        if self._conflicts is None:  # later ones lack what has been spilled
            self._conflicts = {register: set(others) for register, others in conflicts.items()}
        definitions: dict[str, list[Operation]] = {}
        for block in self.graph.blocks:
            for operation in block.operations:
                if operation.dst is not None:
                    definitions.setdefault(operation.dst, []).append(operation)
        sources: dict[Value, Spill | Operation] = {}
        for group in groups:
            only = definitions.get(group[0], [])
            if len(group) == 1 and len(only) == 1 and _recomputable(only[0]):
                sources[group[0]] = only[0]
            else:
                place = self._place(group)
                sources.update(dict.fromkeys(group, place))
                self.places.update(dict.fromkeys(group, place))
        self._rewrite(sources)

    def _place(self, group: Sequence[str]) -> Spill:
        assert self._conflicts is not None
        stride = 0 if group[0] in self.uniform else 4
        others = {other for register in group for other in self._conflicts.get(register, ())}
        for place in self._all:
            if place.spill.stride == stride and not place.residents & others:
                place.residents.update(group)
                return place.spill
        place = _Place(Spill(self.base + self.size, stride), set(group))
        self.size += 4 * self.threads if stride else 4
        self._all.append(place)
        return place.spill

    # --- rewriting -----------------------------------------------------------------------------------

    def _rewrite(self, sources: dict[Value, Spill | Operation]) -> None:
        """Let the values of `sources` be read from memory or computed by an operation, and written there."""
        for block in self.graph.blocks:
            found: list[Operation] = []
            for unit in _units(block.operations):
                found += self._unit(unit, sources)
            if isinstance(block.end, Branch):
                ahead: list[Operation] = []
                a, b = block.end.a, block.end.b
                if a in sources:
                    a = self._fetched(a, sources[a], block.end.ptx, ahead)
                if b in sources and isinstance(b, str):
                    b = self._fetched(b, sources[b], block.end.ptx, ahead)
                found += ahead
                block.end = replace(block.end, a=a, b=b)
            block.operations = found

    def _unit(
        self, unit: Sequence[Operation], sources: dict[Value, Spill | Operation]
    ) -> Iterator[Operation]:
        """Operations that must stay together, with what has to come in front of them and behind them."""
        ahead: list[Operation] = []
        behind: list[Operation] = []
        changed: list[Operation] = []
        known: dict[Value, str] = {}
        for operation in unit:
            target = sources.get(operation.dst) if operation.dst is not None else None
            if isinstance(target, Operation):
                continue  # computed where it is read
            copied = operation.copied
            if copied is not None and (target is not None or (isinstance(copied, str) and copied in sources)):
                yield from self._copy(operation, copied, target, sources)
                continue
            operands: dict[str, Value] = {}
            for name in ("a", "b", "c"):
                value = operands[name] = getattr(operation, name)
                if value in sources and needs_register(operation, name):
                    if value not in known:
                        known[value] = self._fetched(value, sources[value], operation.ptx, ahead)
                    operands[name] = known[value]
            dst = operation.dst
            if target is not None:
                assert dst is not None
                known[dst] = self._temporary(dst)  # which the other half of a HOLD reads
                dst = known[dst]
                behind.append(_stored(dst, target, operation))
            changed.append(replace(operation, dst=dst, a=operands["a"], b=operands["b"], c=operands["c"]))
        yield from (*ahead, *changed, *behind)

    def _copy(
        self,
        operation: Operation,
        copied: Value,
        target: Spill | None,
        sources: dict[Value, Spill | Operation],
    ) -> Iterator[Operation]:
        """A copy from or to memory, which is a load or a store."""
        source = sources.get(copied) if isinstance(copied, str) else None
        if source is not None and source == target:
            return
        assert operation.dst is not None
        if source is not None and target is None:
            yield _fetch(operation.dst, source, operation.ptx, operation.result)
            return
        assert target is not None
        if source is not None:
            ahead: list[Operation] = []
            copied = self._fetched(copied, source, operation.ptx, ahead)
            yield from ahead
        yield _stored(copied, target, operation)

    def _fetched(
        self, value: Value, source: Spill | Operation, ptx: tuple[int, ...], ahead: list[Operation]
    ) -> str:
        """A temporary that holds the value; the operation that puts it there is appended to `ahead`."""
        temporary = self._temporary(value)
        ahead.append(_fetch(temporary, source, ptx))
        return temporary

    def _temporary(self, value: Value) -> str:
        name = f"{value}~{len(self._made)}"
        self._made.add(name)
        if not isinstance(value, str) or value in self.uniform:
            self.uniform.add(name)
        return name


def _recomputable(operation: Operation) -> bool:
    """Whether an operation gives the same result at any time."""
    stable = not any(isinstance(value, str) for value in operation.sources)
    return operation.op in PURE_OPS and not operation.held and not operation.once and stable


def _read(readers: Iterable[Operation | Terminator]) -> Iterator[str]:
    """The registers that operations and terminators read, as often as they do."""
    for reader in readers:
        if isinstance(reader, Operation):
            yield from registers(reader.sources)
        elif isinstance(reader, Branch):
            yield from registers((reader.a, reader.b))


def _units(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """The operations, HOLD together with its other half."""
    place = 0
    while place < len(operations):
        size = 2 if operations[place].op is Op.HOLD else 1
        yield operations[place : place + size]
        place += size


def _fetch(dst: str, source: Spill | Operation, ptx: tuple[int, ...], result: str | None = None) -> Operation:
    """`dst` = what a source gives."""
    if isinstance(source, Operation):
        return replace(source, dst=dst, ptx=ptx, result=result)
    base, scale = _addressing(source)
    return Operation(Op.LD, dst, base, addend=source.address, scale=scale, spill=True, ptx=ptx, result=result)


def _stored(value: Value, place: Spill, operation: Operation) -> Operation:
    """Put a value where the result of `operation` belongs."""
    base, scale = _addressing(place)
    return Operation(
        Op.ST, None, base, value, addend=place.address, scale=scale, spill=True, ptx=operation.ptx
    )


def _addressing(place: Spill) -> tuple[Value, int]:
    return (LANE, 2) if place.stride else (0, 0)

"""Loops that wait for other lanes, and how far these must get before the next round.

Lanes of the machine take turns.  A loop whose exit depends on memory that others write (an atomic's old
value, an ordered load: PTX ISA 8.4) would go round forever if those others waited for it to end: in CUDA
every thread makes progress.  So between two rounds everybody else gets a turn, up to the next place where
lanes wait for each other anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from qdbg.compiler.lowering.ir import Blocks, Branch, Jump, Operation, Value, registers
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.ptx.cfg_graph import reachable


def late_ends(blocks: Blocks, loops: Mapping[int, int]) -> dict[int, int]:
    """For each loop that waits, and each around it, the block after which the machine goes back to it.

    loops: header -> last block, for blocks in layout order.
    """
    found: dict[int, int] = {}
    if not observed(blocks):
        return found
    for header, end in loops.items():
        if any(_waits(blocks, members) for members in _cycles(blocks, header, end)):
            late = _next_meeting(blocks, end) - 1
            for outer, outer_end in loops.items():
                if outer <= header <= outer_end <= late:
                    found[outer] = max(found.get(outer, 0), late)
    return found


def observed(blocks: Blocks) -> bool:
    """Whether anything depends on what other lanes are about to write."""
    return any(_observes(operation) for block in blocks for operation in block.operations)


def _next_meeting(blocks: Blocks, end: int) -> int:
    """The first block behind `end` in front of which lanes wait for each other, or exit."""
    for place in range(end + 1, len(blocks)):
        block = blocks[place]
        if block.barrier is not None or block.meets or block.done or not block.successors:
            return place
    return len(blocks)


def _observes(operation: Operation) -> bool:
    """Whether the operation reads what other lanes may be about to write."""
    return operation.dst is not None and (operation.op is Op.HOLD or operation.volatile)


def _cycles(blocks: Blocks, header: int, end: int) -> Iterator[list[int]]:
    """The blocks of each way back to the header: a loop around others may share it with one that waits."""
    backwards: list[tuple[int, ...]] = [() for _ in blocks]
    for place in range(header, end + 1):
        for successor in blocks[place].outcomes:
            if successor != header:
                backwards[successor] = (*backwards[successor], place)
    last, within = blocks[end], range(header, end + 1)
    shared = isinstance(last.end, Jump) and not last.operations and header < end
    for source in backwards[end] if shared else (end,):
        yield sorted({*reachable(backwards, [source], within), end})


def _waits(blocks: Blocks, members: Sequence[int]) -> bool:
    """Whether leaving a cycle depends on what its lanes observe, in a place that is not itself observed.

    (Who follows pointers moves on by itself.)  Where a value depends on the way that lanes took to it, so it
    does on the branches in front of it.
    """
    branches = {n: end for n in members if isinstance(end := blocks[n].end, Branch)}
    leaving = [n for n in branches if not set(blocks[n].outcomes) <= set(members)]
    definitions: dict[str, list[tuple[int, Operation]]] = {}
    for node in members:
        for operation in blocks[node].operations:
            if operation.dst is not None:
                definitions.setdefault(operation.dst, []).append((node, operation))

    def behind(values: Iterable[Value], ways: bool) -> Iterator[Operation]:
        """The operations of the cycle that values depend on, and what their ways depend on."""
        wanted = list(registers(tuple(values)))
        seen: set[str] = set()
        steering = set(leaving)
        while wanted:
            register = wanted.pop()
            if register in seen:
                continue
            seen.add(register)
            found = definitions.get(register, [])
            for node, operation in found:
                yield operation
                wanted += registers(operation.sources)
                if ways and (len(found) > 1 or operation.once):
                    for before in [n for n in branches if n < node and n not in steering]:
                        steering.add(before)
                        wanted += registers(blocks[before].reads_at_end())

    conditions = [value for node in leaving for value in blocks[node].reads_at_end()]
    return any(
        _observes(operation) and not any(map(_observes, behind((operation.a, operation.c), ways=False)))
        for operation in behind(conditions, ways=True)
    )

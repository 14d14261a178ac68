"""Loads whose value is only added to something become one operation, LDA: a result less to bring back."""

from __future__ import annotations

from dataclasses import replace

from qdbg.compiler.lowering.ir import Block, Blocks, Operation, Value
from qdbg.compiler.lowering.layout import Graph
from qdbg.compiler.lowering.liveness import Liveness
from qdbg.compiler.machine.isa import Op, Width

_WORDS = (Width.WORD, Width.PAIR, Width.QUAD)


def accumulate_loads(blocks: Blocks) -> None:
    """Fuse `x = memory[..]` with the only use of x, `y = x + z`, in the same block."""
    liveness = Liveness(Graph(blocks))
    for node, block in enumerate(blocks):
        position = 0
        while position < len(block.operations):
            user = _user(block, position, liveness.out[node])
            if user is None:
                position += 1
                continue
            fused = _fused(block.operations[position], block.operations[user])
            block.operations[user] = fused
            del block.operations[position]


def _user(block: Block, position: int, out: frozenset[str]) -> int | None:
    """Where the word loaded at a place is added to something, if nothing else becomes of it and the load
    may as well happen there."""
    load = block.operations[position]
    if load.op is not Op.LD or load.width not in _WORDS or load.spill or load.volatile:
        return None
    found = None
    for at, o in enumerate(block.operations[position + 1 :], start=position + 1):
        if found is None:
            if load.dst in o.sources:
                if not _adds(o):
                    return None
                found = at
            elif (o.dst is not None and o.dst in (*load.sources, load.dst)) or _writes_memory(o):
                return None
        elif load.dst in o.sources:
            return None
        if o.dst == load.dst:
            return found
    return found if load.dst not in out and load.dst not in block.reads_at_end() else None


def _adds(o: Operation) -> bool:
    return o.op is Op.ADD and o.scale == 0 and o.addend == 0 and o.a != o.c and not o.held and not o.once


def _writes_memory(o: Operation) -> bool:
    return o.op in (Op.ST, Op.HOLD) or o.held


def _fused(load: Operation, add: Operation) -> Operation:
    other: Value = add.c if add.a == load.dst else add.a
    ptx = tuple(sorted({*load.ptx, *add.ptx}))
    return replace(load, op=Op.LDA, dst=add.dst, b=other, ptx=ptx, result=add.result)

"""Control flow of a PTX function: basic blocks, dominators, post-dominators, liveness, block order.

Nothing here recurses, and register sets are the bits of an integer, so that a function of ten thousand
instructions costs milliseconds.  Block 0 is the entry.  A block can leave the function by `ret`, `exit`
or by running off the end (PTX ISA 9.7.12, "Control Flow Instructions").
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from . import cfg_effects
from .cfg_graph import immediate_dominators, immediate_postdominators, loop_order
from .ir import Function, Instruction, Label, Vector

_BRANCHES = ("bra", "brx")
_ENDS = (*_BRANCHES, "ret", "exit", "trap")


@dataclass(frozen=True, slots=True)
class Block:
    """The instructions `body[start:end]`, and the indices of the blocks after and before it.

    Of a guarded branch the first successor is the fall-through.  The virtual exit is not listed.
    """

    index: int
    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


class ControlFlow:
    """The control-flow graph of one function; what is costly is computed when first asked for."""

    def __init__(self, function: Function):
        self.function = function
        self.blocks = _blocks(function)
        self._starts = [block.start for block in self.blocks]
        self._successors = [block.successors for block in self.blocks]
        self._predecessors = [block.predecessors for block in self.blocks]

    def block_of(self, index: int) -> Block:
        """The block that holds the instruction `body[index]`."""
        return self.blocks[bisect_right(self._starts, index) - 1]

    reads = staticmethod(cfg_effects.reads)
    writes = staticmethod(cfg_effects.writes)

    # -- dominance ----------------------------------------------------------------------------------

    @cached_property
    def _idoms(self) -> dict[int, int]:
        return immediate_dominators(self._successors, 0)

    def idom(self, block: int) -> int | None:
        """The immediate dominator of a block; None for the entry and for unreachable blocks."""
        return None if block == 0 else self._idoms.get(block)

    @cached_property
    def dominators(self) -> tuple[frozenset[int], ...]:
        """For every block the blocks that every path to it passes, itself included."""
        found: dict[int, frozenset[int]] = {}
        for block in self.order:
            parent = self.idom(block)
            above = found[parent] if parent is not None else frozenset()
            found[block] = above | {block}
        return tuple(found.get(block.index, frozenset({block.index})) for block in self.blocks)

    @cached_property
    def _ipdoms(self) -> dict[int, int | None]:
        leaving: dict[int, int] = {}
        for block in self.blocks:
            last = self.function.body[block.end - 1] if block.end > block.start else None
            if last is not None and last.opcode == "trap":
                leaving[block.index] = 1  # ends the launch: nothing reconverges after it
            elif last is None or last.opcode in ("ret", "exit") or self._runs_off(block):
                leaving[block.index] = 0
        return immediate_postdominators(self._successors, self._predecessors, leaving)

    def _runs_off(self, block: Block) -> bool:
        """Whether control can pass the end of the body."""
        is_last = block.index == len(self.blocks) - 1
        return is_last and _falls_through(self.function.body[block.end - 1])

    def ipdom(self, block: int) -> int | None:
        """The immediate post-dominator of a block, where divergent lanes reconverge; None: the virtual exit.

        Paths into a `trap` or an endless loop count only for blocks that have no other way out.
        """
        return self._ipdoms[block]

    # -- order and liveness -------------------------------------------------------------------------

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The reachable blocks, the entry first, in a reverse post-order where each loop is contiguous."""
        return tuple(loop_order(self._successors, self._predecessors, 0))

    @property
    def live_in(self) -> tuple[frozenset[str], ...]:
        """For every block the registers whose value at its start is read later."""
        return self._liveness[0]

    @property
    def live_out(self) -> tuple[frozenset[str], ...]:
        """For every block the registers whose value at its end is read later."""
        return self._liveness[1]

    @cached_property
    def _liveness(self) -> tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...]]:
        bit = {name: 1 << place for place, name in enumerate(self.function.registers)}
        used, defined = [], []
        for block in self.blocks:
            use = define = 0
            for instruction in self.function.body[block.start : block.end]:
                for name in cfg_effects.reads(instruction):
                    use |= bit[name] & ~define
                for name in cfg_effects.writes(instruction):
                    define |= bit[name]
            used.append(use)
            defined.append(define)
        into, out = list(used), [0] * len(self.blocks)
        waiting = set(range(len(self.blocks)))
        while waiting:
            block = self.blocks[waiting.pop()]
            out[block.index] = 0
            for successor in block.successors:
                out[block.index] |= into[successor]
            new = used[block.index] | out[block.index] & ~defined[block.index]
            if new != into[block.index]:
                into[block.index] = new
                waiting.update(block.predecessors)
        names = tuple(bit)
        return tuple(_names(one, names) for one in into), tuple(_names(one, names) for one in out)


def _names(bits: int, names: tuple[str, ...]) -> frozenset[str]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(names[lowest.bit_length() - 1])
        bits ^= lowest
    return frozenset(found)


def _targets(function: Function, instruction: Instruction) -> tuple[int, ...]:
    """The body positions that a `bra` or `brx.idx` can go to, without repetition."""
    found: list[int] = []
    for operand in instruction.operands:
        for one in operand.elements if isinstance(operand, Vector) else (operand,):
            if isinstance(one, Label):
                found.append(function.labels[one.name])
    return tuple(dict.fromkeys(found))


def _falls_through(instruction: Instruction) -> bool:
    return instruction.opcode not in _ENDS or instruction.guard is not None


def _blocks(function: Function) -> tuple[Block, ...]:
    """Cuts the body at branch targets and behind branches and returns."""
    body = function.body
    leaders = {0}
    for instruction in body:
        if instruction.opcode in _BRANCHES:
            leaders.update(_targets(function, instruction))
        if instruction.opcode in _ENDS and instruction.index + 1 < len(body):
            leaders.add(instruction.index + 1)
    starts = sorted(leaders)  # a branch to a label behind the last instruction makes an empty last block
    block_at = {start: index for index, start in enumerate(starts)}
    ends = [*starts[1:], len(body)]
    successors: list[tuple[int, ...]] = []
    for end, start in zip(ends, starts, strict=True):
        found: list[int] = []
        if end > start:
            last = body[end - 1]
            if _falls_through(last) and end in block_at:
                found.append(block_at[end])
            if last.opcode in _BRANCHES:
                found += [block_at[target] for target in _targets(function, last)]
        successors.append(tuple(dict.fromkeys(found)))
    predecessors: list[list[int]] = [[] for _ in starts]
    for index, after in enumerate(successors):
        for successor in after:
            predecessors[successor].append(index)
    return tuple(
        Block(index, start, end, successors[index], tuple(predecessors[index]))
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    )

"""Placement: redundant jumps go, lines of 16 fill up, patterns meet the hardware's rules, targets resolve.

Control cannot fall through the end of a line, so a jump stands there unless a branch does already.  A loop
that fits a line is moved into one, which saves that jump in every round, and so is what lies between two
jumps, unless the program gets too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from qdbg.compiler.lowering.emit import Code, Item, Label
from qdbg.compiler.lowering.ir import LoweringError
from qdbg.compiler.machine.config import LINE
from qdbg.compiler.machine.isa import NONE, VALUE_OPS, Instr, Op

#: Instructions after which control never goes to the next one.
_FINAL = frozenset({Op.BR, Op.HALT, Op.TRAP})
#: Control instructions for which the pattern means nothing.
_BLIND = frozenset({Op.UBR, Op.CLR, Op.NOP, Op.HALT})


def assemble(code: Code, loops: Iterable[tuple[Label, Label]], size: int) -> tuple[Instr, ...]:
    """The finished program; `loops` are label pairs (first block, block after the last).

    Raises LoweringError if it has more than `size` instructions.
    """
    _drop_jumps(code)
    rounds = [(code.labels[a], code.labels[b]) for a, b in loops if a in code.labels and b in code.labels]
    placed, labels = _place(code, [*rounds, *_runs(code)])
    if len(placed) > size:
        placed, labels = _place(code, [])
    if len(placed) > size:
        raise LoweringError(
            f"the kernel is too long: it takes {len(placed)} machine instructions "
            f"and the machine holds {size}",
            grows=True,
        )
    return tuple(_resolve(item, labels) for item in _chain(placed))


def _drop_jumps(code: Code) -> None:
    """Point branches past jumps, and remove jumps to the next instruction and those that nothing reaches."""
    items, labels = code.items, code.labels
    for label in labels:
        seen = set()
        while (at := labels[label]) < len(items) and items[at].is_jump and at not in seen:
            seen.add(at)
            target = items[at].target
            assert target is not None
            labels[label] = labels[target]
    removed = True
    while removed:
        removed = False
        entered = set(labels.values())
        for at, item in enumerate(items):
            target = item.target
            goes_on = target is not None and item.is_jump and labels[target] == at + 1
            unreached = at > 0 and at not in entered and items[at - 1].instr.op in _FINAL
            if goes_on or unreached:
                del items[at]
                code.labels = labels = {k: v - (v > at) for k, v in labels.items()}
                removed = True
                break


def _runs(code: Code) -> Iterator[tuple[int, int]]:
    """What control enters by a jump and leaves by one: on a line of its own it needs no jump in between."""
    ends = [at for at, item in enumerate(code.items) if item.instr.op in _FINAL]
    return pairwise(at + 1 for at in ends)


def _place(code: Code, loops: list[tuple[int, int]]) -> tuple[list[Item], dict[Label, int]]:
    """Items at their addresses, with the jumps at line ends, and the address of each label."""
    placed: list[Item] = []
    address: dict[int, int] = {}
    short = {start: end - start + (code.items[end - 1].instr.op not in _FINAL) for start, end in loops}
    short = {start: room for start, room in short.items() if room <= LINE}
    extra: dict[Label, int] = {}
    spare = min([*code.labels, 0]) - 1

    def jump_to_next_line() -> None:
        nonlocal spare
        if not placed or placed[-1].instr.op not in _FINAL:
            spare -= 1
            placed.append(Item(Instr(Op.BR), spare, spare))
            extra[spare] = -(-len(placed) // LINE) * LINE
        while len(placed) % LINE:
            placed.append(Item(Instr(Op.NOP)))

    for index, item in enumerate(code.items):
        room = LINE - len(placed) % LINE
        straddles = room < short.get(index, 0)
        if straddles or room < _needed_room(item.instr):
            jump_to_next_line()
        address[index] = len(placed)
        placed.append(item)
    return placed, {label: address[at] for label, at in code.labels.items() if at in address} | extra


def _needed_room(instr: Instr) -> int:
    """Places that must be left in a line: one for a jump at its end; HOLD keeps its other half beside it."""
    if instr.op in _FINAL or instr.held:
        return 1
    return 3 if instr.op is Op.HOLD else 2


def _chain(placed: list[Item]) -> list[Item]:
    """Give instructions that ignore their pattern the one before, and mark those that cannot hand over.

    The last lane's result is written under the pattern of the instruction that follows.
    """
    found: list[Item] = []
    for item in placed:
        instr = item.instr
        if found and _hands_over(before := found[-1].instr):
            if (
                instr.uniform
                and not _looks_at_lanes(instr)
                and (instr.op in VALUE_OPS | _BLIND or item.is_jump)
            ):
                item = replace(item, instr=replace(instr, pattern=before.pattern))
            elif instr.pattern != before.pattern:
                found[-1] = replace(found[-1], instr=replace(before, unchained=True))
        found.append(item)
    return found


def _looks_at_lanes(instr: Instr) -> bool:
    """Whether a uniform value depends on which lanes are active."""
    read = (instr.b,) if instr.op is Op.SHFL else (instr.a, instr.b, instr.c)
    return instr.op is Op.MASK or any(r != NONE and not r.uniform for r in read)


def _hands_over(instr: Instr) -> bool:
    """Whether the instruction's last lane writes a vector register when the next one is current."""
    holds = instr.op is Op.HOLD or instr.held
    return instr.op in VALUE_OPS and not instr.dst.uniform and not holds


def _resolve(item: Item, labels: dict[Label, int]) -> Instr:
    target = labels[item.target] if item.target is not None else 0
    skip = labels[item.skip] if item.skip is not None else 0
    return replace(item.instr, target=target, skip=skip)

"""The compiler's own form of a kernel: machine operations on virtual registers, in basic blocks.

A value is a virtual register (its name), a 32-bit constant, a word of the parameter space or the
lane's own number.  Only registers cost anything: the others are operands of the machine as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from qdbg.compiler.machine.isa import Cond, Op, Trap, Width

MASK = 0xFFFFFFFF
#: As the condition of a word and 0: it is negative.
NEGATIVE = Cond.LT | Cond.SIGNED
Axes = tuple[int, int, int]


class LoweringError(Exception):
    """The kernel does not fit the machine.  `str()` is one sentence with file, line, numbers and cure.

    cause, cure: the sentence without its place; grows: whether code that is optimised less is likely to fit;
    opt: the level at which a compiler optimised it.
    """

    def __init__(
        self, cause: str, cure: str = "split the kernel", grows: bool = False, place: str = "", opt: int = 0
    ):
        lower = "a lower --opt may help, or " if grows and opt > 0 else ""
        super().__init__(f"{place}: {cause}; {lower}{cure}" if place else f"{cause}; {cure}")
        self.cause, self.cure, self.grows = cause, cure, grows

    def at(self, place: str, opt: int = 0) -> LoweringError:
        """The same error with its place."""
        return LoweringError(self.cause, self.cure, self.grows, place, opt)


@dataclass(frozen=True)
class Geometry:
    """What a program may depend on besides code.

    grid, block: blocks and threads along x, y, z; shared_base, shared_bytes: the block's shared memory;
    symbols: byte addresses of module variables, of shared ones from the start of shared memory, and of local
    ones from the start of a thread's window; parameters: byte address of the parameter space; local: that
    of the first thread's window of local memory, and stride the bytes from one window to the next.  Shared,
    parameter and local memory lie in this order behind everything else; scratch: a word for each warp;
    spill_base: where memory that the launch does not use begins; dynamic_bytes: how many of shared memory's
    bytes the launch asked for.
    """

    grid: Axes
    block: Axes
    shared_base: int = 0
    symbols: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    parameters: int = 0
    local: int = 0
    stride: int = 0
    scratch: int = 0
    spill_base: int = 0
    dynamic_bytes: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A 32-bit word of the parameter space, counted from its start."""

    word: int


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane's own number."""


LANE = Lane()
Value = str | int | Parameter | Lane


@dataclass(frozen=True, slots=True)
class Operation:
    """A machine instruction on values: `addend` is E of `isa`.

    volatile: it is a load that may see what other lanes write meanwhile; once: it runs once, for the lowest
    active lane, and gives its result to all lanes, also to those that wait elsewhere; a register with one
    such definition has no other ones, and no instruction of the PTX writes it.  `width`, `signed`, `shared`,
    `held`, `ptx` and `result` as in `isa.Instr`.
    """

    op: Op
    dst: str | None = None
    a: Value = 0
    b: Value = 0
    c: Value = 0
    addend: int = 0
    scale: int = 0
    cond: Cond = Cond(0)  # noqa: RUF009 (immutable)
    width: Width = Width.WORD
    signed: bool = False
    shared: bool = False
    held: bool = False
    volatile: bool = False
    once: bool = False
    spill: bool = False
    ptx: tuple[int, ...] = ()
    result: str | None = None

    @property
    def sources(self) -> tuple[Value, ...]:
        """The values read."""
        return self.a, self.b, self.c

    @property
    def agreeing(self) -> tuple[Value, ...]:
        """The values that must be the same in all lanes for the result to be."""
        if self.once:
            return ()
        return (self.b,) if self.op is Op.SHFL else self.sources

    @property
    def copied(self) -> Value | None:
        """The value that the operation merely copies, if that is all it does."""
        if self.op is not Op.ADD or self.c != 0 or self.held or self.once:
            return None
        if self.a == 0:
            return self.addend
        return self.a if self.scale == 0 and self.addend == 0 else None

    def substitute(self, values: dict[str, Value]) -> Operation:
        """The operation with registers replaced."""
        if not any(isinstance(v, str) and v in values for v in self.sources):
            return self
        a, b, c = (values.get(v, v) if isinstance(v, str) else v for v in self.sources)
        if self.op is Op.SHFL and a == self.dst:  # lanes would read what those before them wrote
            a = self.a
        return replace(self, a=a, b=b, c=c)


def copy_of(dst: str, value: Value, ptx: tuple[int, ...] = (), result: str | None = None) -> Operation:
    """`dst = value`."""
    if isinstance(value, int):
        return Operation(Op.ADD, dst, addend=value & MASK, ptx=ptx, result=result)
    return Operation(Op.ADD, dst, value, ptx=ptx, result=result)


@dataclass(frozen=True, slots=True)
class Jump:
    """Goes to block `target`.

    within: the header of a loop that is laid out around this block, though no lane ever goes there.
    """

    target: int
    within: int | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes to `taken` where `a cond b`, else to `other`; `ptx` names the branch and its comparison."""

    a: Value
    cond: Cond
    b: Value
    taken: int
    other: int
    ptx: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the launch."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A trap.  `target`, the exit, is never reached but keeps the trap in front of it.

    lacks: what the machine lacks here, where that is why.
    """

    reason: Trap
    target: int
    ptx: tuple[int, ...] = ()
    lacks: str = ""


Terminator = Jump | Branch | Exit | Stop


@dataclass(slots=True)
class Block:
    """Operations and where control goes after them.

    barrier: the bar.sync executed on entry; starts: whether this is the header of the loop over the grid's
    blocks; done: whether this is where threads exit; meets: the warp instructions in it, which lanes
    execute together.
    """

    end: Terminator
    operations: list[Operation] = field(default_factory=list)
    barrier: int | None = None
    starts: bool = False
    done: bool = False
    meets: tuple[int, ...] = ()

    @property
    def successors(self) -> tuple[int, ...]:
        """Blocks that may follow, without repetition."""
        match self.end:
            case Jump(target, within):
                return (target,) if within is None else (within, target)
            case Stop(target=target):
                return (target,)
            case Branch(taken=taken, other=other):
                return (other,) if taken == other else (other, taken)
            case Exit():
                return ()

    @property
    def outcomes(self) -> tuple[int, ...]:
        """The successors that lanes really go to, or would go to if a trap let them."""
        return (self.end.target,) if isinstance(self.end, Jump) else self.successors

    def retarget(self, new: dict[int, int]) -> None:
        """Rename the successors that `new` mentions."""
        match self.end:
            case Jump(target, within):
                self.end = Jump(new.get(target, target), None if within is None else new.get(within, within))
            case Stop(target=target):
                self.end = replace(self.end, target=new.get(target, target))
            case Branch(taken=taken, other=other):
                self.end = replace(self.end, taken=new.get(taken, taken), other=new.get(other, other))

    def reads_at_end(self) -> tuple[Value, ...]:
        """The values that the terminator reads."""
        return (self.end.a, self.end.b) if isinstance(self.end, Branch) else ()


Blocks = list[Block]


def high_half(register: str) -> str:
    """The virtual register for the high half of a 64-bit PTX register; the low half keeps the name."""
    return f"{register}.hi"


def registers(values: tuple[Value, ...]) -> Iterator[str]:
    """The virtual registers among values."""
    return (v for v in values if isinstance(v, str))


def predecessors(blocks: Blocks) -> list[tuple[int, ...]]:
    """For every block the blocks that may precede it."""
    found: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in block.successors:
            found[successor].append(index)
    return [tuple(one) for one in found]


def renumbered(blocks: Blocks, order: list[int]) -> Blocks:
    """The blocks listed in `order`, which become blocks 0, 1, ..."""
    new = {old: position for position, old in enumerate(order)}
    for index in order:
        blocks[index].retarget(new)
    return [blocks[index] for index in order]


def inverse(cond: Cond) -> Cond:
    """The condition that holds exactly where `cond` does not."""
    return cond ^ (Cond.LT | Cond.EQ | Cond.GT)


def mirrored(cond: Cond) -> Cond:
    """The condition on (b, a) that equals `cond` on (a, b)."""
    swapped = cond & ~(Cond.LT | Cond.GT)
    if cond & Cond.LT:
        swapped |= Cond.GT
    if cond & Cond.GT:
        swapped |= Cond.LT
    return swapped

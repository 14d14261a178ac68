"""The machine's instruction set: what a warp does in one instruction, and how a program is laid out.

**State.**  A block's threads are the machine's lanes, warp after warp; they share one instruction
stream.  Every lane has 32 vector registers and `slots` divergence bits.  The block has 128 uniform
registers (constants, parameters, values equal in all lanes), a pc, and the memory.

**Execution.**  A *vector* instruction runs once for every active lane, lowest lane first, a lane a
pass; a *uniform* one (its destination is a uniform register) once, with the lowest active lane as the
lane whose vector registers and number it reads.  A lane is active when it exists and every divergence
bit in the instruction's `care` pattern equals the pattern's value; a bit that was never written, or
cleared by `CLR`, matches both.  Control instructions take one pass.  No vector instruction may be
reached with no active lane: `BR` in front of a block sees to that.

**Arithmetic.**  One multiplier-adder serves ADD, SUB, MAD and addresses: P = A*B + C + E in 64 bits,
where the immediate is B when `immediate_is_b` is set and the addend E otherwise.

**Memory.**  Words of 32 bits; a store replaces a word.  What reads a word, changes it and writes it
back (atomics, stores of bytes) is a pair of instructions: HOLD, then one with `held` set, an operation
of the ALU (not MADH, MADS, ADDH or one over the warp) whose A is usually HOLD's destination and whose
result goes to the word that was read.  Each lane does both before the next lane starts.  A `held`
instruction that is not reached in that way does nothing.

**Layout.**  The program is divided into lines of 16.  Control passes from one instruction to the
next by a clock that cannot cross a line, so the last instruction of a line must not fall through:
the assembler puts a BR there.  An instruction that produces vector values and is followed by one
with another pattern must be marked `unchained` (its last lane then takes one more token).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import NamedTuple


class Op(IntEnum):
    """Operation codes; A, B, C are the operands, E the immediate unless it is B, D the destination."""

    NOP = 0  #: does nothing and emits STEP; what an unwritten row of the program reads as
    MAD = 1  #: D = A*B + C + E
    ADD = 2  #: D = (A << scale) + C + E
    SUB = 3  #: D = C - A + E
    AND = 4  #: D = A & B
    OR = 5  #: D = A | B
    XOR = 6  #: D = A ^ B
    SHL = 7  #: D = A << B, 0 from 32 on (B unsigned)
    SHRU = 8  #: D = A >> B, logical, 0 from 32 on
    SHRS = 9  #: D = A >> B, arithmetic, the sign from 32 on
    PICK = 10  #: D = A if A cond B else B (minimum and maximum)
    SET = 11  #: D = 1 if A cond B else 0
    SEL = 12  #: D = A if C & 1 else B
    SX8 = 13  #: D = sign extension of A's low 8 bits
    SX16 = 14  #: D = sign extension of A's low 16 bits
    LD = 15  #: D = memory[(A << scale) + C + E], as `width` and `signed` say
    ST = 16  #: memory[(A << scale) + C + E] = B, a word
    BR = 17  #: to `target` if any lane is active under the pattern, else to `skip`
    CBR = 18  #: each active lane's bit in slot `slot` becomes (A cond B)
    UBR = 19  #: to `target` if A cond B (uniform operands), else to the next instruction
    CLR = 20  #: forget the bits of slot `slot` in every lane, once its STEP is read
    HALT = 21  #: end of the launch
    TRAP = 22  #: the first active lane traps with the reason in the low bits of the immediate
    MADH = 23  #: D = the high word of A*B + C + E, all unsigned (never more than 64 bits)
    MADS = 24  #: D = the high word of A*B + C + E, A and B signed
    ADDH = 25  #: D = the high word of (A << scale) + C + E, all unsigned: a carry
    POPC = 26  #: D = number of ones in A
    CLZ = 27  #: D = number of zeros above A's highest one (32 for 0)
    BREV = 28  #: D = A with its bits in reverse order
    CHOOSE = 29  #: D = C if A cond B else A (compare and swap)
    INSERT = 30  #: D = A with B's low byte or half (`width`) at the place that the held address names
    MASK = 31  #: D = the active lanes of a warp, bit i for its lane i: the lane's own warp, or, with a
    #: uniform destination, warp number `scale`
    SHFL = 32  #: D = register A of the lane with number B (neither may be LANE_INDEX)
    HOLD = 33  #: D = memory[(A << scale) + C + E], a word; holds the lane and the address, see above
    LDA = 34  #: D = memory[(A << scale) + C + E] + B, a word: a load that accumulates


class Cond(IntFlag):
    """A condition is any union of LT, EQ and GT; SIGNED chooses the order."""

    LT = 1
    EQ = 2
    GT = 4
    SIGNED = 8


class Trap(IntEnum):
    """Why a lane trapped."""

    OUT_OF_BOUNDS = 0  #: the word is not part of any allocation
    MISALIGNED = 1  #: the address is not a multiple of the access's size
    UNSUPPORTED = 2  #: a PTX instruction that the machine lacks was executed
    USER = 3  #: the PTX instruction `trap`
    BARRIER = 4  #: it is elsewhere while others wait at a barrier
    ASSERT = 5  #: __assertfail was called
    RECURSION = 6  #: a call that cannot be inlined


#: What the machine lacks, rather than what the kernel did wrong.
LACKING = frozenset({Trap.UNSUPPORTED, Trap.RECURSION})


class Width(IntEnum):
    """What an access moves and to what its address must be aligned."""

    WORD = 0
    HALF = 1
    BYTE = 2
    PAIR = 3  #: a word, aligned to 8: the first of a 64-bit access
    QUAD = 4  #: a word, aligned to 16


#: Operations with a result for every active lane, or for the warp.
VALUE_OPS = frozenset({*range(Op.MAD, Op.LD + 1), *range(Op.MADH, Op.SHFL + 1), Op.LDA}) - {Op.INSERT}
#: Operations whose result depends on nothing but their operands.
PURE_OPS = VALUE_OPS - {Op.LD, Op.LDA, Op.MASK, Op.SHFL}
#: Operations that run once for every active lane (unless the destination is uniform).
LANE_OPS = VALUE_OPS | {Op.ST, Op.CBR, Op.HOLD}
#: P = (A << scale) + C + E.
ADDRESS_OPS = frozenset({Op.ADD, Op.ADDH, Op.LD, Op.LDA, Op.ST, Op.HOLD})
#: Operations with a condition.
CONDITION_OPS = frozenset({Op.PICK, Op.SET, Op.CBR, Op.UBR, Op.CHOOSE})
#: Operations that read memory.
LOADS = frozenset({Op.LD, Op.LDA, Op.HOLD})
#: In the field of a register: it is a uniform one.
UNIFORM = 0x80


@dataclass(frozen=True, slots=True, order=True)
class Reg:
    """An operand: uniform register, vector register, lane number, or nothing (reads as 0)."""

    index: int
    uniform: bool = False

    @property
    def code(self) -> int:
        """The 8-bit field of the instruction word."""
        return self.index | (UNIFORM if self.uniform else 0)

    def __str__(self) -> str:
        if self == NONE:
            return "-"
        if self == LANE_INDEX:
            return "lane"
        return f"{'u' if self.uniform else 'v'}{self.index}"


@dataclass(frozen=True, slots=True)
class Spill:
    """A register that is kept in memory: lane i has the word at `address + stride * i`."""

    address: int
    stride: int

    def __str__(self) -> str:
        return f"[{self.address:#x}{f'+{self.stride}*lane' if self.stride else ''}]"


#: As an operand: the lane's own number.
LANE_INDEX = Reg(32)
#: As an operand reads as 0; as a destination discards.
NONE = Reg(127)


class Pattern(NamedTuple):
    """Which lanes are active: those whose slot bits agree with `value` wherever `care` is set."""

    care: int = 0
    value: int = 0


EVERY_LANE = Pattern()
NEVER = Cond(0)


@dataclass(frozen=True, slots=True)
class Instr:
    """One machine instruction.

    shared: the access is to shared memory and must stay within the block's; held: the instruction is the
    second half of a HOLD; spill: it moves a value between its `Spill` and a register.  `ptx` lists the
    indices of the PTX instructions whose work it does (addresses fold into the load that uses them);
    `result` names the PTX register it writes, or half of one, as in `Program.locations`.
    """

    op: Op
    dst: Reg = NONE
    a: Reg = NONE
    b: Reg = NONE
    c: Reg = NONE
    immediate: int = 0
    immediate_is_b: bool = False
    scale: int = 0
    cond: Cond = NEVER
    slot: int = 0
    target: int = 0
    skip: int = 0
    width: Width = Width.WORD
    signed: bool = False
    shared: bool = False
    held: bool = False
    spill: bool = False
    pattern: Pattern = EVERY_LANE
    unchained: bool = False
    ptx: tuple[int, ...] = ()
    result: str | None = None

    @property
    def uniform(self) -> bool:
        """Runs once for the warp rather than once a lane."""
        if self.held:
            return False
        return self.op not in LANE_OPS or (self.op in VALUE_OPS and self.dst.uniform)

    def __str__(self) -> str:
        parts = [str(r) for r in (self.dst, self.a, self.b, self.c)]
        if self.op in (Op.CBR, Op.CLR):
            parts[0] = f"slot{self.slot}"
        if self.immediate or self.immediate_is_b:
            parts.append(f"{'b' if self.immediate_is_b else 'e'}={self.immediate & 0xFFFFFFFF:#x}")
        if self.scale:
            parts.append(f"<<{self.scale}")
        if self.cond:
            parts.append(str(self.cond.name or self.cond).replace("|", "+"))
        if self.op in (Op.BR, Op.UBR):
            parts.append(f"-> {self.target}")
        if self.op is Op.BR:
            parts.append(f"else {self.skip}")
        if self.pattern.care:
            parts.append(f"if {self.pattern.value:b}/{self.pattern.care:b}")
        if self.unchained:
            parts.append("unchained")
        return f"{self.op.name.lower():5}" + " ".join(parts)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel compiled for one launch geometry.

    `code[pc]` is the instruction at pc; `uniforms` holds initial values of uniform registers that
    depend on nothing but code and geometry, `parameters` says which uniform register starts as
    which 32-bit word of the parameter space, `geometry` likewise for grid and block dimensions.
    `locations` maps a PTX register to the machine register or memory that it lives in: of a 64-bit register
    its low half, while `%rd5.hi` is the high half of `%rd5`.  Registers and halves absent from it were
    folded into other instructions, are computed again where they are read, or are never looked at.
    """

    code: tuple[Instr, ...]
    entry: int = 0
    uniforms: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, int] = field(default_factory=dict)
    locations: dict[str, Reg | Spill] = field(default_factory=dict)
    #: (byte address, bytes) of the memory for registers, which must be allocated.
    spilled: tuple[int, int] = (0, 0)
    #: Uniform registers that hold the block index, x, y, z (absent where the kernel runs one block).
    block_index: dict[str, int] = field(default_factory=dict)
    #: At PTX instructions that trap because the machine lacks something, by index: what that is, in words.
    lacking: dict[int, str] = field(default_factory=dict)

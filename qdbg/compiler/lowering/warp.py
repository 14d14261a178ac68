"""Selection for votes, matches and reductions of a warp: PTX ISA 9.7.13, vote.sync to activemask.

MASK says which lanes run a block, so a predicate becomes a branch, and the lanes on either side see each
other.  Where all lanes of a block with one warp are together the answer is computed once; elsewhere each lane
finds its own.  See `meetings`.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import LANE, MASK, Branch, Jump, Operation, Value
from qdbg.compiler.lowering.meetings import Meetings
from qdbg.compiler.lowering.operands import Operands
from qdbg.compiler.lowering.translation import Translation
from qdbg.compiler.lowering.types import Type, Unsupported, types
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction, Operand, Pair

NOT_EQUAL = Cond.LT | Cond.GT
PREDICATE = Type("p", 1)
WORD = Type("b", 32)
#: redux -> the operation on the accumulator and the value, and what the accumulator starts as.
_REDUCTIONS: dict[str, tuple[Op, Cond, int]] = {
    "add.u32": (Op.ADD, Cond(0), 0),
    "add.s32": (Op.ADD, Cond(0), 0),
    "min.u32": (Op.PICK, Cond.LT, MASK),
    "max.u32": (Op.PICK, Cond.GT, 0),
    "min.s32": (Op.PICK, Cond.LT | Cond.SIGNED, MASK >> 1),
    "max.s32": (Op.PICK, Cond.GT | Cond.SIGNED, 1 << 31),
    "and.b32": (Op.AND, Cond(0), MASK),
    "or.b32": (Op.OR, Cond(0), 0),
    "xor.b32": (Op.XOR, Cond(0), 0),
}


class Collective(Translation):
    """What instructions that lanes execute together have in common."""

    def __init__(self, builder: Builder, operands: Operands, meetings: Meetings):
        super().__init__(builder, operands)
        self.lanes, self.meetings, self.together = operands.lanes, meetings, meetings.together

    def here(self, i: Instruction) -> Value:
        """The lanes of a lane's warp that execute the instruction, as a mask."""
        if i.index in self.together:
            return self.lanes.existing
        return self.mask()

    def mask(self) -> str:
        """The lanes of a lane's warp that are in the current block."""
        return self.op(Op.MASK, 0 if self.lanes.one_warp else LANE)

    def as_one(self, i: Instruction) -> bool:
        """Whether the whole block is a single warp whose lanes are all there."""
        return self.lanes.one_warp and i.index in self.together

    def once(self, dst: str, op: Op, a: Value = 0, addend: int = 0) -> str:
        """`dst = op(a)`, computed once for all lanes."""
        self.builder.emit(Operation(op, dst, a, addend=addend, once=True))
        return dst

    def meet(self, i: Instruction, members: Value) -> None:
        """Lanes execute an instruction together here, those of each warp that `members` names."""
        builder = self.builder
        gather = builder.reserve()
        builder.enter(gather)
        if i.index not in self.meetings.waiting:
            builder.blocks[gather].meets = (i.index,)
            return
        complete = builder.reserve()
        here = builder.temporary()
        builder.emit(Operation(Op.MASK, here, LANE, volatile=True))
        missing = self.op(Op.XOR, self.op(Op.AND, members, self.lanes.existing), here)
        missing = self.op(Op.AND, missing, members)
        builder.close(Branch(missing, NOT_EQUAL, 0, gather, complete, builder.at))
        builder.enter(complete)

    def members(self, i: Instruction, place: int) -> Value:
        """The member mask; the forms without .sync are for the lanes that are there."""
        if i.has("sync"):
            return self.low(i.operands[place])
        if len(i.operands) > place:
            raise Unsupported
        return MASK

    def grouped(self, members: Value, body: Callable[[], object]) -> None:
        """Run `body` for the lanes with each value of the member mask in turn."""
        if isinstance(members, int):
            body()
        else:
            self.for_each([members], body)

    def for_each(self, keys: list[Value], body: Callable[[], object]) -> None:
        """Run `body` for the lanes with each combination of `keys` in turn."""
        builder = self.builder
        head, inside, after = builder.reserve(), builder.reserve(), builder.reserve()
        builder.enter(head)
        different: Value | None = None
        for key in keys:
            first = self.once(builder.temporary(), Op.ADD, key)
            differs = self.op(Op.SET, key, first, cond=NOT_EQUAL)
            different = differs if different is None else self.op(Op.OR, different, differs)
        assert different is not None
        builder.close(Branch(different, NOT_EQUAL, 0, head, inside, builder.at))
        builder.enter(inside)
        body()
        builder.close(Jump(after, within=head))
        builder.enter(after)

    def where(self, predicate: Value, negated: bool, body: Callable[[], object]) -> None:
        """Run `body` for the lanes whose predicate holds, or does not hold."""
        builder = self.builder
        inside, after = builder.reserve(), builder.reserve()
        cond = Cond.EQ if negated else NOT_EQUAL
        builder.close(Branch(predicate, cond, 0, inside, after, builder.at))
        builder.enter(inside)
        body()
        builder.enter(after)

    def either(self, predicate: Value, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """Run `yes` for the lanes whose predicate holds, and `no` for the others."""
        builder = self.builder
        inside, outside, after = builder.reserve(), builder.reserve(), builder.reserve()
        builder.close(Branch(predicate, NOT_EQUAL, 0, inside, outside, builder.at))
        for block, body in ((inside, yes), (outside, no)):
            builder.enter(block)
            body()
            builder.close(Jump(after))
        builder.enter(after)


class Warp(Collective):
    """One method per opcode."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {
            "vote": self._vote,
            "match": self._match,
            "redux": self._redux,
            "activemask": self._activemask,
        }

    def _activemask(self, i: Instruction) -> None:
        self.builder.enter(self.builder.reserve())
        self.builder.blocks[self.builder.current].meets = (i.index,)
        self.finish(i, self.here(i), WORD)

    # --- votes ---------------------------------------------------------------------------------------

    def _vote(self, i: Instruction) -> None:
        mode = next(m for m in i.modifiers if m in ("all", "any", "uni", "ballot"))
        predicate, members = self.low(i.operands[1]), self.members(i, 2)
        self.meet(i, members)
        result = self.builder.temporary()
        vote = self._vote_as_one if self.as_one(i) and isinstance(members, int) else self._vote_alone
        self.grouped(members, lambda: vote(i, mode, predicate, result))
        self.finish(i, result, WORD if mode == "ballot" else PREDICATE)

    def _vote_as_one(self, i: Instruction, mode: str, predicate: Value, result: str) -> None:
        """The lanes on one side of a branch write the result for all, over what it is without them."""
        if mode == "ballot":
            self.once(result, Op.ADD)
            self.where(predicate, False, lambda: self.once(result, Op.MASK))
        elif mode in ("any", "all"):
            self.once(result, Op.ADD, addend=int(mode == "all"))
            other = int(mode == "any")
            self.where(predicate, mode == "all", lambda: self.once(result, Op.ADD, addend=other))
        else:
            ballot = self.builder.temporary()
            self._vote_as_one(i, "ballot", predicate, ballot)
            none, all_ = (self.op(Op.SET, ballot, whole, cond=Cond.EQ) for whole in (0, self.here(i)))
            self.op(Op.OR, none, all_, dst=result)

    def _vote_alone(self, i: Instruction, mode: str, predicate: Value, result: str) -> None:
        """Either side sees its own lanes; the others are those of all that are missing."""
        everyone = self.mask() if not isinstance(self.members(i, 2), int) else self.here(i)

        def side(holds: bool) -> None:
            match mode, holds:
                case ("any", True) | ("all", False):
                    self.builder.copy(result, int(mode == "any"))
                case ("ballot", True):
                    self.builder.copy(result, self.mask())
                case ("ballot", False):
                    self.op(Op.XOR, everyone, self.mask(), dst=result)
                case ("any", False):
                    self.op(Op.SET, self.mask(), everyone, cond=NOT_EQUAL, dst=result)
                case _:  # all where it holds, uni on either side: is nobody on the other one?
                    self.op(Op.SET, self.mask(), everyone, cond=Cond.EQ, dst=result)

        self.either(predicate, lambda: side(True), lambda: side(False))

    # --- matches -------------------------------------------------------------------------------------

    def _match(self, i: Instruction) -> None:
        (kind,) = types(i)
        destination = i.operands[0]
        found = destination.first if isinstance(destination, Pair) else destination
        words = list(self.wide(i.operands[1], kind)) if kind.bits == 64 else [self.low(i.operands[1])]
        members = self.members(i, 2)
        self.meet(i, members)
        if i.has("any"):
            self.write(found or _NOTHING, self._matching(words, members), WORD)
            return
        if self.as_one(i) and isinstance(members, int):
            same: Value = self._same(words)
            mask: Value = self.op(Op.MAD, same, self.here(i))
        else:
            everyone = self.op(Op.AND, self.here(i), members)
            matching = self._matching(words, members)
            same = self.op(Op.SET, matching, everyone, cond=Cond.EQ)
            mask = self.op(Op.SEL, matching, 0, same)
        self.write(found or _NOTHING, mask, WORD)
        if isinstance(destination, Pair) and destination.second is not None:
            self.write(destination.second, same, PREDICATE)

    def _matching(self, words: list[Value], members: Value) -> str:
        """The lanes of a lane's warp that hold the same value, and have the same member mask."""
        result = self.builder.temporary()
        keys = words if isinstance(members, int) else [members, *words]
        self.for_each(keys, lambda: self.builder.copy(result, self.mask()))
        return result

    def _same(self, words: list[Value]) -> str:
        """1 if all lanes hold the value of the first one, else 0: once for all."""
        result = self.once(self.builder.temporary(), Op.ADD, addend=1)
        for word in words:
            first = self.once(self.builder.temporary(), Op.ADD, word)
            differs = self.op(Op.SET, word, first, cond=NOT_EQUAL)
            self.where(differs, False, lambda: self.once(result, Op.ADD))
        return result

    # --- reductions ----------------------------------------------------------------------------------

    def _redux(self, i: Instruction) -> None:
        """An accumulator for each warp in memory, which its lanes change one after another."""
        op, cond, start = _REDUCTIONS[".".join(m for m in i.modifiers if m != "sync")]
        value, members = self.low(i.operands[1]), self.members(i, 2)
        self.meet(i, members)
        place = self.op(Op.ADD, self.lanes.warp, scale=2)
        offset = self.operands.geometry.scratch
        result = self.builder.temporary()

        def reduce() -> None:
            self.builder.emit(Operation(Op.ST, None, place, start, addend=offset))
            if op is Op.ADD:
                self.builder.modify(op, place, offset, c=value)
            else:
                self.builder.modify(op, place, offset, b=value, cond=cond)
            self.builder.emit(Operation(Op.LD, result, place, addend=offset))

        self.grouped(members, reduce)
        self.finish(i, result, WORD)


_NOTHING: Operand = Pair(None, None)

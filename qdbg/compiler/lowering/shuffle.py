"""Selection for shfl: PTX ISA 9.7.9, shfl.sync.

The lane that each lane reads is a vector of its own, which nothing changes where the operands are constants:
then it is computed once, in front of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import LANE, MASK, Value
from qdbg.compiler.lowering.warp import PREDICATE, WORD, Collective
from qdbg.compiler.machine.config import WARP
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Instruction, Pair

_Compute = Callable[..., Value]
_MODES = ("up", "down", "bfly", "idx")
_LOW = WARP - 1
_AT_LEAST = Cond.GT | Cond.EQ | Cond.SIGNED
_AT_MOST = Cond.LT | Cond.EQ | Cond.SIGNED


class Shuffle(Collective):
    """Reading other lanes' registers.  A lane whose source is not there keeps its own value."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"shfl": self._shfl}

    def _shfl(self, i: Instruction) -> None:
        destination, a, b, c = i.operands[:4]
        mode = next(m for m in i.modifiers if m in _MODES)
        value, offset, bounds = self.low(a), self.low(b), self.low(c)
        self.meet(i, self.members(i, 4))
        if isinstance(offset, int) and isinstance(bounds, int):
            source, in_range, absent = self._fixed(mode, offset, bounds)
        else:
            source, in_range = self._lanes(self.op, mode, offset, bounds)
            source, absent = self.op(Op.SEL, source, LANE, in_range), True
        if i.index not in self.together:
            here = self.op(Op.SHRU, self.mask(), self.op(Op.AND, source, _LOW))
            source = self.op(Op.SEL, source, LANE, here)
        elif absent and self.lanes.geometry.threads % WARP:
            source = self._if_existing(self.op, source)
        result = self.op(Op.SHFL, value, source)
        pair = destination if isinstance(destination, Pair) else Pair(None, None)
        found = pair.first if isinstance(destination, Pair) else destination
        self.write(found or Pair(None, None), result, WORD)
        if pair.second is not None:
            self.write(pair.second, in_range, PREDICATE)

    def _fixed(self, mode: str, offset: int, bounds: int) -> tuple[Value, Value, bool]:
        """Source lanes for constant operands, which of them are in range, and whether one does not exist."""
        threads = self.lanes.geometry.threads
        made = [source_lane(mode, lane, offset, bounds) for lane in range(threads)]
        source, in_range = self._lanes(self.lanes.op, mode, offset, bounds)
        if all(ok for _, ok in made):
            in_range = 1
        else:
            source = self.lanes.op(Op.SEL, source, LANE, in_range)
        if any(ok and lane >= threads for lane, ok in made):
            return source, in_range, True
        return source, in_range, False

    def _if_existing(self, op: _Compute, source: Value) -> Value:
        """The source lane where the block has it, else the lane itself."""
        return op(Op.SEL, source, LANE, op(Op.SET, source, self.lanes.geometry.threads, cond=Cond.LT))

    def _lanes(
        self, op: Callable[..., Value], mode: str, offset: Value, bounds: Value
    ) -> tuple[Value, Value]:
        """The lane's source as PTX computes it, and whether that is in range; numbers count in the block."""
        low = op(Op.AND, offset, _LOW)
        if isinstance(bounds, int):
            segment = bounds >> 8 & _LOW
            inside: Value = ~segment & _LOW
            base = op(Op.AND, LANE, segment | ~_LOW & MASK)
            last = op(Op.ADD, base, addend=bounds & _LOW & ~segment)
        else:
            held = op(Op.AND, op(Op.SHRU, bounds, 8), _LOW)
            inside = op(Op.XOR, held, _LOW)
            base = op(Op.AND, LANE, op(Op.OR, held, ~_LOW & MASK))
            last = op(Op.ADD, base, c=op(Op.AND, bounds, inside))
        match mode:
            case "up":
                source = op(Op.SUB, low, c=LANE)
                return source, op(Op.SET, source, last, cond=_AT_LEAST)
            case "down":
                source = op(Op.ADD, low, c=LANE)
            case "bfly":
                source = op(Op.XOR, LANE, low)
            case _:
                source = op(Op.ADD, base, c=op(Op.AND, low, inside))
        return source, op(Op.SET, source, last, cond=_AT_MOST)


def source_lane(mode: str, lane: int, offset: int, bounds: int) -> tuple[int, bool]:
    """The lane of the block that a lane reads, and whether it is in range, for constant operands.

    As PTX ISA 9.7.9, shfl.sync, computes `j` and `p`.
    """
    offset, clamp, segment = offset & _LOW, bounds & _LOW, bounds >> 8 & _LOW
    first, own = lane & ~_LOW, lane & _LOW
    last = own & segment | clamp & ~segment
    match mode:
        case "up":
            return first + own - offset, own - offset >= last
        case "down":
            source = own + offset
        case "bfly":
            source = own ^ offset
        case _:
            source = own & segment | offset & ~segment
    return first + source, source <= last

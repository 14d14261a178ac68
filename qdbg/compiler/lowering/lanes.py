"""Values that depend on nothing but the lane's number: thread indices, lane masks, lanes of its warp.

They are computed once, in front of everything else, and only those that somebody reads.
"""

from __future__ import annotations

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import LANE, MASK, Geometry, Operation, Value
from qdbg.compiler.machine.config import WARP
from qdbg.compiler.machine.isa import Op

#: (operation, operand, addend) that makes a lane's mask of its number n within the warp.
_MASKS: dict[str, tuple[Op, int, int]] = {
    "%lanemask_eq": (Op.SHL, 1, 0),
    "%lanemask_lt": (Op.SHL, 1, MASK),
    "%lanemask_le": (Op.SHL, 2, MASK),
    "%lanemask_gt": (Op.SHL, MASK - 1, 0),
    "%lanemask_ge": (Op.SHL, MASK, 0),
}


class Lanes:
    """The lanes of a block of this geometry; what needs computing goes to the start of the program."""

    def __init__(self, builder: Builder, geometry: Geometry):
        self.builder, self.geometry = builder, geometry
        self._known: dict[Operation, str] = {}

    @property
    def one_warp(self) -> bool:
        """Whether the block has a single warp."""
        return self.geometry.threads <= WARP

    def op(self, op: Op, a: Value, b: Value = 0, c: Value = 0, **more: int) -> str:
        """The register with an operation's result, for operands that are values of this class."""
        key = Operation(op, None, a, b, c, **more)  # type: ignore[arg-type]
        if key not in self._known:
            self._known[key] = self.builder.in_front(key)
        return self._known[key]

    @property
    def number(self) -> Value:
        """%laneid."""
        return LANE if self.one_warp else self.op(Op.AND, LANE, WARP - 1)

    @property
    def warp(self) -> Value:
        """%warpid."""
        return 0 if self.one_warp else self.op(Op.SHRU, LANE, WARP.bit_length() - 1)

    @property
    def first(self) -> Value:
        """The number of the warp's first lane."""
        return 0 if self.one_warp else self.op(Op.AND, LANE, -WARP & MASK)

    @property
    def existing(self) -> Value:
        """The lanes of the warp that exist, as a mask."""
        if self.one_warp:
            return (1 << self.geometry.threads) - 1
        return MASK if self.geometry.threads % WARP == 0 else self.op(Op.MASK, LANE)

    def special(self, name: str) -> Value | None:
        """A special register of PTX that depends on lane and geometry; None for any other (PTX ISA 10).

        There is one multiprocessor, and one grid.
        """
        match name:
            case "%laneid":
                return self.number
            case "%warpid":
                return self.warp
            case "%nwarpid":
                return -(-self.geometry.threads // WARP)
            case "WARP_SZ":
                return WARP
            case "%smid" | "%gridid":
                return 0
            case "%nsmid":
                return 1
            case "%total_smem_size":
                return self.geometry.shared_bytes
            case "%dynamic_smem_size":
                return self.geometry.dynamic_bytes
        if name not in _MASKS:
            return None
        op, operand, addend = _MASKS[name]
        shifted = self.op(op, operand, self.number)
        return self.op(Op.ADD, shifted, addend=addend) if addend else shifted

    def thread_index(self, axis: str) -> Value:
        """%tid along an axis; threads are counted along x first.

        The quotient of n < 128 by d <= 128 is n * ceil(2^32 / d) >> 32, exactly.
        """
        size = dict(zip("xyz", self.geometry.block, strict=True))
        if size[axis] == 1:
            return 0
        rest: Value = LANE
        for outer, inner in (("z", size["x"] * size["y"]), ("y", size["x"])):
            if size[outer] == 1 or inner == 1:
                if axis == outer:
                    return rest
                continue
            index = self._quotient(rest, inner)
            if axis == outer:
                return index
            if inner & (inner - 1) == 0:
                rest = self.op(Op.AND, rest, inner - 1)
            else:
                rest = self.op(Op.MAD, index, -inner & MASK, rest)
        return rest

    def _quotient(self, n: Value, d: int) -> Value:
        if d & (d - 1) == 0:
            return self.op(Op.SHRU, n, d.bit_length() - 1)
        return self.op(Op.MADH, n, -(-(1 << 32) // d))

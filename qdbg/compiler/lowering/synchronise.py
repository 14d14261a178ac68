"""Selection for barriers of a block: PTX ISA 9.7.13, bar and barrier.

All warps share the program counter, so a barrier for the whole block is a place in the layout that lanes
reach together: `barriers` sees to it.  One that counts threads has a counter in memory, and who is early
waits in a loop.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.lowering.ir import Branch, Operation, Value
from qdbg.compiler.lowering.types import Unsupported
from qdbg.compiler.lowering.warp import NOT_EQUAL, PREDICATE, WORD, Collective
from qdbg.compiler.machine.config import WARP
from qdbg.compiler.machine.isa import Cond, Op
from qdbg.compiler.ptx.ir import Immediate, Instruction, Operand, Register

BARRIERS = 16  #: of a block


class Synchronise(Collective):
    """bar.sync, bar.red, bar.arrive and bar.warp.sync, and their `barrier` forms."""

    @property
    def selectors(self) -> dict[str, Callable[[Instruction], None]]:
        """PTX opcode -> method."""
        return {"bar": self._bar, "barrier": self._bar}

    def _bar(self, i: Instruction) -> None:
        if i.has("warp"):  # memory is in order, so that only a loop that waits can tell
            self.meet(i, self.low(i.operands[0]))
        elif i.has("red"):
            self._reduce(i)
        elif i.has("sync", "arrive"):
            threads = self._count(i, i.operands)
            if threads is None:
                self._whole(i)
            else:
                self._counted(i, threads)
        else:
            raise Unsupported

    def _whole(self, i: Instruction) -> None:
        """It starts a block of its own: who waits elsewhere is known there."""
        self.builder.enter(self.builder.reserve())
        self.builder.blocks[self.builder.current].barrier = i.index

    def _count(self, i: Instruction, operands: tuple[Operand, ...]) -> int | None:
        """The threads that a barrier waits for; None where these are all threads of the block.

        Raises Unsupported where the number is not known, or where a warp that is not full counts whole.
        """
        if len(operands) == 1 and not i.has("arrive"):
            return None
        count = operands[1]
        known = self.operands.value(count) if isinstance(count, Immediate | Register) else None
        if not isinstance(known, int):
            raise Unsupported("a barrier whose number of threads is known only when it runs")
        if known % WARP or not known:
            raise Unsupported(f"a barrier of {known} threads, which is no multiple of {WARP}")
        block = self.lanes.geometry.threads
        if known == -(-block // WARP) * WARP and not self.operands.arrives:
            return None
        if block % WARP:
            raise Unsupported(f"a barrier of {known} threads in a block whose last warp is not full")
        return known

    # --- reductions ----------------------------------------------------------------------------------

    def _reduce(self, i: Instruction) -> None:
        """The lanes whose predicate holds write for all, whom the barrier has brought together."""
        if self._count(i, i.operands[1:-1]) is not None:
            raise Unsupported
        predicate = self.low(i.operands[-1])
        self._whole(i)
        if i.has("popc"):
            return self.finish(i, self._number(predicate), WORD)
        result = self.once(self.builder.temporary(), Op.ADD, addend=int(i.has("and")))
        self.where(predicate, i.has("and"), lambda: self.once(result, Op.ADD, addend=int(i.has("or"))))
        # A lane on its way out may look at its result when others have come to the barrier again.
        return self.finish(i, self.op(Op.SET, result, 0, cond=NOT_EQUAL), PREDICATE)

    def _number(self, predicate: Value) -> Value:
        """For how many lanes of the block the predicate holds."""
        warps = range(-(-self.lanes.geometry.threads // WARP))
        masks = [self.once(self.builder.temporary(), Op.ADD) for _ in warps]

        def note() -> None:
            for warp, mask in enumerate(masks):
                self.builder.emit(Operation(Op.MASK, mask, scale=warp, once=True))

        self.where(predicate, False, note)
        total: Value = 0
        for mask in masks:
            total = self.op(Op.ADD, self.op(Op.POPC, mask), c=total)
        return total

    # --- barriers that count -------------------------------------------------------------------------

    def _counted(self, i: Instruction, threads: int) -> None:
        """Arrivals have numbers; who waits waits for the last of its group of so many."""
        builder = self.builder
        counter = self._counter(i)
        number = builder.modify(Op.ADD, 0, counter, c=1)
        if i.has("arrive"):
            return
        group = self.op(Op.MADH, number, -(-(1 << 32) // threads))  # exact below 2^32 / threads
        goal = self.op(Op.MAD, group, threads, addend=threads)
        spin, after = builder.reserve(), builder.reserve()
        builder.enter(spin)
        arrived = builder.temporary()
        builder.emit(Operation(Op.LD, arrived, 0, addend=counter, volatile=True))
        builder.close(Branch(arrived, Cond.LT, goal, spin, after, builder.at))
        builder.enter(after)

    def _counter(self, i: Instruction) -> int:
        """The address of the barrier's counter.  Raises Unsupported if it counts to several numbers."""
        ident = self.operands.value(i.operands[0])
        same = [
            other.operands[1]
            for other in self.operands.kernel.body
            if other.opcode in ("bar", "barrier") and len(other.operands) == 2 and not other.has("red")
            and other.operands[0] == i.operands[0]
        ]  # fmt: skip
        if not isinstance(ident, int) or ident >= BARRIERS:
            raise Unsupported("a barrier whose number is known only when it runs")
        if any(count != i.operands[1] for count in same):
            raise Unsupported(f"barrier {ident} for different numbers of threads")
        warps = -(-self.lanes.geometry.threads // WARP)
        return self.lanes.geometry.scratch + 4 * (warps + ident)

"""The arithmetic circuits against exact integers: every operation, random and corner operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.schedule import Schedule, schedule
from qdbg.compiler.hardware.signals import Signal
from qdbg.compiler.hardware.simulate import Simulator
from qdbg.compiler.machine.execute import Execution, execute
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.isa import NEVER, Cond, Op
from qdbg.compiler.machine.operands import Operands

MASK = 0xFFFFFFFF
CORNERS = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 0xFF, 0x8000, 0xFFFF, 0x10000, 0x55555555, 0x92492492,
           0x24924924, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, MASK]  # fmt: skip


@cache
def bench() -> tuple[Netlist, Schedule, Execution, Operands, Fetch]:
    """The ALU alone, its inputs free."""
    net = Netlist()
    bus = Operands(*(net.bus(name, 32) for name in "abcde"))
    op = {o: net.signal(o.name) for o in Op}
    condition = net.bus("condition", 4)
    net.embeddings[0] = dict.fromkeys(net.signals.values(), 0)
    free = net.signal("unused")
    fetched = Fetch(free, [], {}, free, {"cond": condition}, [], op, free, free, [], [])
    unit = execute(net, fetched, bus)
    form = unit.holds + sum((1 * bit for bit in [*unit.result, *unit.word, *unit.low]), 0 * unit.holds)
    net.logits[0] = form
    return net, schedule(net, 1), unit, bus, fetched


def operands(count: int, width: int) -> NDArray[np.uint64]:
    """`width` columns of operands: all pairs of corners, then random ones of every magnitude."""
    rng = np.random.default_rng(7)
    pairs = np.array(np.meshgrid(CORNERS, CORNERS)).reshape(2, -1).T
    corners = np.concatenate([pairs, rng.choice(CORNERS, (len(pairs), width - 2))], axis=1)
    random = rng.integers(0, 1 << 32, (count, width)) >> rng.integers(0, 32, (count, width))
    flipped = random ^ np.where(rng.integers(0, 2, (count, width)), MASK, 0)
    near = random.copy()  # differs from the first operand in one bit: comparisons, long carries
    near[:, 1] = near[:, 0] ^ (1 << rng.integers(0, 32, count))
    return np.concatenate([corners, random, flipped, near]).astype(np.uint64)


def run(op: Op, values: dict[str, NDArray[np.uint64]], condition: Cond = NEVER) -> NDArray[np.uint64]:
    """result, product and holds as columns."""
    net, layout, unit, bus, fetched = bench()
    count = len(next(iter(values.values())))
    simulator = Simulator(net, layout, count)
    start = np.zeros((count, len(net.signals)), np.float32)

    def put(bits: list[Signal], content: NDArray[np.uint64] | int) -> None:
        for i, bit in enumerate(bits):
            start[:, bit.index] = np.uint64(content) >> np.uint64(i) & np.uint64(1)

    for name, content in values.items():
        put(getattr(bus, name), content)
    put(fetched.field["cond"], int(condition))
    start[:, fetched.op[op].index] = 1
    simulator.settle(start)
    columns = [simulator.number(unit.result), simulator.number(unit.word), simulator.number([unit.holds])]
    return np.stack(columns, 1).astype(np.uint64)


def signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


EXACT: dict[Op, Callable[[int, int, int, int], int]] = {
    Op.MAD: lambda a, b, c, e: a * b + c + e,
    Op.AND: lambda a, b, c, e: a & b,
    Op.OR: lambda a, b, c, e: a | b,
    Op.XOR: lambda a, b, c, e: a ^ b,
    Op.SHL: lambda a, b, c, e: a << b if b < 32 else 0,
    Op.SHRU: lambda a, b, c, e: a >> b if b < 32 else 0,
    Op.SHRS: lambda a, b, c, e: signed(a) >> min(b, 31),
    Op.SEL: lambda a, b, c, e: a if c & 1 else b,
    Op.SX8: lambda a, b, c, e: (a & 0xFF) - (256 if a & 0x80 else 0),
    Op.SX16: lambda a, b, c, e: (a & 0xFFFF) - (65536 if a & 0x8000 else 0),
    Op.MADH: lambda a, b, c, e: a * b + c + e >> 32,
    Op.MADS: lambda a, b, c, e: signed(a) * signed(b) + c + e >> 32,
    Op.POPC: lambda a, b, c, e: bin(a).count("1"),
    Op.CLZ: lambda a, b, c, e: len(f"{a:032b}") - len(f"{a:032b}".lstrip("0")),
    Op.BREV: lambda a, b, c, e: sum(1 << 31 - i for i in range(32) if a >> i & 1),
    Op.SHFL: lambda a, b, c, e: a,
}


@pytest.mark.parametrize("op", EXACT)
def test_operation(op: Op) -> None:
    table = operands(3000, 4)
    result = run(op, dict(zip("abce", table.T, strict=True)))[:, 0]
    wanted = [EXACT[op](*map(int, row)) & MASK for row in table]
    np.testing.assert_array_equal(result, np.array(wanted, np.uint64))


def test_shifts_by_every_amount() -> None:
    amounts = np.repeat(np.array([*range(66), 1 << 8, 1 << 20, MASK], np.uint64), 40)
    values = operands(1000, 2)[: len(amounts), 0]
    for op in (Op.SHL, Op.SHRU, Op.SHRS):
        result = run(op, {"a": values, "b": amounts})[:, 0]
        wanted = [EXACT[op](int(a), int(b), 0, 0) & MASK for a, b in zip(values, amounts, strict=True)]
        np.testing.assert_array_equal(result, np.array(wanted, np.uint64))


@pytest.mark.parametrize("bits", range(16))
def test_conditions(bits: int) -> None:
    condition = Cond(bits)
    table = operands(1500, 2)
    a, b = table.T
    left, right = (np.array([signed(int(v)) for v in x]) if condition & Cond.SIGNED else x for x in (a, b))
    wanted = np.zeros(len(table), bool)
    for flag, holds in ((Cond.LT, left < right), (Cond.EQ, left == right), (Cond.GT, left > right)):
        if condition & flag:
            wanted |= holds
    for op in (Op.SET, Op.CBR, Op.UBR):
        np.testing.assert_array_equal(run(op, {"a": a, "b": b}, condition)[:, 2], wanted)
    np.testing.assert_array_equal(run(Op.SET, {"a": a, "b": b}, condition)[:, 0], wanted)
    chosen = run(Op.CHOOSE, {"a": a, "b": b, "c": a ^ MASK}, condition)[:, 0]
    np.testing.assert_array_equal(chosen, np.where(wanted, a ^ MASK, a))
    picked = run(Op.PICK, {"a": a, "b": b}, condition)[:, 0]
    np.testing.assert_array_equal(picked, np.where(wanted, a, b))


def test_idle_operations_leave_the_result_alone() -> None:
    table = operands(500, 4)
    for op in (Op.NOP, Op.LD, Op.ST, Op.BR, Op.CLR, Op.HALT, Op.TRAP):
        assert not run(op, dict(zip("abce", table.T, strict=True)))[:, 0].any()

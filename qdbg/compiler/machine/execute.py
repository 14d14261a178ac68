"""The arithmetic and logic circuits: from operands to the result bus, the address and the condition."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.netlist import Netlist, scale
from qdbg.compiler.hardware.signals import Linear, Signal, equals, total
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.isa import CONDITION_OPS, Op
from qdbg.compiler.machine.multiply import multiply_add
from qdbg.compiler.machine.operands import Operands

#: Bit groups of a comparison; the sign bit stands alone, for its order depends on signedness.
GROUPS = [(0, 6), (6, 12), (12, 18), (18, 25), (25, 31)]
#: The level at which the shifter's last stage runs for either direction: where the multiplier leaves room.
LAST_LEVEL = {"left": 7, "right": 8}


@dataclass
class Execution:
    """result: of the instruction (loads add theirs later); logic: it, where it is not made from
    A*B + C + E; word: the low word of that sum, also the address; low: the lowest bits of `word`, a level
    earlier; sums: the result is `word`; holds: the condition of a comparison."""

    result: list[Signal]
    logic: list[Signal]
    word: list[Signal]
    low: list[Signal]
    sums: Linear
    holds: Signal


def execute(net: Netlist, fetched: Fetch, bus: Operands) -> Execution:
    """Every unit works in every pass; the operation code lets one drive the result."""
    op = fetched.op
    result, logic = net.bus("result", 32), net.bus("logic", 32)
    product = multiply_add(net, bus.a, bus.b, [bus.c, bus.e], op[Op.MADS])
    sums, high = op[Op.MAD] + op[Op.ADD] + op[Op.SUB], op[Op.MADH] + op[Op.MADS] + op[Op.ADDH]
    for bit in range(32):
        net.drive(result[bit], net.copy(logic[bit]))
        net.drive(result[bit], net.all_of([sums, product.word[bit]]))
        net.drive(result[bit], net.all_of([high, product.high[bit]]))
    _logic(net, op, bus, logic)
    _shift(net, op, bus, logic)
    _count(net, op, bus, logic)
    holds = _compare(net, fetched, bus)
    net.drive(logic[0], net.all_of([op[Op.SET], holds]))
    for target, a, b, c in zip(logic, bus.a, bus.b, bus.c, strict=True):
        net.drive(target, net.all_of([op[Op.PICK], holds, a]))
        net.drive(target, net.all_of([op[Op.PICK], ~holds, b]))
        net.drive(target, net.all_of([op[Op.CHOOSE], holds, c]))
        net.drive(target, net.all_of([op[Op.CHOOSE], ~holds, a]))
    return Execution(result, logic, product.word, product.low, sums, holds)


def _logic(net: Netlist, op: dict[Op, Signal], bus: Operands, result: list[Signal]) -> None:
    """Bitwise operations, selection by a predicate, sign extension, A of another lane."""
    predicate = bus.c[0]
    for target, a, b in zip(result, bus.a, bus.b, strict=True):
        net.drive(target, net.all_of([op[Op.AND] + op[Op.OR], a, b]))
        net.drive(target, net.all_of([op[Op.OR] + op[Op.XOR], a, ~b]))
        net.drive(target, net.all_of([op[Op.OR] + op[Op.XOR], ~a, b]))
        net.drive(target, net.all_of([op[Op.SHFL], a]))
        net.drive(target, net.all_of([op[Op.SEL], predicate, a]))
        net.drive(target, net.all_of([op[Op.SEL], ~predicate, b]))
    for operation, width in ((op[Op.SX8], 8), (op[Op.SX16], 16)):
        for bit in range(width - 1):
            net.drive(result[bit], net.all_of([operation, bus.a[bit]]))
        net.drive(dict.fromkeys(result[width - 1 :], 1), net.all_of([operation, bus.a[width - 1]]))


def _count(net: Netlist, op: dict[Op, Signal], bus: Operands, result: list[Signal]) -> None:
    """Ones, leading zeros, and the order of bits turned round."""
    ones = total(bus.a)
    for position in range(6):
        digit = net.function(ones, 0, 32, lambda count, position=position: count >> position & 1)  # type: ignore[misc]
        net.drive(result[position], net.all_of([op[Op.POPC], net.define(f"count.ones[{position}]", digit)]))
    for top in range(-1, 32):
        highest = [bus.a[top]] if top >= 0 else []
        found = net.all_of([op[Op.CLZ], *highest, *(~bit for bit in bus.a[top + 1 :])])
        net.drive({result[i]: 31 - top >> i & 1 for i in range(6)}, found)
    for bit in range(32):
        net.drive(result[bit], net.all_of([op[Op.BREV], bus.a[31 - bit]]))


def _shift(net: Netlist, op: dict[Op, Signal], bus: Operands, result: list[Signal]) -> None:
    """A barrel shifter in two stages, by 0..7 and by multiples of 8; from 32 on nothing is left but
    the sign of an arithmetic shift."""
    amount = bus.b
    in_range = [~bit for bit in amount[5:]]
    fill = net.define("shift.fill", net.all_of([op[Op.SHRS], bus.a[31]]))
    up_to_63 = net.copy(total(amount[i] * (1 << i) for i in range(5)))
    up_to_63 = up_to_63 + scale(net.step(total(amount[5:]), 1), 32)
    clamped = net.define("shift.amount", up_to_63, 0, 63)
    small = [net.define(f"shift.small[{n}]", net.all_of(equals(amount[:3], n))) for n in range(8)]
    for way, when, step in (("left", op[Op.SHL], -1), ("right", op[Op.SHRU] + op[Op.SHRS], 1)):
        stage = []
        for bit in range(32):
            sources = {n: bit + step * n for n in range(8) if 0 <= bit + step * n < 32}
            terms = [t for n, source in sources.items() for t in net.all_of([small[n], bus.a[source]])]
            stage.append(net.define(f"shift.{way}.stage[{bit}]", terms))
        for n in range(4):
            eights = net.define(f"shift.{way}[{n}]", net.all_of([when, *equals(amount[3:5], n), *in_range]))
            for bit in range(32):
                if 0 <= bit + 8 * step * n < 32:
                    shifted = net.all_of([eights, stage[bit + 8 * step * n]], not_before=LAST_LEVEL[way])
                    net.drive(result[bit], shifted)
    for bit in range(32):
        net.drive(result[bit], net.step(clamped, 32 - bit, fill))


def _compare(net: Netlist, fetched: Fetch, bus: Operands) -> Signal:
    """Whether A cond B: the highest group that differs decides."""
    less, equal, greater, signed = fetched.field["cond"]
    above, below = [], []
    for group, (low, high) in enumerate(GROUPS):
        difference = total((bus.a[i] - bus.b[i]) * (1 << i - low) for i in range(low, high))
        above.append(net.define(f"compare.above[{group}]", net.step(difference, 1)))
        below.append(net.define(f"compare.below[{group}]", net.step(-difference, 1)))
    top = bus.a[31] - bus.b[31]
    above.append(net.define("compare.above.sign", net.ramp(top - signed) + net.ramp(signed - top - 1)))
    below.append(net.define("compare.below.sign", net.ramp(-top - signed) + net.ramp(top + signed - 1)))
    same = [1 - x - y for x, y in zip(above, below, strict=True)]
    asked = total(fetched.op[op] for op in CONDITION_OPS)
    holds = net.signal("compare.holds")
    for group in range(len(same)):
        for wanted, side in ((less, below), (greater, above)):
            net.drive(holds, net.all_of([asked, wanted, side[group], *same[group + 1 :]]))
    net.drive(holds, net.all_of([asked, equal, *same]))
    return holds

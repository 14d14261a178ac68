"""Registers and the operand buses.

A bus is the sum of what may drive it: a vector register, a uniform register, the immediate, the lane
number.  The instruction's fields let at most one of them be other than 0.

The vector registers exist three times, a copy a port.  Port B answers first: it may say which lane's
register port A reads (SHFL), and it holds the data of a store, whose B is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qdbg.compiler.hardware.heads import HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Signal, equals, total
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import Inputs
from qdbg.compiler.machine.isa import ADDRESS_OPS, LANE_INDEX, Op
from qdbg.compiler.machine.lanes import Lanes, OneLane, lane_bits
from qdbg.compiler.machine.vocabulary import Device, Kind

UNIFORM_FLAG = 7
#: The ports in the order in which they answer; each is named after the field that selects its register.
PORTS = ("b", "a", "c")
#: A register's number as two digits, of which the low one counts to 8.
LOW = 8


@dataclass
class Operands:
    """32-bit buses: the operands, the addend E, and D: the data of a store (which memory completes), or what
    LDA adds."""

    a: list[Signal]
    b: list[Signal]
    c: list[Signal]
    d: list[Signal]
    e: list[Signal]


def operands(net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, chosen: Lanes) -> Operands:
    """Read the registers of this pass, after writing the result that the token completes."""
    bus = Operands(*(net.bus(f"bus.{name}", 32) for name in "abcde"))
    second = net.bus("port.b", 32)
    buses = {"a": bus.a, "b": second, "c": bus.c}
    _uniform_registers(net, config, tokens, fetched, buses)
    lane_of_a = _second_operand(net, config, fetched, chosen, second, bus)
    _vector_registers(net, config, tokens, fetched, chosen, lane_of_a, buses)
    for name, target in (("a", bus.a), ("c", bus.c)):
        wanted = equals(fetched.field[name], LANE_INDEX.code)
        for bit, number in enumerate(chosen.number):
            net.drive(target[bit], net.all_of([*wanted, number]))
    return bus


def _second_operand(
    net: Netlist, config: MachineConfig, fetched: Fetch, chosen: Lanes, port: list[Signal], bus: Operands
) -> OneLane:
    """What port B and the immediate mean: operand B, the data of a store, a lane.

    Returns the lane whose registers port A reads.
    """
    op, is_b = fetched.op, fetched.field["immb"][0]
    for bit, source in enumerate(fetched.immediate):
        net.drive(port[bit], net.all_of([is_b, source]))
        net.drive(bus.e[bit], net.all_of([~is_b, source]))
    own = total(op[o] for o in (*ADDRESS_OPS, Op.SUB))
    plain = net.define("operand.b.plain", net.all_of([~own]))
    number = net.define("operand.b.lane", net.all_of(equals(fetched.field["b"], LANE_INDEX.code)))
    for bit in range(32):
        for target, when in ((bus.b[bit], plain), (bus.d[bit], op[Op.ST] + op[Op.LDA])):
            net.drive(target, net.all_of([when, port[bit]]))
            if bit < len(chosen.number):
                net.drive(target, net.all_of([when, number, chosen.number[bit]]))
    sums = total(op[o] for o in ADDRESS_OPS)
    for amount in range(4):  # A << scale is A times a power of two
        net.drive(bus.b[amount], net.all_of([sums, *equals(fetched.field["scale"], amount)]))
    net.drive(dict.fromkeys(bus.b, 1), net.copy(op[Op.SUB]))  # times -1
    shuffle = op[Op.SHFL]
    lane = OneLane(
        *(net.bus(f"operand.a.lane.{name}", len(digits)) for name, digits in vars(chosen.run).items())
    )
    low_bits = (len(lane.low) - 1).bit_length()
    for digits, own_digits, bits in (
        (lane.low, chosen.run.low, port[:low_bits]),
        (lane.high, chosen.run.high, port[low_bits : lane_bits(config)]),
    ):
        for value, (target, same) in enumerate(zip(digits, own_digits, strict=True)):
            net.drive(target, net.all_of([~shuffle, same]))
            net.drive(target, net.all_of([shuffle, *equals(bits, value)]))
    return lane


def _uniform_registers(
    net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, buses: dict[str, list[Signal]]
) -> None:
    """A row a register, a copy a port; written by a LAST token, or loaded by the prompt."""
    last = tokens.kind[Kind.LAST]
    before = fetched.field["before"]
    width = (config.uniforms - 1).bit_length()
    address = net.bus("uniform.address", width)
    for bit in range(width):
        net.drive(address[bit], net.all_of([last, before[bit]]))
        net.drive(address[bit], net.all_of([fetched.loads[Device.UNIFORM], fetched.word[bit]]))
    enable = net.define("uniform.write", net.all_of([last, before[UNIFORM_FLAG]]))
    net.drive(enable, net.copy(fetched.loads[Device.UNIFORM]))
    for port in PORTS:
        select = fetched.field[port]
        for first in range(0, config.uniforms, HEAD_SIZE):
            places = {row: first + row for row in range(HEAD_SIZE)}
            net.head(
                Head(
                    f"uniform.{port}{first // HEAD_SIZE}",
                    write={row: equals(address, r) for row, r in places.items()},
                    read={row: equals(select, r | 1 << UNIFORM_FLAG) for row, r in places.items()},
                    data={b: Data((tokens.value[b],)) for b in range(32)},
                    out={b: {buses[port][b]: 1} for b in range(32)},
                    enable=enable,
                )
            )


def _vector_registers(
    net: Netlist,
    config: MachineConfig,
    tokens: Inputs,
    fetched: Fetch,
    chosen: Lanes,
    lane_of_a: OneLane,
    buses: dict[str, list[Signal]],
) -> None:
    """A row for every lane and register, lanes major, a copy a port."""
    result, last = tokens.kind[Kind.RESULT], tokens.kind[Kind.LAST] + tokens.kind[Kind.OLD]
    destination = net.bus("vector.destination", 8)
    for bit in range(8):
        net.drive(destination[bit], net.all_of([result, fetched.field["dst"][bit]]))
        net.drive(destination[bit], net.all_of([last, fetched.field["before"][bit]]))
    target = _digits(net, "vector.destination", destination)
    for port in PORTS:
        selected = _digits(net, f"vector.{port}.select", fetched.field[port])
        source = lane_of_a if port == "a" else chosen.run
        for first in range(0, config.lanes * config.registers, HEAD_SIZE):
            places = {row: divmod(first + row, config.registers) for row in range(HEAD_SIZE)}
            net.head(
                Head(
                    f"vector.{port}{first // HEAD_SIZE}",
                    write={row: (*chosen.write.digits(k), *target(r)) for row, (k, r) in places.items()},
                    read={row: (*source.digits(k), *selected(r)) for row, (k, r) in places.items()},
                    data={b: Data((tokens.value[b],)) for b in range(32)},
                    out={b: {buses[port][b]: 1} for b in range(32)},
                    enable=result + last,
                )
            )


def _digits(net: Netlist, name: str, field: list[Signal]) -> Callable[[int], list[Signal]]:
    """A vector register's number as one-hot digits; none is set where the field names something else."""
    low = [net.define(f"{name}.low{n}", net.all_of(equals(field[:3], n))) for n in range(LOW)]
    high = [net.define(f"{name}.high{n}", net.all_of(equals(field[3:], n))) for n in range(32 // LOW)]
    return lambda register: [high[register // LOW], low[register % LOW]]

"""Registers and the operand buses A, B, C, D.

A bus is the sum of what may drive it: a vector register, a uniform register, the immediate, the lane
number.  The instruction's fields let at most one of them be other than 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Signal, equals, total
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import Inputs
from qdbg.compiler.machine.isa import ADDRESS_OPS, LANE_INDEX, Op
from qdbg.compiler.machine.lanes import OFF, Lanes
from qdbg.compiler.machine.vocabulary import Device, Kind

UNIFORM_FLAG = 7
#: Field of the instruction word that names each bus's register.
PORTS = {"a": "a", "b": "b", "c": "c", "d": "dst"}


@dataclass
class Operands:
    """32-bit buses: the operands, the addend E, and the data to store D."""

    a: list[Signal]
    b: list[Signal]
    c: list[Signal]
    d: list[Signal]
    e: list[Signal]


def operands(net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, chosen: Lanes) -> Operands:
    """Read the registers of this pass, after writing the result that the token completes."""
    buses = {port: net.bus(f"bus.{port}", 32) for port in PORTS}
    _uniform_registers(net, config, tokens, fetched, buses)
    _vector_registers(net, config, tokens, fetched, chosen, buses)
    _lane_numbers(net, fetched, chosen, buses)
    addend = net.bus("bus.e", 32)
    is_b = fetched.field["immb"][0]
    for bit, source in enumerate(fetched.immediate):
        net.drive(buses["b"][bit], net.all_of([is_b, source]))
        net.drive(addend[bit], net.all_of([~is_b, source]))
    for op in ADDRESS_OPS:  # A << scale is A times a power of two
        for amount in range(4):
            literals = [*equals(fetched.field["op"], op), *equals(fetched.field["scale"], amount)]
            net.drive(buses["b"][amount], net.all_of([*literals, fetched.run]))
    net.drive(dict.fromkeys(buses["b"], 1), net.all_of(equals(fetched.field["op"], Op.SUB)))  # times -1
    for bit, source in enumerate(tokens.value):
        loads = fetched.loads[Device.MEMORY] + fetched.loads[Device.VALID]
        net.drive(buses["d"][bit], net.all_of([loads, source]))
    return Operands(**buses, e=addend)


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
    for port, field in PORTS.items():
        select = fetched.field[field]
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
    buses: dict[str, list[Signal]],
) -> None:
    """A row for every lane and register, lanes major, a copy a port."""
    result, last = tokens.kind[Kind.RESULT], tokens.kind[Kind.LAST]
    destination = net.bus("vector.destination", 8)
    for bit in range(8):
        net.drive(destination[bit], net.all_of([result, fetched.field["dst"][bit]]))
        net.drive(destination[bit], net.all_of([last, fetched.field["before"][bit]]))
    for port, field in PORTS.items():
        select = fetched.field[field]
        for first in range(0, config.lanes * config.registers, HEAD_SIZE):
            places = {row: divmod(first + row, config.registers) for row in range(HEAD_SIZE)}
            net.head(
                Head(
                    f"vector.{port}{first // HEAD_SIZE}",
                    write={row: (chosen.write[k], *equals(destination, r)) for row, (k, r) in places.items()},
                    read={row: (chosen.run[k], *equals(select, r)) for row, (k, r) in places.items()},
                    data={b: Data((tokens.value[b],)) for b in range(32)},
                    out={b: {buses[port][b]: 1} for b in range(32)},
                    enable=result + last,
                )
            )


def _lane_numbers(net: Netlist, fetched: Fetch, chosen: Lanes, buses: dict[str, list[Signal]]) -> None:
    """The lane number as an operand.  A and B are wanted one level earlier than the running lane is
    known, so for them the lane is chosen once more, with the selection inside the gate."""
    count = len(chosen.run)
    for port in ("a", "b"):
        wanted = net.define(
            f"bus.{port}.is_lane", net.all_of(equals(fetched.field[PORTS[port]], LANE_INDEX.code))
        )
        for k in range(1, count):
            rank = total(chosen.active[:k]) - fetched.done_lanes
            here = net.is_zero(rank - OFF * ~wanted, chosen.active[k])
            net.drive({buses[port][b]: 1 for b in range(5) if k >> b & 1}, here)
    for port in ("c", "d"):
        literals = equals(fetched.field[PORTS[port]], LANE_INDEX.code)
        for b in range((count - 1).bit_length()):
            net.drive(
                buses[port][b], net.all_of(literals, total(chosen.run[k] for k in range(count) if k >> b & 1))
            )

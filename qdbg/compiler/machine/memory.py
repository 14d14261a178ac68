"""Memory: bounds and alignment first, then the words.

An address must be a multiple of 4 and its word part of an allocation: a table holds one bit for
every word of memory, 32 to a row, filled by the prompt.  A store that fails writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist, scale
from qdbg.compiler.hardware.signals import Signal, equals
from qdbg.compiler.machine.config import MEMORY_BASE, MachineConfig
from qdbg.compiler.machine.execute import Execution
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.machine.lanes import Lanes
from qdbg.compiler.machine.operands import Operands
from qdbg.compiler.machine.vocabulary import Device

FIRST_WORD = MEMORY_BASE // 4


@dataclass
class MemoryWires:
    """fault: a load or store must not happen; misaligned: the address is no multiple of 4."""

    fault: Signal
    misaligned: Signal


def memory(
    net: Netlist, config: MachineConfig, fetched: Fetch, chosen: Lanes, bus: Operands, unit: Execution
) -> MemoryWires:
    """Check the address of the product bus, then load to the result bus or store D."""
    address = unit.product
    store = fetched.op[Op.ST]
    load = net.define("memory.loading", net.all_of([fetched.op[Op.LD], fetched.uniform]))
    net.drive(load, net.all_of([fetched.op[Op.LD], ~fetched.uniform, ~chosen.none]))
    index_bits = (FIRST_WORD + config.words - 1).bit_length()
    # The prompt's words have no instruction: the product is 0 and the word's place is put there.
    for bit in range(index_bits):
        net.drive(address[2 + bit], net.all_of([fetched.loads[Device.MEMORY], fetched.word[bit]]))
    for bit in range(index_bits - 5):
        net.drive(address[7 + bit], net.all_of([fetched.loads[Device.VALID], fetched.word[bit]]))
    valid = net.bus("memory.valid", 32)
    for first in range(0, config.words // 32, HEAD_SIZE):
        rows = range(min(HEAD_SIZE, config.words // 32 - first))
        place = {r: equals(address[7:], FIRST_WORD // 32 + first + r) for r in rows}
        net.head(
            Head(
                f"valid{first // HEAD_SIZE}",
                write=dict(place),
                read={r: (*literals, load + store) for r, literals in place.items()},
                data={b: Data((bus.d[b],)) for b in range(32)},
                out={b: {valid[b]: 1} for b in range(32)},
                enable=fetched.loads[Device.VALID],
            )
        )
    loads, stores = net.signal("memory.load"), net.signal("memory.store")
    for word in range(32):
        right = [valid[word], *equals(address[2:7], word), ~address[0], ~address[1]]
        net.drive(loads, net.all_of([load, *right]))
        net.drive(stores, net.all_of([store, *right]))
    for first in range(0, config.words, HEAD_SIZE):
        place = {
            r: equals(address[2 : 2 + index_bits], FIRST_WORD + first + r)
            for r in range(min(HEAD_SIZE, config.words - first))
        }
        net.head(
            Head(
                f"memory{first // HEAD_SIZE}",
                write=dict(place),
                read={r: (*literals, loads) for r, literals in place.items()},
                data={b: Data((bus.d[b],)) for b in range(32)},
                out={b: {unit.result[b]: 1} for b in range(32)},
                enable=stores + fetched.loads[Device.MEMORY],
            )
        )
    fault = net.define("memory.fault", net.copy(load + store - loads - stores))
    either = net.ramp(address[0] + address[1]) + scale(net.all_of([address[0], address[1]]), -1)
    return MemoryWires(fault, net.define("memory.misaligned", either))

"""Memory: bounds and alignment first, then the words.

An address must be a multiple of the access's size and its word part of an allocation: a table holds one
bit for every word of memory, 32 to a row, filled by the prompt.  A second table of the same kind says
which words are the block's shared memory.  A store that fails writes nothing.

HOLD reads a word and leaves its address in a row of its own; the held instruction, a few tokens later,
stores there.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Linear, Signal, equals, total
from qdbg.compiler.machine.config import MEMORY_BASE, MachineConfig
from qdbg.compiler.machine.execute import Execution
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import Inputs
from qdbg.compiler.machine.isa import Op, Width
from qdbg.compiler.machine.lanes import Lanes
from qdbg.compiler.machine.multiply import accumulate
from qdbg.compiler.machine.operands import Operands
from qdbg.compiler.machine.vocabulary import Device, Kind

FIRST_WORD = MEMORY_BASE // 4
#: The level from which on the data bus is used: no earlier than it must, since levels 2 and 3 are crowded.
DATA_LEVEL = 4
#: The widths of an access for which bit i of the address must be 0.
ALIGNED = (
    (Width.WORD, Width.HALF, Width.PAIR, Width.QUAD),
    (Width.WORD, Width.PAIR, Width.QUAD),
    (Width.PAIR, Width.QUAD),
    (Width.QUAD,),
)


@dataclass
class MemoryWires:
    """fault: a load or store must not happen; misaligned: its address is no multiple of its size."""

    fault: Signal
    misaligned: Signal


def memory(
    net: Netlist,
    config: MachineConfig,
    tokens: Inputs,
    fetched: Fetch,
    chosen: Lanes,
    bus: Operands,
    unit: Execution,
) -> MemoryWires:
    """Check the address, then load to the result bus or store D."""
    op, index_bits = fetched.op, (FIRST_WORD + config.words - 1).bit_length()
    loading = op[Op.LD] + op[Op.LDA]
    load = net.define("memory.loading", net.all_of([loading, fetched.uniform]))
    net.drive(load, net.all_of([loading, ~fetched.uniform, ~chosen.none]))
    net.drive(load, net.all_of([op[Op.HOLD], ~chosen.none]))
    store = op[Op.ST]
    is_width = {
        width: net.define(f"width.{width.name.lower()}", net.all_of(equals(fetched.field["width"], width)))
        for width in Width
    }
    misaligned = _misaligned(net, is_width, unit.low)
    valid = _tables(net, config, fetched, load + store, tokens.value, unit.word)
    loads, stores = net.signal("memory.load"), net.signal("memory.store")
    for word in range(32):
        right = [valid[word], *equals(unit.word[2:7], word), ~misaligned]
        net.drive(loads, net.all_of([load, *right]))
        net.drive(stores, net.all_of([store, *right]))
    fault = net.define("memory.fault", net.copy(load + store - loads - stores))
    held = tokens.kind[Kind.OLD]
    index, kept = _address(net, fetched, held, unit.word, index_bits)
    _data(net, tokens, fetched, is_width, kept, bus, unit)
    found = net.bus("memory.word", 32)
    for first in range(0, config.words, HEAD_SIZE):
        place = {
            r: equals(index, FIRST_WORD + first + r) for r in range(min(HEAD_SIZE, config.words - first))
        }
        net.head(
            Head(
                f"memory{first // HEAD_SIZE}",
                write=dict(place),
                read={r: (*literals, loads) for r, literals in place.items()},
                data={b: Data((bus.d[b],)) for b in range(32)},
                out={b: {found[b]: 1} for b in range(32)},
                enable=stores + held + fetched.loads[Device.MEMORY],
            )
        )
    _loaded(net, fetched, is_width, unit, found)
    accumulate(net, found, bus.d, [fetched.op[Op.LDA], loads], unit.result)
    return MemoryWires(fault, misaligned)


def _misaligned(net: Netlist, is_width: dict[Width, Signal], address: list[Signal]) -> Signal:
    """Whether an address has a 1 where its width forbids one.  What forbids bit i forbids those below."""
    found = net.signal("memory.misaligned")
    for bit, widths in enumerate(ALIGNED):
        forbidden = total(is_width[width] for width in widths)
        net.drive(found, net.all_of([forbidden, address[bit], *(~low for low in address[:bit])]))
    return found


def _tables(
    net: Netlist,
    config: MachineConfig,
    fetched: Fetch,
    access: Linear,
    data: list[Signal],
    address: list[Signal],
) -> list[Signal]:
    """The 32 bits that say which words around an address may be accessed."""
    # The prompt's words have no instruction: the product is 0 and the word's place is put there.
    for bit in range((FIRST_WORD + config.words - 1).bit_length() - 5):
        loading = fetched.loads[Device.VALID] + fetched.loads[Device.SHARED]
        net.drive(address[7 + bit], net.all_of([loading, fetched.word[bit]]))
    valid = net.bus("memory.valid", 32)
    shared = fetched.field["shared"][0]
    for device, wanted in ((Device.VALID, ~shared), (Device.SHARED, shared)):
        for first in range(0, config.words // 32, HEAD_SIZE):
            rows = range(min(HEAD_SIZE, config.words // 32 - first))
            place = {r: equals(address[7:], FIRST_WORD // 32 + first + r) for r in rows}
            net.head(
                Head(
                    f"{device.name.lower()}{first // HEAD_SIZE}",
                    write=dict(place),
                    read={r: (*literals, access, wanted) for r, literals in place.items()},
                    data={b: Data((data[b],)) for b in range(32)},
                    out={b: {valid[b]: 1} for b in range(32)},
                    enable=fetched.loads[device],
                )
            )
    return valid


def _address(
    net: Netlist, fetched: Fetch, held: Signal, address: list[Signal], index_bits: int
) -> tuple[list[Signal], list[Signal]]:
    """Which word is read or written: that of the sum, of the held address, or of the prompt's place.
    Also the held address by itself."""
    used = range(index_bits + 2)
    kept = net.bus("memory.kept", len(used))
    net.head(
        Head(
            "held",
            write={0: ()},
            read={0: ()},
            data={b: Data((address[b],)) for b in used},
            out={b: {kept[b]: 1} for b in used},
            enable=fetched.op[Op.HOLD],
        )
    )
    place = net.bus("memory.word_index", index_bits)
    for bit, target in enumerate(place):
        net.drive(target, net.all_of([~held, address[2 + bit]]))
        net.drive(target, net.all_of([held, kept[2 + bit]]))
        net.drive(target, net.all_of([fetched.loads[Device.MEMORY], fetched.word[bit]]))
    return place, kept


def _data(
    net: Netlist,
    tokens: Inputs,
    fetched: Fetch,
    is_width: dict[Width, Signal],
    address: list[Signal],
    bus: Operands,
    unit: Execution,
) -> None:
    """The word to store, beside the data of ST: the result of a held instruction, or the prompt's word."""
    held = tokens.kind[Kind.OLD]
    insert = [held, fetched.op[Op.INSERT]]
    for bit, target in enumerate(bus.d):
        prompted = [fetched.loads[Device.MEMORY], tokens.value[bit]]
        net.drive(target, net.all_of(prompted, not_before=DATA_LEVEL))
        net.drive(target, net.all_of([held, unit.logic[bit]]))
        net.drive(target, net.all_of([held, unit.sums, unit.word[bit]]))
        for width, place, size in (
            (Width.BYTE, equals(address[:2], bit // 8), 8),
            (Width.HALF, equals(address[1:2], bit // 16), 16),
        ):
            here = [*insert, is_width[width]]
            net.drive(target, net.all_of([*here, *place, bus.b[bit % size]]))
            for missed, literal in enumerate(place):
                net.drive(target, net.all_of([*here, *place[:missed], ~literal, bus.a[bit]]))


def _loaded(
    net: Netlist, fetched: Fetch, is_width: dict[Width, Signal], unit: Execution, word: list[Signal]
) -> None:
    """What a load makes of the memory word: all of it, or the byte or half at its address, extended."""
    parts = {
        width: net.define(f"load.{width.name.lower()}", net.all_of([fetched.op[Op.LD], is_width[width]]))
        for width in (Width.BYTE, Width.HALF)
    }
    whole = 1 - total(parts.values()) - fetched.op[Op.LDA]
    for bit in range(32):
        net.drive(unit.result[bit], net.all_of([whole, word[bit]]))
    sign = fetched.field["signed"][0]
    for width, part in parts.items():
        size = 8 if width is Width.BYTE else 16
        for place in range(32 // size):
            low = equals(unit.low[:2] if width is Width.BYTE else unit.low[1:2], place)
            for bit in range(size):
                net.drive(unit.result[bit], net.all_of([part, *low, word[place * size + bit]]))
            top = net.all_of([part, *low, sign, word[place * size + size - 1]])
            net.drive(dict.fromkeys(unit.result[size:], 1), top)

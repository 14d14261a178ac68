"""Position, clocks, program: from a token to the current instruction's fields.

A value computed high in the stack cannot reach a lower layer of the next pass except through the
token, so a program counter cannot simply be incremented.  Instead the position is a line, written
when a PC or LINE token names it, and an offset in it, which a clock counts: a row whose content is
halved by every token that moves on.  A token that ends the first half of a HOLD pair looks one
instruction ahead without moving on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdbg.compiler.hardware.heads import DATA_CHANNELS, HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist, Terms, scale
from qdbg.compiler.hardware.signals import Linear, Signal, equals, total
from qdbg.compiler.machine.config import LINE, MachineConfig
from qdbg.compiler.machine.encoding import FIELDS, SLOT_BASE, WORD_BITS
from qdbg.compiler.machine.inputs import ONE, Inputs
from qdbg.compiler.machine.isa import VALUE_OPS, Op
from qdbg.compiler.machine.vocabulary import CHUNK, Device, Kind

OFFSET_BITS = (LINE - 1).bit_length()
#: A line number: enough for the memory, the longest device.
LINE_BITS = 9
#: The position clock is stored times 2**16, out of reach of rounding in silu.
CLOCK_SHIFT = 16
#: Ticks that one clock counts exactly; more take a second one.
CLOCK_TICKS = 64


@dataclass
class Fetch:
    """The position and the current instruction.

    run: an instruction is current (the launch has started); word: index of the word being loaded or
    of the current instruction, low bit first; loads[device]: a WORD token completes a word of it;
    done_lanes: lanes of this instruction that are finished; op: decoded operation codes.
    """

    run: Signal
    word: list[Signal]
    loads: dict[Device, Signal]
    done_lanes: Linear
    field: dict[str, list[Signal]]
    immediate: list[Signal]
    op: dict[Op, Signal]
    value_op: Signal
    uniform: Signal
    slot_write: list[Signal]
    slot_clear: list[Signal]


def fetch(net: Netlist, config: MachineConfig, tokens: Inputs) -> Fetch:
    """Position and program memory."""
    kind = tokens.kind
    line = net.bus("fetch.line", LINE_BITS)
    device = [net.signal(f"fetch.device.{d.name.lower()}") for d in Device]
    run = net.signal("fetch.run")
    stored = [*tokens.payload[:LINE_BITS], *tokens.device, kind[Kind.PC]]
    jump = kind[Kind.PC] + kind[Kind.LINE]
    net.head(
        Head(
            "position",
            write={0: ()},
            read={0: ()},
            data={channel: Data((source,)) for channel, source in enumerate(stored)},
            out={channel: {target: 1} for channel, target in enumerate([*line, *device, run])},
            enable=jump,
        )
    )
    clock = _clock(net, "fetch.clock", jump, tokens.origin, tokens.advance, CLOCK_SHIFT)
    offset = _offset(net, clock, kind[Kind.OLD])
    done_lanes = _done_lanes(net, config, tokens)
    word = [*offset, *line]
    loads = {
        d: net.define(f"load.{d.name.lower()}", net.all_of([kind[Kind.WORD], device[d]]))
        for d in (Device.MEMORY, Device.VALID, Device.SHARED, Device.UNIFORM)
    }
    bits = _program(net, config, tokens, word, device, run)
    immediate = net.bus("instr.immediate", 32)
    values = [Data((bit,)) for bit in tokens.value]
    write = [kind[Kind.WORD], device[Device.IMMEDIATE]]
    _rows(net, "immediates", config.program, word, write, [run], values, immediate)
    fields = {name: bits[f.low : f.low + f.width] for name, f in FIELDS.items()}
    return _decode(
        net, config, tokens, Fetch(run, word, loads, done_lanes, fields, immediate, {}, run, run, [], [])
    )


def _offset(net: Netlist, clock: Signal, ahead: Signal) -> list[Signal]:
    """The number of ticks as bits, and one more where `ahead`."""
    offset = net.bus("fetch.offset", OFFSET_BITS)

    def changes(ticks: int) -> dict[Signal, int]:
        """How the bits of `ticks` differ from those of the number before."""
        bits = {offset[b]: _bit(ticks, b) - _bit(ticks - 1, b) for b in range(OFFSET_BITS)}
        return {signal: change for signal, change in bits.items() if change}

    net.drive(changes(1), net.copy(ahead))
    for ticks in range(1, LINE):
        net.drive(changes(ticks), _ticked(net, clock, ticks, ~ahead))
        if ticks + 1 < LINE:
            net.drive(changes(ticks + 1), _ticked(net, clock, ticks, ahead))
    return offset


def _done_lanes(net: Netlist, config: MachineConfig, tokens: Inputs) -> Linear:
    """How many lanes have finished the current instruction."""
    clock = _clock(net, "lanes.clock", tokens.starts, tokens.starts, tokens.counts, 0)
    first = _ticks(net, clock, min(config.lanes, CLOCK_TICKS))
    done: Linear = net.define("lanes.done", net.copy(first), 0, first.bounds[1])
    if config.lanes > CLOCK_TICKS:
        full = net.define("lanes.full", _ticked(net, clock, CLOCK_TICKS))
        over = net.define("lanes.over", _ticked(net, clock, CLOCK_TICKS + 1))
        start = net.define("lanes.clock2.start", net.all_of([tokens.counts, full, ~over]))
        second = _clock(net, "lanes.clock2", start, start, tokens.counts - start, 0)
        done = done + _ticks(net, second, config.lanes - CLOCK_TICKS, full)
    return done


def _ticks(net: Netlist, clock: Signal, most: int, up: Linear | int = 1) -> Linear:
    """How often a clock was halved, up to `most` times, where `up`.

    A signal a tick: a sum of more would need more bits than a float has, since what is left of the clock
    makes every term a fraction, and only the two of a tick cancel.
    """
    counts = [
        net.define(f"{clock.name}.tick{ticks}", _ticked(net, clock, ticks, up))
        for ticks in range(1, most + 1)
    ]
    return total(counts)


def _bit(number: int, position: int) -> int:
    return number >> position & 1


def _clock(net: Netlist, name: str, start: Linear, origin: Linear, tick: Linear, shift: int) -> Signal:
    """A signal that `start` sets to `origin` (0 at other tokens) and every `tick` halves.

    Row 0 holds it; every other token writes a fresh ballast to row 1.  (Rows 2 and 3 are empty.)
    """
    clock = net.signal(name, 0, 2, clock=True)
    net.head(
        Head(
            name,
            write={0: (start,), 1: (~start,)},
            read=dict.fromkeys(range(4), ()),
            data={0: Data(value=origin, shift=shift)},
            out={0: {clock: 1}},
            enable=ONE,
            halve=tick,
            ballast=~start,
        )
    )
    return clock


def _ticked(net: Netlist, clock: Signal, ticks: int, up: Linear | int = 1) -> Terms:
    """`up` where the clock is at most 2**-ticks, else 0 (the next power above gives gates below 0)."""
    scaled = clock * (4 << ticks)
    return scale(net.ramp(7 - scaled, up) + scale(net.ramp(5 - scaled, up), -1), 0.5)


def _program(
    net: Netlist, config: MachineConfig, tokens: Inputs, word: list[Signal], device: list[Signal], run: Signal
) -> list[Signal]:
    """Program memory.  The seven chunks of a word come from the last seven tokens: the convolution looks
    back three, and the delay line three further."""
    bits = net.bus("instr.word", WORD_BITS)
    data = []
    last = WORD_BITS // CHUNK - 1
    for position in range(WORD_BITS):
        back = last - position // CHUNK
        source = [tokens.payload, *tokens.earlier][max(0, back - 3)]
        data.append(Data((source[position % CHUNK],), tap=min(back, 3)))
    write = [tokens.kind[Kind.WORD], device[Device.PROGRAM]]
    _rows(net, "program", config.program, word, write=write, read=[run], data=data, out=bits)
    return bits


def _rows(
    net: Netlist,
    name: str,
    size: int,
    address: Sequence[Linear],
    write: Sequence[Linear],
    read: Sequence[Linear],
    data: Sequence[Data],
    out: list[Signal],
) -> None:
    """A memory of `size` words over as many heads as it takes, one row a word; a word too wide for a
    row stands in two heads."""
    width = (size - 1).bit_length()
    for first in range(0, size, HEAD_SIZE):
        rows = {r: equals(address[:width], first + r) for r in range(min(HEAD_SIZE, size - first))}
        for part in range(0, len(out), DATA_CHANNELS):
            end = part + DATA_CHANNELS
            net.head(
                Head(
                    f"{name}{first // HEAD_SIZE}.{part // DATA_CHANNELS}",
                    write={r: (*literals, *write) for r, literals in rows.items()},
                    read={r: (*literals, *read) for r, literals in rows.items()},
                    data=dict(enumerate(data[part:end])),
                    out={channel: {signal: 1} for channel, signal in enumerate(out[part:end])},
                    enable=write[0],
                )
            )


def _decode(net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch) -> Fetch:
    """Operation codes to one signal each, and which divergence bits this pass writes or clears."""
    field = fetched.field
    for op in Op:
        fetched.op[op] = net.define(
            f"op.{op.name.lower()}", net.all_of([*equals(field["op"], op), fetched.run])
        )
    values = total(fetched.op[op] for op in Op if op in VALUE_OPS)
    held = field["held"][0]
    fetched.value_op = net.define("op.value", net.all_of([values, ~held]))
    uniform_value = net.all_of([values, field["dst"][7], ~held])
    fetched.uniform = net.define("op.uniform", uniform_value)
    bit = tokens.kind[Kind.BIT]
    for slot in range(config.slots):
        target = net.signal(f"slot{slot}.write")
        name = SLOT_BASE + slot
        net.drive(target, net.all_of([bit, ~tokens.advance, *equals(field["dst"], name)]))
        net.drive(target, net.all_of([bit, tokens.advance, *equals(field["before"], name)]))
        fetched.slot_write.append(target)
        # CLR acts with its STEP token: while it is current, its pattern still tells which lane a
        # result of the instruction before belongs to.
        clear = net.all_of([tokens.kind[Kind.STEP], *equals(field["before"], name)])
        fetched.slot_clear.append(net.define(f"slot{slot}.clear", clear))
    return fetched

"""Which lanes are active, which one runs in this pass, and which one the token's result belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import DATA_CHANNELS, HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Signal, equals, total
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import TAKEN, Inputs
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.machine.vocabulary import Kind

#: As much as any rank: taken off a gate, it switches a unit off and keeps its sums below 256.
OFF = 128
#: A lane's number as two digits, of which the low one counts to 8: a one-hot each.
LOW = 8


@dataclass
class OneLane:
    """A lane, or none, as one-hots of its number's two digits (`high` * 8 + `low`)."""

    high: list[Signal]
    low: list[Signal]

    def digits(self, lane: int) -> list[Signal]:
        """The two that are 1 where it is this lane."""
        return [self.high[lane // LOW], self.low[lane % LOW]]


@dataclass
class Lanes:
    """active[k]: lane k takes part; run: the lane that executes in this pass; number: it as bits;
    write: the lane whose result the token is; final: no active lane follows the one that runs;
    none: every active lane is done; some: any is left."""

    active: list[Signal]
    run: OneLane
    number: list[Signal]
    write: OneLane
    final: Signal
    none: Signal
    some: Signal


def lanes(net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch) -> Lanes:
    """Divergence bits, active mask, and the choice of a lane by rank."""
    off = [net.signal(f"lanes.off[{k}]", 0, config.slots + 2) for k in range(config.lanes)]
    _bounds(net, config, tokens, off)
    for slot in range(config.slots):
        _slot(net, config, tokens, fetched, slot, off)
    active = [net.define(f"lanes.active[{k}]", net.ramp(1 - off[k])) for k in range(config.lanes)]
    return _choose(net, config, tokens, fetched, active)


def _bounds(net: Netlist, config: MachineConfig, tokens: Inputs, off: list[Signal]) -> None:
    """Lanes from the number of threads on do not exist; after a BIT those up to its lane are done."""
    width = config.lanes.bit_length()
    threads = net.bus("lanes.threads", width)
    net.head(
        Head(
            "exists",
            write={0: ()},
            read={0: ()},
            data={bit: Data((tokens.payload[bit],)) for bit in range(width)},
            out={bit: {threads[bit]: 1} for bit in range(width)},
            enable=tokens.kind[Kind.THREADS],
        )
    )
    count = total(bit * (1 << i) for i, bit in enumerate(threads))
    lane = total(bit * (1 << i) for i, bit in enumerate(tokens.payload[: lane_bits(config)]))
    for k in range(config.lanes):
        net.drive(off[k], net.step(k - count, 0))
        net.drive(off[k], net.step(lane - OFF * ~tokens.passed, k))


def _slot(
    net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, slot: int, off: list[Signal]
) -> None:
    """One divergence bit of every lane: a head with a row a lane, all read at once, and a second head
    for its negation.

    The output gate lets through the one that disagrees with the instruction's pattern.  Row 0 carries
    the ballast for all.  Many lanes take several pairs of heads.
    """
    clear = fetched.slot_clear[slot] + tokens.kind[Kind.BOOT]
    write = fetched.slot_write[slot]
    number = tokens.payload[: lane_bits(config)]
    taken = tokens.payload[TAKEN]
    care, value = fetched.field["care"][slot], fetched.field["value"][slot]
    for group, members in enumerate(lane_groups(config)):
        places = dict(enumerate(members))
        for polarity, outcome, disagrees in (("on", taken, ~value), ("off", ~taken, value)):
            rows = {1 + place: (write, *equals(number, k)) for place, k in places.items()}
            net.head(
                Head(
                    f"slot{slot}.{polarity}{group}",
                    write={0: (clear,), **rows},
                    read=dict.fromkeys(range(HEAD_SIZE), ()),
                    data={place: Data((*rows[1 + place], outcome)) for place in places},
                    out={place: {off[k]: 1} for place, k in places.items()},
                    gate=dict.fromkeys(places, (care, disagrees)),
                    enable=clear + write,
                    clear=clear,
                    ballast=clear,
                )
            )


def lane_bits(config: MachineConfig) -> int:
    """Bits of a lane's number."""
    return (config.lanes - 1).bit_length()


def lane_groups(config: MachineConfig) -> list[range]:
    """The lanes in as few and as equal groups as fit the data channels of a head."""
    count = -(-config.lanes // DATA_CHANNELS)
    size = -(-config.lanes // count)
    return [range(first, min(first + size, config.lanes)) for first in range(0, config.lanes, size)]


def _choose(
    net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, active: list[Signal]
) -> Lanes:
    """The lane that runs is active lane number `done`.  RESULT is that of the one before, OLD of the same,
    LAST of the last active one.

    [active lanes up to k > done] is a step in k that rises at the wanted lane, [active lanes from k on > 0]
    one that falls behind it.
    """
    done = fetched.done_lanes
    result, old, last = (tokens.kind[k] for k in (Kind.RESULT, Kind.OLD, Kind.LAST))
    run, write = _one_lane(net, config, "lanes.run"), _one_lane(net, config, "lanes.write")
    number = net.bus("lanes.number", lane_bits(config))
    written = net.define("lanes.written", net.copy(result + old))
    for k in range(config.lanes):
        after = k + 1 if k + 1 < config.lanes else None
        upto, onwards = total(active[: k + 1]) - done, total(active[k:])
        reached = net.step(upto, 1)
        net.drive(_at(run, k, after), reached)
        net.drive({number[b]: _bit(k, b) - _bit(after or 0, b) for b in range(len(number))}, reached)
        net.drive(_at(write, k, after), net.step(upto + result - OFF * ~written, 1))
        net.drive(_at(write, k, k - 1 if k else None), net.step(onwards - OFF * ~last, 1))
    left = total(active) - done
    return Lanes(
        active, run, number, write,
        net.define("lanes.final", net.is_zero(left - 1)),
        net.define("lanes.none", net.is_zero(left)),
        net.define("lanes.some", net.step(left, 1)),
    )  # fmt: skip


def warp_masks(
    net: Netlist, config: MachineConfig, fetched: Fetch, chosen: Lanes, result: list[Signal]
) -> None:
    """MASK: the active lanes of the running lane's warp, or of the one that a uniform instruction names."""
    digits = config.warp // LOW
    for warp in range(config.lanes // config.warp):
        named = [fetched.op[Op.MASK], fetched.uniform, *equals(fetched.field["scale"], warp)]
        own = [fetched.op[Op.MASK], ~fetched.uniform]
        if digits:  # a narrow machine has one warp
            own.append(total(chosen.run.high[warp * digits : (warp + 1) * digits]))
        first = warp * config.warp
        for bit, lane in enumerate(chosen.active[first : first + config.warp]):
            net.drive(result[bit], net.all_of([*named, lane]))
            net.drive(result[bit], net.all_of([*own, lane]))


def _one_lane(net: Netlist, config: MachineConfig, name: str) -> OneLane:
    low = min(LOW, config.lanes)
    return OneLane(net.bus(f"{name}.high", -(-config.lanes // LOW)), net.bus(f"{name}.low", low))


def _at(lane: OneLane, here: int, not_there: int | None) -> dict[Signal, int]:
    """Weights that put a one-hot at lane `here` and take one away from lane `not_there`."""
    weights = dict.fromkeys(lane.digits(here), 1)
    for signal in lane.digits(not_there) if not_there is not None else ():
        weights[signal] = weights.get(signal, 0) - 1
    return weights


def _bit(number: int, position: int) -> int:
    return number >> position & 1

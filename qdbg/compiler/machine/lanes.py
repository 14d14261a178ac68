"""Which lanes are active, which one runs in this pass, and which one the token's result belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import HEAD_SIZE, Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Signal, equals, total
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import TAKEN, Inputs
from qdbg.compiler.machine.vocabulary import Kind

#: More than any rank: taken off a gate, it switches a unit off and keeps its sums below 256.
OFF = 64


@dataclass
class Lanes:
    """active[k]: lane k takes part; run[k]: it executes in this pass; write[k]: the token's result is
    lane k's; final: no active lane follows the one that runs; none: every active lane is done; some:
    any is left."""

    active: list[Signal]
    run: list[Signal]
    write: list[Signal]
    final: Signal
    none: Signal
    some: Signal


def lanes(net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch) -> Lanes:
    """Divergence bits, active mask, and the choice of a lane by rank."""
    off = [net.signal(f"lanes.off[{k}]", 0, config.slots + 1) for k in range(config.lanes)]
    for slot in range(config.slots):
        _slot(net, config, tokens, fetched, slot, off)
    net.head(
        Head(
            "exists",
            write={0: ()},
            read={0: ()},
            data={k: Data((tokens.above[k],)) for k in range(config.lanes)},
            out={k: {off[k]: 1} for k in range(config.lanes)},
            enable=tokens.kind[Kind.THREADS],
            not_before=2,
        )
    )
    active = [
        net.define(f"lanes.active[{k}]", net.ramp(1 - off[k] - tokens.above[k])) for k in range(config.lanes)
    ]
    return _choose(net, config, tokens, fetched, active)


def _slot(
    net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, slot: int, off: list[Signal]
) -> None:
    """One divergence bit of every lane: a head with a row a lane, all read at once, and a second head
    for its negation.

    The output gate lets through the one that disagrees with the instruction's pattern.  Row 0 carries
    the ballast for all.
    """
    count = config.lanes
    clear = fetched.slot_clear[slot] + tokens.kind[Kind.BOOT]
    write = fetched.slot_write[slot]
    lane = tokens.payload[:TAKEN]
    taken = tokens.payload[TAKEN]
    care, value = fetched.field["care"][slot], fetched.field["value"][slot]
    for polarity, outcome, disagrees in (("on", taken, ~value), ("off", ~taken, value)):
        net.head(
            Head(
                f"slot{slot}.{polarity}",
                write={0: (clear,), **{1 + k: (write, *equals(lane, k)) for k in range(count)}},
                read=dict.fromkeys(range(HEAD_SIZE), ()),
                data={k: Data((write, *equals(lane, k), outcome)) for k in range(count)},
                out={k: {off[k]: 1} for k in range(count)},
                gate=dict.fromkeys(range(count), (care, disagrees)),
                enable=clear + write,
                clear=clear,
                ballast=clear,
            )
        )


def _choose(
    net: Netlist, config: MachineConfig, tokens: Inputs, fetched: Fetch, active: list[Signal]
) -> Lanes:
    """The lane that runs is active lane number `done_lanes`; the result is that of the one before."""
    done = fetched.done_lanes
    is_result, is_last = tokens.kind[Kind.RESULT], tokens.kind[Kind.LAST]
    run, write = net.bus("lanes.run", config.lanes), net.bus("lanes.write", config.lanes)
    for k in range(config.lanes):
        rank = total(active[:k])
        net.drive(run[k], net.is_zero(rank - done, active[k]))
        net.drive(write[k], net.is_zero(rank - done + 1 - OFF * ~is_result, active[k]))
        net.drive(write[k], net.ramp(1 - total(active[k + 1 :]) - OFF * ~is_last, active[k]))
    left = total(active) - done
    return Lanes(
        active, run, write,
        net.define("lanes.final", net.is_zero(left - 1)),
        net.define("lanes.none", net.is_zero(left)),
        net.define("lanes.some", net.step(left, 1)),
    )  # fmt: skip

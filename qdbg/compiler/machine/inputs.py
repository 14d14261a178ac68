"""The first thing in a pass: what the token says, and the value that it and those before it spell."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.hardware.heads import Data, Head
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Linear, Signal
from qdbg.compiler.machine.config import LINE
from qdbg.compiler.machine.vocabulary import CHUNK, Device, Kind, Token, Vocabulary

ONE = Linear(constant=1)
#: The payload bit of BIT that tells the outcome; the lane is below it.
TAKEN = 7
#: Classes that no circuit asks for by name: what they do is in `advance`, `starts` and `counts`.
ANONYMOUS = {Kind.PAD, Kind.END, Kind.ACK}


@dataclass
class Inputs:
    """Signals that a token's embedding sets, and what follows from those before.

    payload: 11 bits; origin: 2**-offset at PC and LINE; passed: the outcome of a lane, which others
    follow (BIT); advance: the position moves on by one; starts: an instruction starts; counts: a lane is
    done; value: 32 bits that the chunks so far spell; chunk1, chunk2: the result to emit continues at its
    second, third chunk.
    """

    kind: dict[Kind, Signal]
    payload: list[Signal]
    device: list[Signal]
    origin: Signal
    passed: Signal
    advance: Signal
    starts: Signal
    counts: Signal
    earlier: list[list[Signal]]
    value: list[Signal]
    chunk1: Signal
    chunk2: Signal


def inputs(net: Netlist, vocabulary: Vocabulary) -> Inputs:
    """Embeddings, a delay line of three tokens, and the value assembled from chunks."""
    kind = {k: net.signal(f"token.{k.name.lower()}") for k in Kind if k not in ANONYMOUS}
    payload = net.bus("token.payload", CHUNK)
    device = [net.signal(f"token.device.{d.name.lower()}") for d in Device]
    origin = net.signal("token.origin", 0, 2, clock=True)
    passed, advance, starts, counts = (
        net.signal(f"token.{n}") for n in ("passed", "advance", "starts", "counts")
    )
    for index, token in enumerate(vocabulary.tokens):
        bits: dict[Signal, int | float] = {}
        if token.kind in kind:
            bits[kind[token.kind]] = 1
        for position in range(CHUNK):
            if payload_of(token) >> position & 1:
                bits[payload[position]] = 1
        match token.kind:
            case Kind.PC:
                bits[origin] = 2.0 ** -(token.value % LINE)
            case Kind.LINE:
                bits[origin] = 2.0  # the first word moves on to offset 0
                bits[device[token.device]] = 1
            case Kind.BIT if not token.last:
                bits[passed] = 1
        ends = token.kind in (Kind.STEP, Kind.LAST) or (token.kind is Kind.BIT and token.last)
        if ends or token.kind is Kind.WORD:
            bits[advance] = 1
        if ends or token.kind is Kind.PC:
            bits[starts] = 1
        if token.kind in (Kind.RESULT, Kind.ACK):
            bits[counts] = 1
        net.embeddings[index] = bits
    earlier = [net.bus(f"token.before{back}", CHUNK) for back in (1, 2, 3)]
    more = [net.signal(f"token.more_before{back}") for back in (1, 2)]
    before = [[*earlier[0], more[0]], [*earlier[1], more[1]], earlier[2]]
    _delay_line(net, [*payload, kind[Kind.MORE]], before)
    value = _assemble(net, payload, earlier, more)
    return Inputs(
        kind, payload, device, origin, passed, advance, starts, counts, earlier, value,
        net.define("emit.chunk1", net.all_of([kind[Kind.MORE], ~more[0]])),
        net.define("emit.chunk2", net.all_of([kind[Kind.MORE], more[0]])),
    )  # fmt: skip


def payload_of(token: Token) -> int:
    """The payload bits of a token's embedding."""
    match token.kind:
        case Kind.PC:
            return token.value // LINE  # its offset is in `origin`
        case Kind.BIT:
            return token.lane | token.taken << TAKEN
        case _:
            return token.value


def _delay_line(net: Netlist, now: list[Signal], before: list[list[Signal]]) -> None:
    """One row, written by every token, whose channels hold what earlier tokens said."""
    data, out = {}, {}
    for back, bus in enumerate(before, start=1):
        for position, (source, target) in enumerate(zip(now, bus, strict=False)):
            channel = (back - 1) * len(now) + position
            data[channel], out[channel] = Data((source,), tap=back), {target: 1}
    net.head(Head("delay", write={0: ()}, read={0: ()}, data=data, out=out, enable=ONE))


def _assemble(
    net: Netlist, payload: list[Signal], earlier: list[list[Signal]], more: list[Signal]
) -> list[Signal]:
    """32 bits from one, two or three chunks, sign-extended from the top of the last one."""
    value = net.bus("token.value", 32)
    whens: list[list[Linear]] = [[~more[0]], [more[0], ~more[1]], [more[0], more[1]]]
    for before, when in enumerate(whens):
        parts = [*reversed(earlier[:before]), payload]
        bits = [bit for part in parts for bit in part]
        for position in range(32):
            source = bits[min(position, len(bits) - 1)]
            net.drive(value[position], net.all_of([*when, source]))
    return value

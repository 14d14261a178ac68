"""The token to emit: its class and payload, and the code words of the output layer."""

from __future__ import annotations

from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.signals import Linear, Signal, total
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.execute import Execution
from qdbg.compiler.machine.fetch import Fetch
from qdbg.compiler.machine.inputs import TAKEN, Inputs
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.machine.lanes import Lanes
from qdbg.compiler.machine.memory import MemoryWires
from qdbg.compiler.machine.vocabulary import CHUNK, Kind, Token, Vocabulary

#: What the class counts for in a logit, against 1 for a bit of the payload.
CLASS_WEIGHT = 64
LANE_BITS = 7
REASON_BITS = 3
#: Classes that a pass can emit, with the payload bits that tell their tokens apart.
EMITTED = {
    Kind.END: 0, Kind.STEP: 0, Kind.ACK: 0, Kind.PC: 9, Kind.BIT: LANE_BITS + 2,
    Kind.TRAP: LANE_BITS + REASON_BITS,
    Kind.MORE: CHUNK, Kind.RESULT: CHUNK, Kind.OLD: CHUNK, Kind.LAST: CHUNK,
}  # fmt: skip


def output(
    net: Netlist,
    config: MachineConfig,
    vocabulary: Vocabulary,
    tokens: Inputs,
    fetched: Fetch,
    chosen: Lanes,
    unit: Execution,
    checked: MemoryWires,
) -> None:
    """Choose the class, put the payload together, and write the logits."""
    kind = {k: net.signal(f"emit.{k.name.lower()}") for k in EMITTED}
    payload = net.bus("emit.payload", CHUNK)
    _classes(net, tokens, fetched, chosen, unit, checked, kind)
    _values(net, tokens, unit, payload)
    _jumps(net, fetched, chosen, unit, payload)
    _lanes(net, fetched, chosen, unit, checked, payload)
    for index, token in enumerate(vocabulary.tokens):
        if token.kind in EMITTED:
            code = [
                2 * payload[bit] - 1 if code_of(token) >> bit & 1 else 1 - 2 * payload[bit]
                for bit in range(EMITTED[token.kind])
            ]
            net.logits[index] = total([CLASS_WEIGHT * kind[token.kind], *code])


def code_of(token: Token) -> int:
    """The payload bits by which the output layer knows a token."""
    if token.kind is Kind.BIT:
        return token.lane | token.taken << TAKEN | token.last << TAKEN + 1
    if token.kind is Kind.TRAP:
        return token.lane | token.value << LANE_BITS
    return token.value


def _classes(
    net: Netlist,
    tokens: Inputs,
    fetched: Fetch,
    chosen: Lanes,
    unit: Execution,
    checked: MemoryWires,
    kind: dict[Kind, Signal],
) -> None:
    op, result, held = fetched.op, unit.result, fetched.field["held"][0]
    lane_value = net.define("emit.lane_value", net.all_of([fetched.value_op, ~fetched.uniform, ~chosen.none]))
    holds = net.define("emit.hold", net.all_of([op[Op.HOLD], ~chosen.none]))
    closes = net.signal("emit.closes")  # the value's last chunk will end the instruction
    net.drive(closes, net.copy(fetched.uniform))
    net.drive(closes, net.all_of([lane_value, chosen.final, ~fetched.field["unchained"][0]]))
    trapped = tokens.kind[Kind.TRAP]
    going = net.define("emit.value", net.copy(lane_value + holds + fetched.uniform))
    first, second, third = ~tokens.chunk1 - tokens.chunk2, tokens.chunk1, tokens.chunk2
    # A value fits k chunks if all bits from its sign bit on are equal.
    fits = []
    for count in (1, 2):
        rest = result[CHUNK * count - 1 :]
        same = net.all_of(rest) + net.all_of([~bit for bit in rest])
        fits.append(net.define(f"emit.fits{count}", same))
    ready = [going, ~checked.fault, ~trapped]
    for chunk, fit in ((first, fits[0]), (second, fits[1]), (third, Linear(constant=1))):
        net.drive(kind[Kind.MORE], net.all_of([*ready, chunk, ~fit]))
        net.drive(kind[Kind.LAST], net.all_of([*ready, chunk, fit, closes]))
        net.drive(kind[Kind.OLD], net.all_of([*ready, chunk, fit, holds]))
        net.drive(kind[Kind.RESULT], net.all_of([*ready, chunk, fit, ~closes - holds]))
    lives = [~trapped]
    net.drive(kind[Kind.END], net.copy(trapped))
    net.drive(kind[Kind.END], net.all_of([op[Op.HALT], *lives]))
    net.drive(kind[Kind.TRAP], net.all_of([checked.fault, *lives]))
    net.drive(kind[Kind.TRAP], net.all_of([op[Op.TRAP], *lives]))
    stored = op[Op.ST] + tokens.kind[Kind.OLD]
    net.drive(kind[Kind.ACK], net.all_of([stored, ~chosen.final, ~checked.fault, *lives]))
    net.drive(kind[Kind.STEP], net.all_of([stored, chosen.final, ~checked.fault, *lives]))
    net.drive(kind[Kind.STEP], net.all_of([held, ~tokens.kind[Kind.OLD], *lives]))
    idle = fetched.value_op - fetched.uniform + op[Op.HOLD]
    net.drive(kind[Kind.STEP], net.all_of([idle, chosen.none, *lives]))
    net.drive(kind[Kind.STEP], net.all_of([op[Op.NOP] + op[Op.CLR], *lives]))
    net.drive(kind[Kind.STEP], net.all_of([op[Op.UBR], ~unit.holds, *lives]))
    net.drive(kind[Kind.PC], net.all_of([op[Op.UBR], unit.holds, *lives]))
    net.drive(kind[Kind.PC], net.all_of([op[Op.BR], *lives]))
    net.drive(kind[Kind.BIT], net.all_of([op[Op.CBR], *lives]))


def _values(net: Netlist, tokens: Inputs, unit: Execution, payload: list[Signal]) -> None:
    first, second, third = ~tokens.chunk1 - tokens.chunk2, tokens.chunk1, tokens.chunk2
    for index, when in enumerate((first, second, third)):
        for bit in range(min(CHUNK, 32 - CHUNK * index)):
            net.drive(payload[bit], net.all_of([when, unit.result[CHUNK * index + bit]]))


def _jumps(net: Netlist, fetched: Fetch, chosen: Lanes, unit: Execution, payload: list[Signal]) -> None:
    target = [*fetched.field["dst"], fetched.field["target8"][0]]
    skip = [*fetched.field["a"], fetched.field["scale"][0]]
    goes = net.define("emit.goes", net.all_of([fetched.op[Op.BR], chosen.some]))
    net.drive(goes, net.all_of([fetched.op[Op.UBR], unit.holds]))
    stays = net.define("emit.skips", net.all_of([fetched.op[Op.BR], ~chosen.some]))
    for bit in range(EMITTED[Kind.PC]):
        net.drive(payload[bit], net.all_of([goes, target[bit]]))
        net.drive(payload[bit], net.all_of([stays, skip[bit]]))


def _lanes(
    net: Netlist, fetched: Fetch, chosen: Lanes, unit: Execution, checked: MemoryWires, payload: list[Signal]
) -> None:
    """The lane of BIT and TRAP with its outcome or reason."""
    branch, trap = fetched.op[Op.CBR], fetched.op[Op.TRAP]
    for bit, number in enumerate(chosen.number):
        net.drive(payload[bit], net.all_of([branch + trap, number]))
        net.drive(payload[bit], net.all_of([checked.fault, number]))
    net.drive(payload[TAKEN], net.all_of([branch, unit.holds]))
    net.drive(payload[TAKEN + 1], net.all_of([branch, chosen.final]))
    for bit in range(REASON_BITS):
        net.drive(payload[LANE_BITS + bit], net.all_of([trap, fetched.immediate[bit]]))
    net.drive(payload[LANE_BITS], net.all_of([checked.fault, checked.misaligned]))

"""From the recurrent state of the DeltaNet heads to the machine's state.

A stored bit is 128 in its channel, a row never written is 0.  Where each head is stands in the
checkpoint's `wires.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import LINE, MachineConfig
from qdbg.compiler.machine.fetch import CLOCK_SHIFT, LINE_BITS
from qdbg.compiler.machine.lanes import lane_groups
from qdbg.compiler.machine.vocabulary import Device
from qdbg.runtime.state import MachineState

Rows = NDArray[np.float32]
#: layer -> the recurrent state of its heads, float32 [heads, rows, channels]
ReadLayer = Callable[[int], Rows]
#: A stored 1, and the threshold between 0 and 1.
ONE, HALF = 128.0, 64.0


class StateDecoder:
    """Reads `MachineState` out of the layers of an engine."""

    def __init__(self, checkpoint: Path):
        wires = json.loads((checkpoint / "wires.json").read_text(encoding="utf-8"))
        self.config = MachineConfig(**wires["machine"])
        self.heads = {name: (place["layer"], place["head"]) for name, place in wires["heads"].items()}

    def decode(self, read: ReadLayer) -> MachineState:
        """The machine's state; `read` gives the heads of a layer."""
        config = self.config
        layers: dict[int, Rows] = {}

        def rows(name: str) -> Rows:
            layer, head = self.heads[name]
            if layer not in layers:
                layers[layer] = read(layer)
            table: Rows = layers[layer][head]
            return table

        def words(name: str, count: int) -> NDArray[np.uint32]:
            """A table of 32-bit words that stands in the heads name0, name1, ..."""
            blocks: list[NDArray[np.uint32]] = []
            while sum(map(len, blocks)) < count:
                bits = rows(f"{name}{len(blocks)}")[:, :32] > HALF
                blocks.append(np.packbits(bits, axis=1, bitorder="little").view("<u4")[:, 0])
            return np.concatenate(blocks)[:count]

        lanes, slots = config.lanes, np.full((config.slots, config.lanes), -1, np.int8)
        for slot in range(config.slots):
            for polarity, value in (("on", 1), ("off", 0)):
                for group, members in enumerate(lane_groups(config)):
                    table = rows(f"slot{slot}.{polarity}{group}")
                    diagonal = table[1 : 1 + len(members), : len(members)].diagonal()
                    slots[slot, members.start : members.stop][diagonal > HALF] = value
        registers = words("vector.a", lanes * config.registers).reshape(lanes, config.registers)
        valid = words("valid", config.words // 32)
        return MachineState(
            pc=_position(rows("position"), rows("fetch.clock")),
            exists=np.arange(lanes) < _number(rows("exists")[0], lanes.bit_length()),
            registers=registers,
            uniforms=words("uniform.a", config.uniforms),
            slots=slots,
            memory=words("memory", config.words),
            allocated=np.unpackbits(valid.view(np.uint8), bitorder="little").astype(bool),
        )


def _position(position: Rows, clock: Rows) -> int | None:
    """The pc: the line that is stored, and how often the clock was halved since."""
    bits = position[0] > HALF
    if not bits[LINE_BITS + len(Device)]:  # the launch has not started
        return None
    line = _number(position[0], LINE_BITS)
    offset = CLOCK_SHIFT - round(float(np.log2(clock[0, 0] / ONE)))
    return line * LINE + offset


def _number(row: Rows, width: int) -> int:
    """The number whose bits stand in the first channels of a row."""
    return int(sum(1 << i for i in range(width) if row[i] > HALF))

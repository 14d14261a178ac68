"""The whole machine: circuits, schedule, checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.hardware.check import check
from qdbg.compiler.hardware.checkpoint import write_checkpoint
from qdbg.compiler.hardware.emit import configuration, emit
from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.schedule import Schedule, schedule
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.execute import execute
from qdbg.compiler.machine.fetch import fetch
from qdbg.compiler.machine.inputs import inputs
from qdbg.compiler.machine.lanes import lanes, warp_masks
from qdbg.compiler.machine.memory import memory
from qdbg.compiler.machine.operands import operands
from qdbg.compiler.machine.output import output
from qdbg.compiler.machine.vocabulary import Kind, Token, Vocabulary

#: Heads of a layer: a copy of 128 * 32 registers, or 4,096 words of memory.
HEADS_PER_LAYER = 64


@dataclass(frozen=True)
class Machine:
    """The circuits of a machine, laid out in layers."""

    config: MachineConfig
    vocabulary: Vocabulary
    netlist: Netlist
    schedule: Schedule


@cache
def machine(config: MachineConfig) -> Machine:
    """Describe and lay out the machine.  Raises ValueError if it could not be exact in bfloat16."""
    net = Netlist()
    vocabulary = Vocabulary(config)
    tokens = inputs(net, vocabulary)
    fetched = fetch(net, config, tokens)
    chosen = lanes(net, config, tokens, fetched)
    bus = operands(net, config, tokens, fetched, chosen)
    unit = execute(net, fetched, bus)
    warp_masks(net, config, fetched, chosen, unit.result)
    checked = memory(net, config, tokens, fetched, chosen, bus, unit)
    output(net, config, vocabulary, tokens, fetched, chosen, unit, checked)
    laid_out = schedule(net, HEADS_PER_LAYER)
    problems = check(net, laid_out)
    if problems:
        raise ValueError(f"{len(problems)} circuits are not exact: {'; '.join(problems[:5])}")
    return Machine(config, vocabulary, net, laid_out)


def build_checkpoint(
    config: MachineConfig,
    directory: Path,
    dtype: str = "bfloat16",
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the machine's checkpoint; returns its number of non-zero weights.

    `progress` is called with (layers written, layers).  Raises OSError where the directory cannot be
    written.
    """
    built = machine(config)
    vocabulary, layout = built.vocabulary, built.schedule

    def reported() -> Iterator[tuple[str, NDArray[np.float32]]]:
        for name, tensor in emit(built.netlist, layout, len(vocabulary)):
            if progress is not None and name.endswith("post_attention_layernorm.weight"):
                progress(int(name.split(".")[2]) + 1, layout.layers)
            yield name, tensor

    pad, end = (vocabulary[Token(kind)] for kind in (Kind.PAD, Kind.END))
    settings = configuration(layout, len(vocabulary), pad, end)
    names = [str(token) for token in vocabulary.tokens]
    return write_checkpoint(directory, settings, reported(), names, _wires(built), dtype)


def _wires(built: Machine) -> dict[str, Any]:
    """Where every named wire and head lives, for tools that look inside."""
    layout = built.schedule
    return {
        "machine": asdict(built.config),
        "signals": {
            signal.name: {"dimension": life.dimension, "written": life.start, "last_read": life.end}
            for signal, life in layout.lives.items()
        },
        "heads": {
            head.name: {"layer": layer, "head": index}
            for layer, heads in layout.heads.items()
            for index, head in enumerate(heads)
        },
    }

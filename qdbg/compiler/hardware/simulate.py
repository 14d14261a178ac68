"""A plain bit-level simulator of a netlist: no model, no rounding, every signal by name.

It runs a batch of independent launches in step.  Along the way it asserts what the compiler takes for
granted: signals within their bounds, one row written at a time, one ballast in every read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.hardware.heads import DATA_CHANNELS, HEAD_SIZE, MAX_TAP, Head
from qdbg.compiler.hardware.netlist import Netlist, Unit
from qdbg.compiler.hardware.schedule import Schedule
from qdbg.compiler.hardware.signals import Linear, Signal, total

Array = NDArray[np.float32]


class SimulationError(AssertionError):
    """The circuit did something that the weights could not do exactly."""


class _Forms:
    """Linear forms as one matrix over the signals that occur in them."""

    def __init__(self, forms: Sequence[Linear]):
        inputs = sorted({s.index for form in forms for s in form.terms})
        position = {index: i for i, index in enumerate(inputs)}
        self.inputs = np.array(inputs, np.intp)
        self.matrix = np.zeros((len(inputs), len(forms)), np.float32)
        self.constant = np.array([form.constant for form in forms], np.float32)
        for column, form in enumerate(forms):
            for signal, weight in form.terms.items():
                self.matrix[position[signal.index], column] = weight

    def __call__(self, values: Array) -> Array:
        result: Array = values[:, self.inputs] @ self.matrix + self.constant
        return result


class _Logic:
    """The units of one MLP."""

    def __init__(self, units: list[Unit]):
        self.gate = _Forms([u.gate for u in units])
        self.up = _Forms([u.up for u in units])
        self.targets = sorted({s.index for u in units for s in u.drives})
        position = {index: i for i, index in enumerate(self.targets)}
        self.drive = np.zeros((len(units), len(self.targets)), np.float32)
        for row, unit in enumerate(units):
            for signal, weight in unit.drives.items():
                self.drive[row, position[signal.index]] = weight

    def __call__(self, values: Array) -> None:
        values[:, self.targets] += (np.maximum(self.gate(values), 0) * self.up(values)) @ self.drive


def _conjunction(literals: Sequence[Linear]) -> Linear:
    return 2 * total(literals) - (2 * len(literals) - 1)


class Memory:
    """The state of one head for the whole batch: `rows` is [batch, rows, channels]."""

    def __init__(self, head: Head, batch: int):
        self.head = head
        channels = 1 + max([*head.data, *head.out])
        self.channels = channels
        self.rows = np.zeros((batch, HEAD_SIZE, channels), np.float32)
        self.ballast = np.zeros((batch, HEAD_SIZE), np.float32)
        self.write, self.read = list(head.write), list(head.read)
        self.write_forms = _Forms([_conjunction(x) for x in head.write.values()])
        self.read_forms = _Forms([_conjunction(x) for x in head.read.values()])
        none = Linear()
        self.control = _Forms(
            [head.enable, head.clear or none, head.halve or none, head.ballast or Linear(constant=1)]
        )
        self.data = list(head.data)
        self.data_forms = _Forms([
            _conjunction(d.literals) if d.value is None else d.value for d in head.data.values()
        ])  # fmt: skip
        taps = [d.tap for d in head.data.values()]
        self.taps = {tap: np.array([t == tap for t in taps]) for tap in set(taps)}
        self.past: list[Array] = []
        self.gated = [c for c in head.out if head.gate.get(c)]
        self.gate_forms = _Forms([_conjunction(head.gate[c]) for c in self.gated])
        self.out = [(s.index, c, w) for c, targets in head.out.items() for s, w in targets.items()]

    def step(self, values: Array) -> None:
        """One token: decay, write, read, and add what was read to the signals."""
        enable, clear, halve, ballast = self.control(values).T
        factor = np.where(clear > 0.5, 0, np.where(halve > 0.5, 0.5, 1)).astype(np.float32)
        if (factor != 1).any():
            self.rows *= factor[:, None, None]
            self.ballast *= factor[:, None]
        fresh = np.maximum(self.data_forms(values), 0)
        self.past = [fresh, *self.past[:MAX_TAP]]
        data = np.zeros((len(values), self.channels), np.float32)
        for tap, chosen in self.taps.items():
            if tap < len(self.past):
                data[:, np.array(self.data)[chosen]] = self.past[tap][:, chosen]
        hits = (self.write_forms(values) > 0) & (enable > 0.5)[:, None]
        if (hits.sum(1) > 1).any():
            raise SimulationError(f"head {self.head.name} writes several rows at once")
        launch, which = np.nonzero(hits)
        row = np.array(self.write)[which]
        self.rows[launch, row] = data[launch]
        self.ballast[launch, row] = ballast[launch]
        launch, which = np.nonzero(self.read_forms(values) > 0)
        row = np.array(self.read)[which]
        seen, scale = np.zeros_like(data), np.zeros(len(values), np.float32)
        np.add.at(seen, launch, self.rows[launch, row])
        np.add.at(scale, launch, self.ballast[launch, row])
        if ((scale != 1) & (seen != 0).any(1) | (scale != 0) & (scale != 1)).any():
            raise SimulationError(f"head {self.head.name} reads rows with {scale.max()} ballasts")
        if self.gated:
            seen[:, self.gated] *= self.gate_forms(values) > 0
        for target, channel, weight in self.out:
            values[:, target] += weight * seen[:, channel]


class Simulator:
    """Runs a scheduled netlist for `batch` launches at once.

    `values` after a step is float32 [batch, signals]; erased signals keep their last value there, so
    that every named wire can be looked at.
    """

    def __init__(self, netlist: Netlist, schedule: Schedule, batch: int = 1):
        self.netlist, self.schedule = netlist, schedule
        self.stages: list[Any] = []
        self.memories: dict[str, Memory] = {}
        for layer in range(schedule.layers):
            for head in schedule.heads.get(layer, []):
                memory = self.memories[head.name] = Memory(head, batch)
                self.stages.append(memory.step)
            if schedule.units.get(layer):
                self.stages.append(_Logic(schedule.units[layer]))
        signals = list(netlist.signals.values())
        self.low = np.array([s.low for s in signals], np.float32)
        self.high = np.array([s.high for s in signals], np.float32)
        self.names = [s.name for s in signals]
        self.embedding = np.zeros((1 + max(netlist.embeddings), len(signals)), np.float32)
        for token, content in netlist.embeddings.items():
            for signal, value in content.items():
                self.embedding[token, signal.index] = value
        self.answers = list(netlist.logits)
        self.logit_forms = _Forms(list(netlist.logits.values()))
        self.values = np.zeros((batch, len(signals)), np.float32)

    def step(self, tokens: Sequence[int]) -> NDArray[np.intp]:
        """Feed a token to each launch; returns each launch's next token.

        Raises SimulationError if a signal leaves its bounds.
        """
        self.values = self.embedding[np.asarray(tokens)]
        for stage in self.stages:
            stage(self.values)
        wrong = ((self.values < self.low) | (self.values > self.high)).any(0)
        if wrong.any():
            names = [self.names[i] for i in np.nonzero(wrong)[0][:8]]
            raise SimulationError(f"out of bounds: {', '.join(names)}")
        result: NDArray[np.intp] = np.array(self.answers)[self.logit_forms(self.values).argmax(1)]
        return result

    def value(self, signal: Signal) -> Array:
        """A wire after the last step, float32 [batch]."""
        result: Array = self.values[:, signal.index]
        return result

    def number(self, bits: Sequence[Signal]) -> NDArray[np.int64]:
        """A bus as integers, low bit first, int64 [batch]."""
        digits = self.values[:, [b.index for b in bits]].astype(np.int64)
        result: NDArray[np.int64] = (digits << np.arange(len(bits))).sum(1)
        return result


__all__ = ["DATA_CHANNELS", "Memory", "SimulationError", "Simulator"]

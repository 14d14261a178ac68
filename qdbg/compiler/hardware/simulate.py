"""A plain bit-level simulator of a netlist: no model, no rounding, every signal by name.

It runs a batch of independent launches in step.  Along the way it asserts what the compiler takes for
granted: signals integers within their bounds, one row written at a time, one ballast in every read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.hardware.heads import HEAD_SIZE, MAX_TAP, Head
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
        self.channels = 1 + max([*head.data, *head.out])
        self.rows = np.zeros((batch, HEAD_SIZE, self.channels), np.float32)
        self.ballast = np.zeros((batch, HEAD_SIZE), np.float32)
        self.write, self.read = np.array(list(head.write)), np.array(list(head.read))
        self.write_forms = _Forms([_conjunction(x) for x in head.write.values()])
        self.read_forms = _Forms([_conjunction(x) for x in head.read.values()])
        none = Linear()
        self.decays = head.clear is not None or head.halve is not None
        self.control = _Forms(
            [head.enable, head.clear or none, head.halve or none, head.ballast or Linear(constant=1)]
        )
        self.data = np.array(list(head.data), np.intp)
        self.data_forms = _Forms(
            [_conjunction(d.literals) if d.value is None else d.value for d in head.data.values()]
        )
        taps = [d.tap for d in head.data.values()]
        self.taps = {tap: np.array([t == tap for t in taps]) for tap in set(taps)}
        self.past: list[Array] = []
        #: A read without literals takes every row; rows that are never written add nothing.
        self.reads_all = not any(head.read.values())
        self.gated = [c for c in head.out if head.gate.get(c)]
        self.gate_forms = _Forms([_conjunction(head.gate[c]) for c in self.gated])
        out = [(s.index, c, w) for c, targets in head.out.items() for s, w in targets.items()]
        self.targets = np.array([target for target, _, _ in out])
        self.sources = np.array([channel for _, channel, _ in out])
        self.weights = np.array([weight for _, _, weight in out], np.float32)
        if len(set(self.targets.tolist())) < len(out):
            raise ValueError(f"head {head.name} adds two channels to one signal")

    def step(self, values: Array) -> None:
        """One token: decay, write, read, and add what was read to the signals."""
        enable, clear, halve, ballast = self.control(values).T
        if self.decays:
            factor = np.where(clear > 0.5, 0, np.where(halve > 0.5, 0.5, 1)).astype(np.float32)
            self.rows *= factor[:, None, None]
            self.ballast *= factor[:, None]
        self._write(values, enable > 0.5, ballast)
        seen, scale = self._read(values)
        if ((scale != 1) & (seen != 0).any(1) | (scale != 0) & (scale != 1)).any():
            raise SimulationError(f"head {self.head.name} reads rows with {scale.max()} ballasts")
        if self.gated:
            seen[:, self.gated] *= self.gate_forms(values) > 0
        values[:, self.targets] += self.weights * seen[:, self.sources]

    def _write(self, values: Array, enable: NDArray[np.bool_], ballast: Array) -> None:
        if max(self.taps) > 0:
            self.past = [np.maximum(self.data_forms(values), 0), *self.past[:MAX_TAP]]
        if not enable.any():
            return
        launch, which = np.nonzero((self.write_forms(values) > 0) & enable[:, None])
        if len(launch) > len(np.unique(launch)):
            raise SimulationError(f"head {self.head.name} writes several rows at once")
        past = self.past or [np.maximum(self.data_forms(values), 0)]
        data = np.zeros((len(values), self.channels), np.float32)
        for tap, chosen in self.taps.items():
            if tap < len(past):
                data[:, self.data[chosen]] = past[tap][:, chosen]
        row = self.write[which]
        self.rows[launch, row] = data[launch]
        self.ballast[launch, row] = ballast[launch]

    def _read(self, values: Array) -> tuple[Array, Array]:
        if self.reads_all:
            rows = np.intersect1d(self.read, self.write)
            return self.rows[:, rows].sum(1), self.ballast[:, rows].sum(1)
        seen = np.zeros((len(values), self.channels), np.float32)
        scale = np.zeros(len(values), np.float32)
        launch, which = np.nonzero(self.read_forms(values) > 0)
        if len(launch) > len(np.unique(launch)):
            raise SimulationError(f"head {self.head.name} reads several rows at once")
        row = self.read[which]
        seen[launch] = self.rows[launch, row]
        scale[launch] = self.ballast[launch, row]
        return seen, scale


class Simulator:
    """Runs a scheduled netlist for `batch` launches at once.

    `values` after a step is float32 [batch, signals]; erased signals keep their last value there, so
    that every named wire can be looked at.
    """

    def __init__(self, netlist: Netlist, schedule: Schedule, batch: int = 1):
        self.netlist, self.schedule = netlist, schedule
        self.stages: dict[int, list[Callable[[Array], None]]] = {}
        self.memories: dict[str, Memory] = {}
        for layer in range(schedule.layers):
            heads = [Memory(head, batch) for head in schedule.heads.get(layer, [])]
            self.memories |= {memory.head.name: memory for memory in heads}
            self.stages[2 * layer] = [memory.step for memory in heads]
            units = schedule.units.get(layer)
            self.stages[2 * layer + 1] = [_Logic(units)] if units else []
        signals = list(netlist.signals.values())
        self.low = np.array([s.low for s in signals], np.float32)
        self.high = np.array([s.high for s in signals], np.float32)
        self.whole = np.array([not s.clock for s in signals])
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
        self.settle(self.embedding[np.asarray(tokens)])
        result: NDArray[np.intp] = np.array(self.answers)[self.logit_forms(self.values).argmax(1)]
        return result

    def settle(self, values: Array, watch: Callable[[int, Array], None] | None = None) -> None:
        """Run every layer on initial values, float32 [batch, signals], which are changed in place.

        `watch(time, values)` is called after each mixer (2 * layer) and MLP (2 * layer + 1).
        """
        self.values = values
        for time, stages in self.stages.items():
            for stage in stages:
                stage(values)
            if watch is not None:
                watch(time, values)
        fraction = self.whole & (values != np.rint(values))
        wrong = ((values < self.low) | (values > self.high) | fraction).any(0)
        if wrong.any():
            names = [self.names[i] for i in np.nonzero(wrong)[0][:8]]
            raise SimulationError(f"out of bounds, or no integers: {', '.join(names)}")

    def value(self, signal: Signal) -> Array:
        """A wire after the last step, float32 [batch]."""
        result: Array = self.values[:, signal.index]
        return result

    def number(self, bits: Sequence[Signal]) -> NDArray[np.int64]:
        """A bus as integers, low bit first, int64 [batch]."""
        digits = self.values[:, [b.index for b in bits]].astype(np.int64)
        result: NDArray[np.int64] = (digits << np.arange(len(bits))).sum(1)
        return result

"""The circuit description: signals, units of logic, and heads of memory.

A **unit** is one hidden unit of a SwiGLU layer, `max(0, gate) * up`, where gate and up are linear
forms.  That one primitive gives an AND of any number of literals, a step, a ramp, a multiplexer (the
data is `up`), a select with an exclusive or.  A signal is the sum of the units that drive it.

A **head** is one DeltaNet head used as memory, see `heads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qdbg.compiler.hardware.heads import Head
from qdbg.compiler.hardware.signals import Linear, Signal, as_linear, total


@dataclass(eq=False)
class Unit:
    """`max(0, gate) * up`, which adds `weight` times itself to each signal of `drives`.

    `strict` units are ANDs: their gate is 1 on a match and at most -1 otherwise, so that a bit that
    reads back as 1 - 1e-7 does no harm.
    """

    gate: Linear
    up: Linear
    strict: bool
    not_before: int
    drives: dict[Signal, float] = field(default_factory=dict)

    @property
    def inputs(self) -> Iterable[Signal]:
        """The signals that the unit reads."""
        return (*self.gate.terms, *self.up.terms)


Terms = list[tuple[Unit, float]]


class Netlist:
    """A machine as named signals, units and heads; levels and dimensions come later."""

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.units: dict[tuple[object, ...], Unit] = {}
        self.heads: list[Head] = []
        #: token id -> the signals that its embedding sets
        self.embeddings: dict[int, dict[Signal, int | float]] = {}
        #: token id -> the linear form whose value is its logit
        self.logits: dict[int, Linear] = {}

    # -- signals ---------------------------------------------------------------------------------
    def signal(self, name: str, low: int = 0, high: int = 1, clock: bool = False) -> Signal:
        """A new signal.  Raises ValueError if the name is taken."""
        if name in self.signals:
            raise ValueError(f"signal {name} is declared twice")
        signal = Signal(name, len(self.signals), low, high, clock)
        self.signals[name] = signal
        return signal

    def bus(self, name: str, width: int) -> list[Signal]:
        """`width` bits name[0], name[1], ..., low first."""
        return [self.signal(f"{name}[{i}]") for i in range(width)]

    # -- units -----------------------------------------------------------------------------------
    def ramp(
        self, gate: Linear | int, up: Linear | int = 1, not_before: int = 0, strict: bool = False
    ) -> Terms:
        """max(0, gate) * up.  Equal units are made once.  `not_before` is a layer."""
        gate, up = as_linear(gate), as_linear(up)
        key = (gate.key, up.key, not_before)
        if key not in self.units:
            self.units[key] = Unit(gate, up, strict, not_before)
        return [(self.units[key], 1)]

    def all_of(self, literals: Sequence[Linear], up: Linear | int = 1, not_before: int = 0) -> Terms:
        """`up` where every literal (a form with value 0 or 1) holds, else 0."""
        gate = 2 * total(literals) - (2 * len(literals) - 1)
        return self.ramp(gate, up, not_before, strict=True)

    def copy(self, form: Linear, not_before: int = 0) -> Terms:
        """The value of a linear form."""
        return self.ramp(1, form, not_before)

    def step(self, form: Linear, threshold: int, up: Linear | int = 1) -> Terms:
        """`up` where form >= threshold, else 0; form is an integer."""
        return self.ramp(form - (threshold - 1), up) + scale(self.ramp(form - threshold, up), -1)

    def is_zero(self, form: Linear, up: Linear | int = 1) -> Terms:
        """`up` where an integer form is 0, else 0: a triangle of three ramps."""
        sides = self.ramp(form + 1, up) + self.ramp(form - 1, up)
        return sides + scale(self.ramp(form, up), -2)

    def function(self, form: Linear, low: int, high: int, f: Callable[[int], int]) -> Terms:
        """f(form) for an integer form in [low, high], as a sum of ramps from `low` on."""
        terms: Terms = self.copy(Linear(constant=f(low))) if f(low) else []
        slope = 0
        for x in range(low, high):
            change = f(x + 1) - f(x) - slope
            if change:
                terms = terms + scale(self.ramp(form - x), change)
                slope += change
        return terms

    def drive(self, target: Signal | Mapping[Signal, int], terms: Terms) -> None:
        """Add the terms to a signal, or to several with weights."""
        targets = {target: 1} if isinstance(target, Signal) else target
        for unit, weight in terms:
            for signal, factor in targets.items():
                if not factor:
                    continue
                unit.drives[signal] = unit.drives.get(signal, 0) + weight * factor

    def define(self, name: str, terms: Terms, low: int = 0, high: int = 1) -> Signal:
        """A new signal that is the sum of the terms."""
        signal = self.signal(name, low, high)
        self.drive(signal, terms)
        return signal

    # -- heads -----------------------------------------------------------------------------------
    def head(self, head: Head) -> Head:
        """Add a head."""
        self.heads.append(head)
        return head


def scale(terms: Terms, factor: float) -> Terms:
    """Every term times a factor."""
    return [(unit, weight * factor) for unit, weight in terms]

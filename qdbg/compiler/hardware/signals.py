"""Named signals and integer linear forms over them.

A signal is a number carried by one dimension of the residual stream: mostly a bit, sometimes a small
integer.  Between two levels of logic any linear form of signals is free (it is a row of a matrix),
so circuits are written with ordinary arithmetic: `1 - a`, `~a`, `a + 2 * b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Linear:
    """`constant + sum(weight * signal)`; immutable."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: Mapping[Signal, int] | None = None, constant: int = 0):
        self.terms: dict[Signal, int] = {s: w for s, w in (terms or {}).items() if w}
        self.constant = constant

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        terms = dict(self.terms)
        for signal, weight in other.terms.items():
            terms[signal] = terms.get(signal, 0) + weight
        return Linear(terms, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Linear:
        return Linear({s: w * factor for s, w in self.terms.items()}, self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (-other)

    def __rsub__(self, other: int) -> Linear:
        return -self + other

    def __invert__(self) -> Linear:
        """The negation of a bit."""
        return 1 - self

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal forms."""
        return (self.constant, frozenset(self.terms.items()))

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value, from the bounds of the signals."""
        low = high = self.constant
        for signal, weight in self.terms.items():
            ends = (weight * signal.low, weight * signal.high)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def __repr__(self) -> str:
        return " + ".join([f"{w}*{s.name}" for s, w in self.terms.items()] + [str(self.constant)])


class Signal(Linear):
    """A named dimension of the residual stream with integer values in [low, high].

    `clock` marks powers of two below 1, which are exact too but no integers.
    """

    __slots__ = ("clock", "high", "index", "low", "name")

    def __init__(self, name: str, index: int, low: int = 0, high: int = 1, clock: bool = False):
        self.name, self.index, self.low, self.high, self.clock = name, index, low, high, clock
        self.terms = {self: 1}
        self.constant = 0

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return self.name


def as_linear(value: Linear | int) -> Linear:
    """A constant as a linear form."""
    return value if isinstance(value, Linear) else Linear(constant=value)


def total(values: Iterable[Linear | int]) -> Linear:
    """The sum of linear forms."""
    terms: dict[Signal, int] = {}
    constant = 0
    for value in values:
        form = as_linear(value)
        constant += form.constant
        for signal, weight in form.terms.items():
            terms[signal] = terms.get(signal, 0) + weight
    return Linear(terms, constant)


def equals(bits: Iterable[Linear], number: int) -> list[Linear]:
    """Literals that all hold when `bits` (low first) spell `number`."""
    return [bit if number >> i & 1 else ~bit for i, bit in enumerate(bits)]

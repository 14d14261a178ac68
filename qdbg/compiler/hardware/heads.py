"""Memory: one head of Gated DeltaNet as a table of rows.

The delta rule `S += beta * k (v - S'k)'` with a one-hot key, beta 1 and no decay overwrites one row
exactly; a one-hot query reads one.  The address decoder is the projection itself: component i of
the key is an AND of the literals of row i's address (a projection, then silu).  What a head offers:

* `write`: row -> literals; where they all hold (and `enable` is 1) that row becomes `data`;
* `read`: row -> literals; the sum of the rows whose literals hold comes out;
* `data`: channel -> the value stored, an AND of literals taken `tap` tokens ago (the convolution);
* `gate`: channel -> literals; the channel comes out only where they hold (the output gate);
* `clear`, `halve`: every row times 0, or times exactly 1/2 (softplus(0) is ln 2), before the write;
* `ballast`: where 1, the row written carries the ballast by which the gated norm knows the scale; a
  read must see exactly one ballast, or none at all (then it gives 0, as rows never written do).

Heads of 64 rows and channels are exact to the last bit: the query's scale 1/sqrt(64) is a power of two
(1/sqrt(128) is not).  For the same reason a read of several rows reads 4, 16 or 64 of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from qdbg.compiler.hardware.signals import Linear, Signal

#: Rows of a head and channels of a row; the last channel is the ballast.
HEAD_SIZE = 64
DATA_CHANNELS = HEAD_SIZE - 1
#: The convolution sees this token and the three before it.
MAX_TAP = 3


@dataclass(frozen=True)
class Data:
    """What a channel stores: an AND of `literals` (as they were `tap` tokens ago), or the plain
    number `value` (non-negative, 0 or at least 32 after scaling by 2**`shift`)."""

    literals: tuple[Linear, ...] = ()
    tap: int = 0
    value: Linear | None = None
    shift: int = 0


@dataclass(eq=False)
class Head:
    """See the module's text.  `out` maps a channel to the signals it adds to, with weights."""

    name: str
    write: dict[int, Sequence[Linear]]
    read: dict[int, Sequence[Linear]]
    data: dict[int, Data]
    out: dict[int, dict[Signal, int]]
    enable: Linear
    gate: dict[int, Sequence[Linear]] = field(default_factory=dict)
    clear: Linear | None = None
    halve: Linear | None = None
    ballast: Linear | None = None
    not_before: int = 0

    def __post_init__(self) -> None:
        rows = [*self.write, *self.read]
        channels = [*self.data, *self.out, *self.gate]
        if any(not 0 <= r < HEAD_SIZE for r in rows) or any(not 0 <= c < DATA_CHANNELS for c in channels):
            raise ValueError(f"head {self.name} has rows or channels out of range")
        if any(d.tap > MAX_TAP for d in self.data.values()):
            raise ValueError(f"head {self.name} looks further back than {MAX_TAP} tokens")

    def forms(self) -> Iterator[Linear]:
        """Every linear form that the head reads."""
        for group in (self.write, self.read, self.gate):
            for literals in group.values():
                yield from literals
        for data in self.data.values():
            yield from data.literals
            if data.value is not None:
                yield data.value
        for form in (self.enable, self.clear, self.halve, self.ballast):
            if form is not None:
                yield form

    @property
    def inputs(self) -> set[Signal]:
        """The signals that the head reads."""
        return {signal for form in self.forms() for signal in form.terms}

    @property
    def outputs(self) -> set[Signal]:
        """The signals that the head adds to."""
        return {signal for targets in self.out.values() for signal in targets}

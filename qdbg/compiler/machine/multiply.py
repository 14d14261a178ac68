"""Sums with carries.  P = A * B + C + E, 64 bits, in four levels; its upper part follows a level later.

1. Column sums of the partial products in radix 8: a unit per bit of A and digit, `a_i * (bits of B)`.
2. C and E join; every radix-8 sum is split into its digit and carries, and pairs of digits become
   radix-64 sums of at most 153, so that a group passes on a carry of 0, 1 or 2.
3. Per group, everything the last level asks: its bits for each carry in, and whether it carries out
   by itself (generate) or only just not (propagate).
4. A bit is its value without carry, plus its change where a carry arrives; the carry is a sum of
   disjoint ANDs over the groups below.

Groups 0 to 5 hold the low word.  Their carry out is a signal from which the groups above go on.
A signed product is the unsigned one less B where A is negative and less A where B is: in the upper word
-X is ~X + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qdbg.compiler.hardware.netlist import Netlist, Terms, scale
from qdbg.compiler.hardware.signals import Linear, Signal, total

WORD = 32
WIDTH = 2 * WORD
DIGITS = -(-WIDTH // 3)  # radix 8
GROUPS = -(-WIDTH // 6)  # radix 64
#: Groups that come first, the whole low word among them.
EARLY = 6
MAX_CARRY = 2
#: The level before which the upper columns are not summed: late, where other circuits leave room.
LATE_LEVEL = 6


class Group(NamedTuple):
    """A digit of six bits with what it carries: a form of at most MAX_CARRY * 64 or a little more."""

    name: str
    form: Linear

    @property
    def high(self) -> int:
        """The greatest value."""
        return self.form.bounds[1]


@dataclass
class Product:
    """word, high: the low and the high 32 bits; low: the lowest six bits, a level earlier."""

    word: list[Signal]
    high: list[Signal]
    low: list[Signal]


def multiply_add(
    net: Netlist, a: list[Signal], b: list[Signal], addends: list[list[Signal]], signed: Signal
) -> Product:
    """a * b + the sum of the addends, all unsigned; or, for the high word, a and b `signed`."""
    groups = [Group(g.name, g) for g in _groups(net, _columns(net, a, b, signed), addends)]
    bits = net.bus("product", WIDTH)
    early, late = groups[:EARLY], groups[EARLY:]
    _carry(net, early, [], bits)
    carried = [
        [_sum(net, f"product.carried{n}", _carries(net, early, EARLY - 1, n, []))]
        for n in range(1, MAX_CARRY + 1)
    ]
    _carry(net, late, carried, bits[6 * EARLY :])
    low = [_bit_of(net, groups[0], bit) for bit in range(6)]
    return Product(bits[:WORD], bits[WORD:], low)


def accumulate(
    net: Netlist, a: list[Signal], b: list[Signal], when: Sequence[Linear], target: list[Signal]
) -> None:
    """Drives `target` with the low word of a + b where all of `when` hold, in two levels."""
    pairs = [x + y for x, y in zip(a, b, strict=True)]
    groups = [
        Group(f"sum.group[{first // 6}]", total(p * (1 << i) for i, p in enumerate(pairs[first : first + 6])))
        for first in range(0, WORD, 6)
    ]
    _carry(net, groups, [], target, when)


def _sum(net: Netlist, name: str, paths: list[list[Linear]]) -> Signal:
    return net.define(name, [term for path in paths for term in net.all_of(path)])


def _digit(bits: list[Signal], digit: int) -> Linear:
    return total(bit * (1 << i) for i, bit in enumerate(bits[3 * digit : 3 * digit + 3]))


def _columns(net: Netlist, a: list[Signal], b: list[Signal], signed: Signal) -> list[Signal]:
    sums = []
    for digit in range(DIGITS):
        terms: Terms = []
        high = 0
        level = LATE_LEVEL if digit >= 2 * EARLY else 0

        def add(literals: list[Linear], form: Linear, level: int = level) -> None:
            nonlocal terms, high
            if form.bounds[1]:
                terms = terms + net.all_of(literals, form, level)
                high += form.bounds[1]

        for i in range(WORD):
            places = {p - i: p - 3 * digit for p in range(3 * digit, 3 * digit + 3) if 0 <= p - i < WORD}
            add([a[i]], total(b[bit] * (1 << place) for bit, place in places.items()))
        places = {p - WORD: p - 3 * digit for p in range(3 * digit, 3 * digit + 3) if WORD <= p < WIDTH}
        for one, other in ((a, b), (b, a)):
            less = total(~other[bit] * (1 << place) for bit, place in places.items())
            add([signed, one[WORD - 1]], less + (1 << places[0] if 0 in places else 0))
        sums.append(net.define(f"product.column[{digit}]", terms, 0, high))
    return sums


def _groups(net: Netlist, sums: list[Signal], addends: list[list[Signal]]) -> list[Signal]:
    """Radix-64 sums.  A column v is (v mod 8) + 8 (v // 8 mod 8) + 64 (v // 64)."""
    parts: list[Terms] = [[] for _ in range(GROUPS)]
    highs = [0] * GROUPS
    pieces: list[Callable[[int], int]] = [lambda v: v % 8, lambda v: v // 8 % 8, lambda v: v // 64]
    for digit, column in enumerate(sums):
        form = total([column, *(_digit(addend, digit) for addend in addends)])
        high = form.bounds[1]
        for distance, piece in enumerate(pieces):
            group, odd = divmod(digit + distance, 2)
            most = max(piece(v) for v in range(high + 1))
            if group < GROUPS and most:
                weight = 8 if odd else 1
                parts[group] += scale(net.function(form, 0, high, piece), weight)
                highs[group] += weight * most
    return [
        net.define(f"product.group[{g}]", terms, 0, high)
        for g, (terms, high) in enumerate(zip(parts, highs, strict=True))
    ]


def _carry(
    net: Netlist,
    groups: list[Group],
    below: list[list[Signal]],
    product: list[Signal],
    when: Sequence[Linear] = (),
) -> None:
    """Drives the bits of the groups where all of `when` hold.  `below[n - 1]` tells whether at least n is
    carried into the first."""
    for group, value in enumerate(groups):
        assert (value.high + MAX_CARRY) // 64 <= MAX_CARRY, "a group would carry more than 2"
        carries = [_carries(net, groups, group - 1, n, below) for n in range(1, MAX_CARRY + 1)]
        for bit, target in enumerate(product[6 * group : 6 * group + 6]):
            net.drive(target, net.all_of([*when, _bit_of(net, value, bit)]))
            for more, paths in enumerate(carries, start=1):
                if paths:
                    change = _table(
                        net,
                        value,
                        f"bit{bit}+{more}",
                        lambda v, bit=bit, more=more: (v + more >> bit & 1) - (v + more - 1 >> bit & 1),  # type: ignore[misc]
                        low=-1,
                    )
                    for path in paths:
                        net.drive(target, net.all_of([*when, *path], change))


def _bit_of(net: Netlist, group: Group, bit: int) -> Signal:
    """A bit of a group's sum, before any carry."""
    return _table(net, group, f"bit{bit}", lambda v: v >> bit & 1)


def _table(net: Netlist, value: Group, name: str, f: Callable[[int], int], low: int = 0) -> Signal:
    """A signal that is a function of a group's sum, made once."""
    full = f"{value.name}.{name}"
    if full not in net.signals:
        net.define(full, net.function(value.form, 0, value.high, f), low, 1)
    return net.signals[full]


def _carries(
    net: Netlist, groups: list[Group], group: int, at_least: int, below: list[list[Signal]]
) -> list[list[Linear]]:
    """Disjoint ANDs whose sum is [the carry out of `group` >= at_least]."""
    if group < 0:
        return [list(below[at_least - 1])] if below else []
    value, bound = groups[group], 64 * at_least
    paths: list[list[Linear]] = []
    if value.high >= bound:
        paths.append([_table(net, value, f"carries{at_least}", lambda v: int(v >= bound))])
    for arriving in range(1, MAX_CARRY + 1):
        needed = bound - arriving
        before = _carries(net, groups, group - 1, arriving, below) if value.high >= needed else []
        if before:
            just = _table(net, value, f"is{needed}", lambda v, needed=needed: int(v == needed))  # type: ignore[misc]
            paths += [[just, *path] for path in before]
    return paths

"""P = A * B + C + E modulo 2^32 in four levels.

1. Column sums of the partial products in radix 8: a unit per bit of A and digit, `a_i * (bits of B)`.
2. C and E join; every radix-8 sum is split into its digit and carries, and pairs of digits become
   radix-64 sums of at most 153, so that a group passes on a carry of 0, 1 or 2.
3. Per group, everything the last level asks: its bits for each carry in, and whether it carries out
   by itself (generate) or only just not (propagate).
4. A bit is its value without carry, plus its change where a carry arrives; the carry is a sum of
   disjoint ANDs over the groups below.
"""

from __future__ import annotations

from collections.abc import Callable

from qdbg.compiler.hardware.netlist import Netlist, Terms, scale
from qdbg.compiler.hardware.signals import Linear, Signal, total

WIDTH = 32
DIGITS = -(-WIDTH // 3)  # radix 8
GROUPS = -(-WIDTH // 6)  # radix 64
MAX_CARRY = 2


def multiply_add(net: Netlist, a: list[Signal], b: list[Signal], addends: list[list[Signal]]) -> list[Signal]:
    """The 32 bits of a * b + the sum of the addends."""
    sums = _columns(net, a, b)
    groups = _groups(net, sums, addends)
    return _carry(net, groups)


def _digit(bits: list[Signal], digit: int) -> Linear:
    return total(bit * (1 << i) for i, bit in enumerate(bits[3 * digit : 3 * digit + 3]))


def _columns(net: Netlist, a: list[Signal], b: list[Signal]) -> list[Signal]:
    sums = []
    for digit in range(DIGITS):
        terms: Terms = []
        high = 0
        for i in range(WIDTH):
            places = [p for p in range(3 * digit, min(3 * digit + 3, WIDTH)) if p >= i]
            form = total(b[p - i] * (1 << p - 3 * digit) for p in places)
            if places:
                terms += net.all_of([a[i]], form)
                high += form.bounds[1]
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


def _carry(net: Netlist, groups: list[Signal]) -> list[Signal]:
    product = net.bus("product", WIDTH)
    for group, value in enumerate(groups):
        assert (value.high + MAX_CARRY) // 64 <= MAX_CARRY, "a group would carry more than 2"
        carries = [_carries(net, groups, group - 1, at_least) for at_least in range(1, MAX_CARRY + 1)]
        for bit in range(min(6, WIDTH - 6 * group)):
            target = product[6 * group + bit]
            plain = _table(net, value, f"bit{bit}", lambda v, bit=bit: v >> bit & 1)  # type: ignore[misc]
            net.drive(target, net.copy(plain))
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
                        net.drive(target, net.all_of(path, change))
    return product


def _table(net: Netlist, value: Signal, name: str, f: Callable[[int], int], low: int = 0) -> Signal:
    """A signal that is a function of a group's sum, made once."""
    full = f"{value.name}.{name}"
    if full not in net.signals:
        net.define(full, net.function(value, 0, value.high, f), low, 1)
    return net.signals[full]


def _carries(net: Netlist, groups: list[Signal], group: int, at_least: int) -> list[list[Linear]]:
    """Disjoint ANDs whose sum is [the carry out of `group` >= at_least]."""
    if group < 0:
        return []
    value, bound = groups[group], 64 * at_least
    paths: list[list[Linear]] = []
    if value.high >= bound:
        paths.append([_table(net, value, f"carries{at_least}", lambda v: int(v >= bound))])
    for arriving in range(1, MAX_CARRY + 1):
        needed = bound - arriving
        below = _carries(net, groups, group - 1, arriving) if value.high >= needed else []
        if below:
            just = _table(net, value, f"is{needed}", lambda v, needed=needed: int(v == needed))  # type: ignore[misc]
            paths += [[just, *path] for path in below]
    return paths

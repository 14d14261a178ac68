"""Levels and dimensions: when each unit and head runs, and where each signal lives.

Time runs through the model: 2*layer is a layer's mixer (heads), 2*layer+1 its MLP (units).  Units
and heads run as soon as their inputs are complete.  A signal holds a residual dimension from its
first driver to its last reader; then, if the dimension is used again, a unit erases it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

from qdbg.compiler.hardware.heads import Head
from qdbg.compiler.hardware.netlist import Netlist, Unit
from qdbg.compiler.hardware.signals import Signal

#: Full attention sits at every fourth layer; it has no heads of ours, but its MLP is a logic level.
ATTENTION_PERIOD = 4
#: Read by the output layer: never erased.
FOREVER = 1 << 30


def is_attention(layer: int) -> bool:
    """Whether a layer's mixer is full attention (neutral)."""
    return layer % ATTENTION_PERIOD == ATTENTION_PERIOD - 1


@dataclass
class Life:
    """A signal's dimension and the times of its first write and last read."""

    dimension: int
    start: int
    end: int


@dataclass
class Schedule:
    """The netlist laid out.  `units[layer]`, `heads[layer]`; `erased[layer]` are signals to clear."""

    layers: int
    hidden: int
    intermediate: int
    heads_per_layer: int
    ballast: list[tuple[int, float]]
    units: dict[int, list[Unit]]
    heads: dict[int, list[Head]]
    lives: dict[Signal, Life]
    erased: dict[int, list[Signal]]

    def dimension(self, signal: Signal) -> int:
        """Where a signal lives in the residual stream."""
        return self.lives[signal].dimension


def ballast_dimensions(hidden: int, log_scale: int = 20) -> list[float]:
    """Values whose squares sum to hidden * 4**log_scale, each a power of two.

    With them in the residual stream every RMSNorm multiplies by exactly 2**-log_scale.
    """
    values: list[float] = []
    digit = 0
    while hidden >> (2 * digit):
        values += [2.0 ** (digit + log_scale)] * (hidden >> (2 * digit) & 3)
        digit += 1
    return values[::-1]


def schedule(netlist: Netlist, heads_per_layer: int) -> Schedule:
    """Lay a netlist out.  Raises ValueError on a loop or a signal that nothing drives."""
    times, layers = _times(netlist, heads_per_layer)
    lives = _lifetimes(netlist, times)
    units: dict[int, list[Unit]] = defaultdict(list)
    heads: dict[int, list[Head]] = defaultdict(list)
    for node, time in times.items():
        if isinstance(node, Unit):
            units[time // 2].append(node)
        else:
            heads[time // 2].append(node)
    hidden = 256
    while not _allocate(lives, hidden):
        hidden += 64
    erased: dict[int, list[Signal]] = {layer: [] for layer in range(layers)}
    last = {life.dimension: life.start for life in sorted(lives.values(), key=lambda life: life.start)}
    for signal, life in lives.items():
        if life.start < last[life.dimension]:
            erased[life.end // 2].append(signal)
    width = max(len(units[layer]) + len(erased[layer]) for layer in range(layers))
    ballast = list(enumerate(ballast_dimensions(hidden)))
    return Schedule(
        layers, hidden, -(-width // 64) * 64, heads_per_layer, ballast, dict(units), dict(heads), lives,
        erased,
    )  # fmt: skip


def _times(netlist: Netlist, capacity: int) -> tuple[dict[Unit | Head, int], int]:
    """As soon as possible: a node runs after every driver of every signal that it reads."""
    nodes: list[Unit | Head] = [*(u for u in netlist.units.values() if u.drives), *netlist.heads]
    drivers: dict[Signal, int] = defaultdict(int)
    readers: dict[Signal, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for signal in set(node.inputs):
            readers[signal].append(index)
        for signal in _outputs(node):
            drivers[signal] += 1
    ready: dict[Signal, int] = {s: -1 for token in netlist.embeddings.values() for s in token}
    for signal in readers:
        if not drivers[signal] and signal not in ready:
            raise ValueError(f"nothing drives {signal.name}")
    waiting = {i: sum(1 for s in set(node.inputs) if drivers[s]) for i, node in enumerate(nodes)}
    earliest = dict.fromkeys(waiting, -1)
    for i, node in enumerate(nodes):
        earliest[i] = max([ready.get(s, -1) for s in node.inputs], default=-1)
    queue = [(_slot(nodes[i], earliest[i]), i) for i, count in waiting.items() if not count]
    heapq.heapify(queue)
    used: dict[int, int] = defaultdict(int)
    times: dict[Unit | Head, int] = {}
    while queue:
        time, index = heapq.heappop(queue)
        node = nodes[index]
        if isinstance(node, Head):
            if used[time] == capacity:
                heapq.heappush(queue, (_slot(node, time), index))
                continue
            used[time] += 1
        times[node] = time
        for signal in _outputs(node):
            ready[signal] = max(ready.get(signal, -1), time)
            drivers[signal] -= 1
            if drivers[signal]:
                continue
            for reader in readers[signal]:
                waiting[reader] -= 1
                earliest[reader] = max(earliest[reader], ready[signal])
                if not waiting[reader]:
                    heapq.heappush(queue, (_slot(nodes[reader], earliest[reader]), reader))
    if len(times) < len(nodes):
        stuck = sorted({s.name for s, count in drivers.items() if count})
        raise ValueError(f"the circuit has a loop through {', '.join(stuck[:8])}")
    return times, max(times.values()) // 2 + 1


def _outputs(node: Unit | Head) -> set[Signal]:
    return set(node.drives) if isinstance(node, Unit) else node.outputs


def _slot(node: Unit | Head, after: int) -> int:
    """The first time later than `after` at which the node can run."""
    time = max(after + 1, 2 * node.not_before)
    if isinstance(node, Unit):
        return time | 1
    time += time % 2
    while is_attention(time // 2):
        time += 2
    return time


def _lifetimes(netlist: Netlist, times: dict[Unit | Head, int]) -> dict[Signal, Life]:
    lives: dict[Signal, Life] = {}
    for token in netlist.embeddings.values():
        for signal in token:
            lives.setdefault(signal, Life(-1, -1, -1))
    for node, time in times.items():
        for signal in _outputs(node):
            life = lives.setdefault(signal, Life(-1, time, time))
            # What a unit writes can only be erased an MLP later.
            life.start, life.end = min(life.start, time), max(life.end, time + isinstance(node, Unit))
    for node, time in times.items():
        for signal in set(node.inputs):
            lives[signal].end = max(lives[signal].end, time)
    for form in netlist.logits.values():
        for signal in form.terms:
            lives[signal].end = FOREVER
    for life in lives.values():
        if life.end < FOREVER:
            life.end = max(life.end, 0) | 1  # erasing takes an MLP
    # In the order of declaration: the same circuits must give the same bytes in every process.
    return dict(sorted(lives.items(), key=lambda item: item[0].index))


def _allocate(lives: dict[Signal, Life], hidden: int) -> bool:
    """Linear scan; False if `hidden` dimensions do not suffice."""
    free = list(range(len(ballast_dimensions(hidden)), hidden))
    heapq.heapify(free)
    busy: list[tuple[int, int]] = []
    for signal, life in sorted(lives.items(), key=lambda item: (item[1].start, item[0].index)):
        while busy and busy[0][0] <= life.start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            return False
        life.dimension = heapq.heappop(free)
        # A clock is no integer: its dimension must be empty before something else is added to it.
        heapq.heappush(busy, (life.end + signal.clock, life.dimension))
    return True

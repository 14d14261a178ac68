"""The hardware compiler on circuits small enough to know by heart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdbg.compiler.hardware.check import check, significant_bits
from qdbg.compiler.hardware.heads import Data, Head
from qdbg.compiler.hardware.netlist import Netlist, Unit, scale
from qdbg.compiler.hardware.schedule import FOREVER, ballast_dimensions, is_attention, schedule
from qdbg.compiler.hardware.signals import Linear, Signal, equals, total
from qdbg.compiler.hardware.simulate import SimulationError, Simulator
from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.config import NANO, TINY, MachineConfig

#: Conditions of each row of a head.
Rows = dict[int, Sequence[Linear]]


def numbers(net: Netlist, values: range) -> Signal:
    """A signal that token i sets to values[i]."""
    signal = net.signal("x", min(values), max(values))
    for token, value in enumerate(values):
        net.embeddings[token] = {signal: value}
    return signal


def sawtooth(x: int) -> int:
    return (x + 5) % 3


def simulate(net: Netlist, out: Signal, tokens: int) -> list[float]:
    """The value of `out` for each token, in a fresh batch."""
    net.logits[0] = Linear({out: 1})
    simulator = Simulator(net, schedule(net, 4), tokens)
    simulator.step(list(range(tokens)))
    return [float(v) for v in simulator.value(out)]


def test_step_triangle_and_function() -> None:
    values = range(-5, 12)
    for make, expected in (
        (lambda net, x: net.step(x, 3), lambda v: int(v >= 3)),
        (lambda net, x: net.is_zero(x - 4), lambda v: int(v == 4)),
        (lambda net, x: net.function(x, -5, 11, sawtooth), sawtooth),
        (lambda net, x: scale(net.copy(2 * x - 1), 2), lambda v: 4 * v - 2),
    ):
        net = Netlist()
        out = net.define("out", make(net, numbers(net, values)), -64, 64)
        assert simulate(net, out, len(values)) == [expected(v) for v in values]


def test_conjunction_of_every_polarity() -> None:
    for pattern in product((0, 1), repeat=3):
        net = Netlist()
        bits = net.bus("b", 3)
        for token, content in enumerate(product((0, 1), repeat=3)):
            net.embeddings[token] = dict(zip(bits, content, strict=True))
        number = sum(bit << i for i, bit in enumerate(pattern))
        out = net.define("out", net.all_of(equals(bits, number)))
        assert simulate(net, out, 8) == [float(c == pattern) for c in product((0, 1), repeat=3)]


def test_head_is_a_memory_that_clears_and_delays() -> None:
    net = Netlist()
    write, address, bit, clear = (net.signal(n) for n in ("write", "address", "bit", "clear"))
    stored, before = net.signal("stored"), net.signal("before")
    rows: Rows = {r: equals([address], r) for r in range(2)}
    net.head(Head("ram", rows, rows, {0: Data((bit,))}, {0: {stored: 1}}, write, clear=clear))
    net.head(Head("delay", {0: ()}, {0: ()}, {0: Data((bit,), tap=2)}, {0: {before: 1}}, Linear(constant=1)))
    net.logits[0] = stored + before
    steps = [  # write, address, bit, clear -> stored, bit two tokens ago
        ((1, 0, 1, 0), 1, 0), ((0, 1, 1, 0), 0, 0), ((1, 1, 0, 0), 0, 1), ((0, 0, 0, 0), 1, 1),
        ((0, 0, 1, 1), 0, 0), ((1, 1, 1, 0), 1, 0), ((0, 1, 0, 0), 1, 1),
    ]  # fmt: skip
    for token, (content, _, _) in enumerate(steps):
        net.embeddings[token] = dict(zip((write, address, bit, clear), content, strict=True))
    simulator = Simulator(net, schedule(net, 4))
    for token, (_, value, delayed) in enumerate(steps):
        simulator.step([token])
        assert (simulator.value(stored)[0], simulator.value(before)[0]) == (value, delayed), token


def test_simulator_refuses_what_weights_could_not_do() -> None:
    net = Netlist()
    on, out = net.signal("on"), net.signal("out")
    net.embeddings = {0: {on: 1}}
    both: Rows = {0: (on,), 1: (on,)}
    net.head(Head("ram", both, {0: (on,)}, {0: Data((on,))}, {0: {out: 1}}, on))
    net.logits[0] = Linear({out: 1})
    with pytest.raises(SimulationError, match="ram writes several rows"):
        Simulator(net, schedule(net, 1)).step([0])
    net = Netlist()
    x = numbers(net, range(3))
    net.logits[0] = net.define("bit", net.copy(x))
    with pytest.raises(SimulationError, match="out of bounds, or no integers: bit"):
        Simulator(net, schedule(net, 1)).step([2])


def test_loops_and_floating_signals_are_errors() -> None:
    net = Netlist()
    a, b = net.signal("a"), net.signal("b")
    net.drive(a, net.copy(b))
    net.drive(b, net.copy(a))
    with pytest.raises(ValueError, match="loop through a, b"):
        schedule(net, 1)
    net = Netlist()
    net.define("out", net.copy(net.signal("ghost")))
    with pytest.raises(ValueError, match="nothing drives ghost"):
        schedule(net, 1)


def test_check_finds_what_bfloat16_would_round() -> None:
    net = Netlist()
    x = numbers(net, range(200))
    net.logits[0] = net.define("double", net.copy(2 * x), 0, 398) + net.define(
        "heavy", net.copy(257 * x), 0, 9
    )
    problems = " ".join(check(net, schedule(net, 1)))
    assert "double reaches 398" in problems
    assert "weight 257 has more than 8 bits" in problems


@given(st.integers(-(2**20), 2**20))
def test_significant_bits(number: int) -> None:
    shortest = next(
        b
        for b in range(22)
        if any(abs(number) == m << s for s in range(22) for m in [abs(number) >> s] if m < 1 << b)
    )
    assert significant_bits(number) == shortest


@pytest.mark.parametrize("hidden", [256, 384, 512, 640, 896, 2048, 2560])
def test_ballast_is_an_exact_power_of_four(hidden: int) -> None:
    values = ballast_dimensions(hidden)
    assert sum(int(v) ** 2 for v in values) == hidden * 4**20
    assert all(np.log2(v) % 1 == 0 for v in values)


@pytest.mark.parametrize("config", [NANO, TINY])
def test_schedule_keeps_order_and_dimensions_apart(config: MachineConfig) -> None:
    built = machine(config)
    layout = built.schedule
    times: dict[Unit | Head, int] = {u: 2 * layer + 1 for layer, units in layout.units.items() for u in units}
    times |= {h: 2 * layer for layer, heads in layout.heads.items() for h in heads}
    assert not any(is_attention(layer) for layer in layout.heads)
    assert all(len(heads) <= layout.heads_per_layer for heads in layout.heads.values())
    complete: dict[Signal, int] = {}  # when the last of a signal's writers has written
    for node, time in times.items():
        for signal in node.outputs if isinstance(node, Head) else node.drives:
            complete[signal] = max(time, complete.get(signal, -1))
    for node, time in times.items():
        for signal in node.inputs:
            assert complete.get(signal, -1) < time
            assert layout.lives[signal].start < time <= layout.lives[signal].end
    by_dimension: dict[int, list[Signal]] = {}
    for signal, life in layout.lives.items():
        assert len(layout.ballast) <= life.dimension < layout.hidden
        by_dimension.setdefault(life.dimension, []).append(signal)
    for signals in by_dimension.values():
        signals.sort(key=lambda s: layout.lives[s].start)
        for one, other in pairwise(signals):
            assert layout.lives[one].end <= layout.lives[other].start
            assert one in layout.erased[layout.lives[one].end // 2]
            assert not one.clock or layout.lives[one].end < layout.lives[other].start


DIGEST = """
import hashlib, json
from qdbg.compiler.hardware.emit import emit
from qdbg.compiler.machine.build import _wires, machine
from qdbg.compiler.machine.config import TINY
built = machine(TINY)
digest = hashlib.sha256(json.dumps(_wires(built)).encode())
for name, tensor in emit(built.netlist, built.schedule, len(built.vocabulary)):
    digest.update(name.encode() + tensor.tobytes())
print(digest.hexdigest())
"""


def test_every_process_builds_the_same_bytes() -> None:
    """Sets are ordered by hashes, which differ from process to process."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_the_machine_keeps_its_size() -> None:
    layout = machine(NANO).schedule
    assert (layout.layers, layout.hidden) == (14, 640)
    assert layout.intermediate <= 1344
    assert max(life.end for life in layout.lives.values()) == FOREVER
    assert total([]).bounds == (0, 0)

"""What `qdbg bench` measures.

Speeds mean little on their own: on a shared machine the same engine runs three times as fast a minute
later.  So engines that are compared take turns in one process, in slices of a fraction of a second,
and what counts is the ratio.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.vocabulary import Kind, Token
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare

if TYPE_CHECKING:
    from qdbg.runtime.engine import Engine
    from qdbg.runtime.sparse.engine import SparseEngine
    from qdbg.runtime.suite import Verifier

#: A loop of two instructions of arithmetic in four lanes; its argument `n` sets how long it runs.
LOOP = """// qdbg: launch count<<<1, 4>>>(out = u32[4], n = 10)
.version 8.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 out, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %d<4>;
ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;
mov.u32 %r2, 0; mov.u32 %r3, %r1;
$LOOP:
mad.lo.u32 %r3, %r3, 1664525, 1013904223; add.u32 %r2, %r2, 1;
setp.lt.u32 %p0, %r2, %r0; @%p0 bra $LOOP;
mul.wide.u32 %d1, %r1, 4; add.s64 %d2, %d0, %d1; st.global.u32 [%d2], %r3;
ret;
}
"""


class BenchError(Exception):
    """A measurement that cannot be made; `str()` is one sentence."""


@dataclass(frozen=True)
class Fit:
    """The straight line through points (tokens, seconds) by least squares; r2: 1 if it goes through all."""

    slope: float
    intercept: float
    r2: float


def fit(points: Sequence[tuple[float, float]]) -> Fit:
    """The least-squares line through at least two points."""
    x, y = np.asarray(points, np.float64).T
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total = float(dy @ dy)
    rest = float(((dy - slope * dx) ** 2).sum())
    return Fit(slope, float(y.mean() - slope * x.mean()), 1 - rest / total if total else 1.0)


@dataclass(frozen=True)
class Rates:
    """Medians over the slices, a second; ratio: median of the quotients of slices side by side."""

    each: dict[str, float]
    ratio: float


def rates(turns: Mapping[str, Callable[[], float]], rounds: int) -> Rates:
    """Measure two things in turns.  A turn returns how many a second it did; the ratio is first by second."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            found[name].append(turn())
    first, second = found.values()
    ratio = statistics.median(a / b for a, b in zip(first, second, strict=True))
    return Rates({name: statistics.median(values) for name, values in found.items()}, ratio)


def generating(engine: Engine, ids: Sequence[int], tokens: int, passes: int) -> Callable[[], float]:
    """A turn of single passes within a launch of so many tokens, which starts anew when it is over."""
    engine.prefill(ids)
    start, made = engine.snapshot(), 1

    def turn() -> float:
        nonlocal made
        if made + passes > tokens:
            engine.restore(start)
            made = 1
        begin = time.perf_counter()
        for _ in range(passes):
            engine.step()
        made += passes
        return passes / (time.perf_counter() - begin)

    return turn


def reading(engine: Engine, ids: Sequence[int]) -> Callable[[], float]:
    """A turn of prefill."""

    def turn() -> float:
        begin = time.perf_counter()
        engine.prefill(ids)
        return len(ids) / (time.perf_counter() - begin)

    return turn


def checking(engine: Verifier, ids: Sequence[int], trace: Sequence[int]) -> Callable[[], float]:
    """A turn of verify; counts the tokens that are read, prompt included."""

    def turn() -> float:
        begin = time.perf_counter()
        wrong = engine.verify(ids, trace)
        seconds = time.perf_counter() - begin
        if wrong is not None:
            raise BenchError("the launch that is timed goes wrong on the model; `qdbg verify` says where")
        return (len(ids) + len(trace) - 1) / seconds

    return turn


def weights_per_pass(engine: SparseEngine, ids: Sequence[int], passes: int) -> float:
    """Bytes of weights that a pass of a launch reads, on average."""
    engine.prefill(ids)
    before = engine.model.weights_read
    for _ in range(passes):
        engine.step()
    return (engine.model.weights_read - before) / passes


def memory_bandwidth(size: int = 1 << 28, rounds: int = 5) -> float:
    """Bytes a second that one thread gets through memory: the best of copying so many to and fro."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    best = math.inf
    for _ in range(rounds):
        begin = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - begin)
    return 2 * size / best


def growth(
    engine: Engine, config: MachineConfig, sizes: Sequence[int], tell: Callable[[int], None]
) -> list[tuple[int, float]]:
    """(tokens, processor seconds of generating them) of a loop of each length; `tell` hears of every size.

    Processor time, since a run takes seconds and other work on the machine would bend the line.
    """
    points = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "count.ptx"
        path.write_text(LOOP, encoding="utf-8")
        for n in sizes:
            tell(n)
            image = prepare(path, LaunchOptions(arguments=(("n", str(n)),)), config).image
            token = engine.prefill(image.ids)
            begin, made = time.process_time(), 1
            end = image.vocabulary[Token(Kind.END)]
            while token != end:
                token = engine.step()
                made += 1
            points.append((made, time.process_time() - begin))
    return points

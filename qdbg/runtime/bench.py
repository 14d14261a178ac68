"""What `qdbg bench` measures.

Speeds mean little on their own: on a shared machine the same engine runs three times as fast a minute
later.  So engines that are compared take turns in one process, in slices of a fraction of a second,
and what counts is the ratio.
"""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.vocabulary import Kind, Token
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import open_engine, prepare
from qdbg.runtime.workers import Died, Done, spread

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
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|.)")


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


# -- in a process of its own --------------------------------------------------------------------------------


def alone(work: Callable[[Any], Any], item: Any) -> Any:
    """`work(item)` in a fresh process.  Raises BenchError if that is killed."""
    for event in spread([item], 1, _Nothing(), _Plain(work)):
        match event:
            case Done(_, result):
                return result
            case Died(_, cause):
                raise BenchError(f"a process that was measured was {cause}; is memory short?")
    raise AssertionError("a process ends or dies")


@dataclass(frozen=True)
class _Nothing:
    def __call__(self) -> None:
        return None


@dataclass(frozen=True)
class _Plain:
    work: Callable[[Any], Any]

    def __call__(self, _tools: None, item: Any, _tell: Any) -> Any:
        return self.work(item)


def build_afresh(config: MachineConfig) -> tuple[float, int | None]:
    """(seconds, peak bytes) of building the checkpoint into an empty cache; for `alone`."""
    from qdbg.runtime.checkpoints import find_or_build

    with tempfile.TemporaryDirectory() as folder:
        os.environ["QDBG_CACHE"] = folder
        begin = time.perf_counter()
        find_or_build(config)
        return time.perf_counter() - begin, peak_memory()


def memory_of(task: tuple[str, MachineConfig, list[int], int]) -> int | None:
    """Peak bytes of a process that opens an engine, reads a prompt and makes some passes; for `alone`.

    task: engine, machine, prompt, passes.
    """
    name, config, ids, passes = task
    engine, _ = open_engine(name, config)
    engine.prefill(ids)
    for _ in range(passes):
        engine.step()
    return peak_memory()


def peak_memory() -> int | None:
    """The most bytes that this process has held; None where the system does not say."""
    with suppress(OSError):  # Linux: what `getrusage` says there includes the parent's before `exec`
        status = Path("/proc/self/status").read_text()
        if found := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE):
            return int(found.group(1)) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def first_paint(kernel: Path, patience: float = 60.0) -> float | None:
    """Seconds from the start of `qdbg KERNEL` until its screen shows the first line of the file.

    None where the system has no pseudo-terminals, and where the line did not appear in time.
    """
    if sys.platform == "win32":
        return None
    import fcntl
    import pty
    import select
    import struct
    import termios

    lines = kernel.read_text(encoding="utf-8-sig").splitlines()
    # Highlighting and wrapping may cut a line, but no word.
    words = [word for line in lines[:3] for word in re.findall(r"[A-Za-z]{4,}", line)]
    goal = max(words, key=len, default=kernel.name).encode()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "qdbg", str(kernel)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    screen = b""
    try:
        while (left := begin + patience - time.perf_counter()) > 0:
            if not select.select([ours], [], [], left)[0]:
                return None
            try:
                screen += os.read(ours, 65536)
            except OSError:  # it ended without a screen
                return None
            if goal in _ESCAPE.sub(b"", screen):
                return time.perf_counter() - begin
        return None
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    from importlib.metadata import version

    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        information = Path("/proc/cpuinfo").read_text()
        if found := re.search(r"^model name\s*:\s*(.+)$", information, re.MULTILINE):
            processor = found.group(1)
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "numba", "numpy")},
    }

"""What `qdbg bench` measures in processes of their own: memory, the build, the first picture."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qdbg.compiler.machine.config import MachineConfig
from qdbg.runtime.bench import BenchError
from qdbg.runtime.launcher import open_engine
from qdbg.runtime.workers import Died, Done, spread

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|.)")


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


@dataclass(frozen=True)
class FirstPaint:
    """Seconds from the start of `qdbg KERNEL` until the source is on the screen, and until the prompt is."""

    source: float
    prompt: float


def first_paint(kernel: Path, patience: float = 60.0) -> FirstPaint | None:
    """Start the debugger on a file and look at its screen.

    None where the system has no pseudo-terminals, and where either did not appear in time.
    """
    if sys.platform == "win32":
        return None
    import fcntl
    import pty
    import select
    import struct
    import termios

    lines = kernel.read_text(encoding="utf-8-sig").splitlines()
    # Highlighting may cut a line, but no word; what stands beyond column 40 may lie outside of the pane.
    words = [word for line in lines[:3] for word in re.findall(r"[A-Za-z]{4,}", line[:40])]
    goals = [max(words, key=len, default=kernel.name).encode(), b"(qdbg)"]
    seen: list[float] = []
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
            while goals[len(seen)] in _ESCAPE.sub(b"", screen):
                seen.append(time.perf_counter() - begin)
                if len(seen) == len(goals):
                    return FirstPaint(*seen)
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

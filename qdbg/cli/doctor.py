"""`qdbg doctor`: what works on this machine, and why not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata, util
from pathlib import Path

import click

from qdbg.cli.failure import Exit, complain, first_of
from qdbg.cli.options import json_option

#: Packages whose version decides what a kernel's run looks like.
PACKAGES = ("torch", "transformers", "safetensors", "numpy", "textual", "click", "cuda-bindings")
#: These replace kernels of transformers by others, which the checkpoint was not tested on.
SWAPPED_KERNELS = ("fla", "causal_conv1d")
SMALLEST_TERMINAL = (80, 24)


@dataclass(frozen=True)
class Finding:
    """One line of the report.  `ok` False fails the command, None is worth knowing and no more."""

    name: str
    ok: bool | None
    detail: str


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say what works on this machine, and why not.

    The exit status is 1 if something that is needed is missing.
    """
    findings = [finding for check in CHECKS for finding in check()]
    wrong = [f"{finding.name}: {finding.detail}" for finding in findings if finding.ok is False]
    if as_json:
        report = {"ok": not wrong, "checks": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(report | first_of(wrong)))
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            mark = {True: "ok", False: "FAIL", None: "-"}[finding.ok]
            click.echo(f"{mark:>4}  {finding.name:{width}}  {finding.detail}")
    complain(wrong)
    return int(Exit.MISMATCH if wrong else Exit.OK)


def python() -> Iterator[Finding]:
    """The interpreter's own version."""
    version = platform.python_version()
    yield Finding(
        "python", sys.version_info >= (3, 11), f"{version} on {platform.system()} {platform.machine()}"
    )


def packages() -> Iterator[Finding]:
    """Installed versions, against what qdbg was released for."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(line) for line in metadata.requires("qdbg") or ()]
    except metadata.PackageNotFoundError:
        wanted = []
    pins = {r.name: r.specifier for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})}
    for name in PACKAGES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            # Without cuda-bindings a compiler on PATH still does; `cuda_compiler` judges that.
            yield Finding(
                name, None if name == "cuda-bindings" else False, f"not installed; pip install {name}"
            )
            continue
        pin = pins.get(name)
        fits = pin is None or pin.contains(version, prereleases=True)
        yield Finding(name, fits, version if fits else f"{version}, but qdbg needs {pin}")
    for module in SWAPPED_KERNELS:
        if util.find_spec(module) is not None:
            yield Finding(
                module, None, "installed: transformers uses its kernels, which qdbg was not tested with"
            )


def torch_device() -> Iterator[Finding]:
    """Where the stock engine can run."""
    try:
        import torch
    except ImportError as error:
        yield Finding("torch device", False, str(error))
        return
    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    devices += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield Finding("torch device", True, ", ".join(devices))


def cuda_compiler() -> Iterator[Finding]:
    """Which of the three ways from CUDA to PTX are there; one is enough."""
    from qdbg.compiler.cuda import compiler_name

    yield from (_nvrtc(), _on_path("nvcc"), _on_path("clang"))
    name = compiler_name()
    lack = "none: .cu files cannot be compiled, .ptx files can be opened"
    yield Finding("CUDA to PTX", name is not None, lack if name is None else f"by {name}")


def driver() -> Iterator[Finding]:
    """The NVIDIA driver, which nothing here needs."""
    import ctypes

    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        yield Finding("NVIDIA driver", None, "none, and none is needed")
        return
    yield Finding("NVIDIA driver", None, f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")


def cache() -> Iterator[Finding]:
    """Whether checkpoints can be kept, and how much is."""
    from qdbg.runtime.checkpoints import cache_directory

    directory = cache_directory()
    problem = _why_not_writable(directory)
    if problem:
        yield Finding("cache", False, f"{directory}: {problem}; set QDBG_CACHE to another directory")
        return
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    free = shutil.disk_usage(directory).free
    yield Finding("cache", True, f"{directory}, {size / 1e6:.0f} MB used, {free / 1e9:.1f} GB free")


def terminal() -> Iterator[Finding]:
    """Whether the debugger can be shown."""
    if not sys.stdout.isatty():
        yield Finding("terminal", None, "standard output is not a terminal")
        return
    columns, rows = shutil.get_terminal_size()
    fits = columns >= SMALLEST_TERMINAL[0] and rows >= SMALLEST_TERMINAL[1]
    colours = os.environ.get("COLORTERM") or os.environ.get("TERM", "unknown")
    advice = "" if fits else f", cramped below {SMALLEST_TERMINAL[0]}x{SMALLEST_TERMINAL[1]}"
    yield Finding("terminal", True if fits else None, f"{columns}x{rows}, {colours}{advice}")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python, packages, torch_device, cuda_compiler, driver, cache, terminal,
)  # fmt: skip


def _nvrtc() -> Finding:
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # the binding raises whatever its loader raises
        return Finding("nvrtc", None, " ".join(str(error).split())[:100] or type(error).__name__)
    return Finding("nvrtc", True, f"{major}.{minor}")


def _on_path(name: str) -> Finding:
    """A compiler on PATH; one that does not run is no failure, since another may do."""
    program = shutil.which(name)
    if program is None:
        return Finding(name, None, "not on PATH")
    try:
        run = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return Finding(name, None, f"{program} does not run: {error}")
    lines = [line for line in run.stdout.splitlines() if "version" in line or "release" in line]
    return Finding(name, True, lines[0].strip() if lines else program)


def _why_not_writable(directory: Path) -> str | None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)

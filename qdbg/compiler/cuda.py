"""CUDA to PTX: NVRTC, which needs no driver and no GPU, or else `nvcc` or `clang` on PATH.

The target is `compute_75`: newer ones go through another optimiser and emit more code.  What does not compile
for it, such as `__reduce_add_sync`, is compiled for the first newer one that has it.  Products are not
contracted to fused multiply-adds, so that the same source gives the same bits on every engine.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from .host import DeviceSource, device_source
from .host_headers import IMPLICIT

#: Optimisation level to compiler options; 0 is the one that a person can step.
_NVRTC_LEVELS: dict[int, tuple[str, ...]] = {
    3: (),
    1: ("--Ofast-compile=min",),
    0: ("--Ofast-compile=max",),
}
#: No file's own header has this name.
_IMPLICIT_NAME = "qdbg/implicit.h"
_NVCC_LEVELS: dict[int, tuple[str, ...]] = {3: (), 1: ("-Xcicc", "-O1"), 0: ("-Xcicc", "-O0")}
_NVCC = ("-ptx", "-lineinfo", "--fmad=false")
_CLANG = ("--cuda-device-only", "-S", "-gline-tables-only", "-ffp-contract=off")
_TARGETS = (75, 80, 90)
#: `file(12): error: cause` of NVIDIA's compilers, `file:12:3: error: cause` of clang.
_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)(?:\((?P<line>\d+)\)|:(?P<line2>\d+):\d+): (?:catastrophic |fatal )?error:?"
    r" (?P<cause>.+)$",
    re.MULTILINE,
)


class CompileError(Exception):
    """CUDA that does not compile.

    `str()` begins with one sentence, `file:line: cause`; the compiler's own text follows on the next lines.
    """

    def __init__(self, path: Path, line: int | None, cause: str, log: str = ""):
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {cause}" + (f"\n{log}" if log else ""))
        self.path, self.line, self.cause, self.log = path, line, cause, log


def compile_cuda(path: Path, opt: int = 3) -> str:
    """The PTX text of a CUDA file whose host code, if any, is left aside.

    `opt` is 3 (the compiler's default), 1 or 0.

    Raises:
        CompileError: where the compiler finds an error, or where there is no compiler.
        OSError, UnicodeDecodeError: where the file cannot be read.
    """
    if opt not in _NVRTC_LEVELS:
        raise CompileError(path, None, f"the optimisation level is 3, 1 or 0, not {opt}")
    nvrtc = _nvrtc()
    if nvrtc is not None:
        folders = _wheel_folders()
        source = device_source(path.read_text(encoding="utf-8-sig"), path.parent, folders)
        return _compiled(lambda target: _compile_nvrtc(nvrtc, path, source, folders, opt, target))
    if nvcc := shutil.which("nvcc"):
        options = [nvcc, *_NVCC, *_NVCC_LEVELS[opt]]
        return _compiled(lambda target: _compile_command(path, [*options, f"-arch=compute_{target}"]))
    if clang := shutil.which("clang"):
        options = [clang, *_CLANG, f"-O{opt}"]
        return _compiled(lambda target: _compile_command(path, [*options, f"--cuda-gpu-arch=sm_{target}"]))
    cure = (
        "install nvidia-cuda-nvrtc and cuda-bindings with pip, put nvcc or clang on PATH, or give a .ptx file"
    )
    raise CompileError(path, None, f"there is no CUDA compiler on this machine: {cure}")


def _compiled(compile_for: Callable[[int], str]) -> str:
    """The PTX for the first target that the source compiles for.

    Raises the CompileError of the newest target that the compiler knows: all that is wrong with the source.
    """
    errors: list[CompileError] = []
    for target in _TARGETS:
        try:
            return compile_for(target)
        except CompileError as error:
            errors.append(error)
    raise next((error for error in reversed(errors) if error.line is not None), errors[0])


def compiler_name() -> str | None:
    """The compiler that `compile_cuda` uses here, with its version where it says so; None without one."""
    nvrtc = _nvrtc()
    if nvrtc is not None:
        _, major, minor = nvrtc.nvrtcVersion()
        return f"NVRTC {major}.{minor}"
    return next((name for name in ("nvcc", "clang") if shutil.which(name)), None)


def _nvrtc() -> ModuleType | None:
    """The NVRTC binding, where its library can be loaded."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):  # no binding; its library is not there; it does not load
        return None
    return nvrtc


def _wheel_folders() -> list[Path]:
    """The include folders of the installed nvidia-cuda-runtime, -crt and -cccl wheels."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    folders = [folder for root in roots for folder in sorted(root.glob("cu*/include"))]
    folders = [folder for folder in folders if (folder / "cuda_runtime.h").is_file()]
    return folders + [folder / "cccl" for folder in folders if (folder / "cccl").is_dir()]


def _compile_nvrtc(
    nvrtc: ModuleType, path: Path, source: DeviceSource, folders: list[Path], opt: int, target: int
) -> str:
    options = [f"--gpu-architecture=compute_{target}", "-lineinfo", "--fmad=false", "-default-device"]
    options += ["--device-int128"] if sys.platform == "linux" else []  # elsewhere it is refused
    options += [f"--pre-include={_IMPLICIT_NAME}", *(f"-I{folder}" for folder in (path.parent, *folders))]
    options += _NVRTC_LEVELS[opt]
    result, log = _run_nvrtc(nvrtc, path, source, source.instantiations, options)
    if result is None and source.instantiations:
        # What the host code launches may hang on its own constants: without it the rest still compiles.
        result, log = _run_nvrtc(nvrtc, path, source, (), options)
    if result is None and source.missing:
        # Not having a header may be the cause, so the compiler must be the one to say so.
        found = {name: text for name, text in source.headers.items() if name not in source.missing}
        result, log = _run_nvrtc(nvrtc, path, replace(source, headers=found), (), options)
    if result is None:
        raise _error(path, log)
    return result


def _run_nvrtc(
    nvrtc: ModuleType, path: Path, source: DeviceSource, names: tuple[str, ...], options: list[str]
) -> tuple[str | None, str]:
    """One run of NVRTC: the PTX, or None where it fails, and the log."""
    headers = {**source.headers, _IMPLICIT_NAME: IMPLICIT}
    contents = [text.encode() for text in headers.values()]
    includes = [name.encode() for name in headers]
    status, program = nvrtc.nvrtcCreateProgram(
        source.text.encode(), str(path).encode(), len(contents), contents, includes
    )
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return None, f"NVRTC cannot start: {status.name}"
    try:
        for name in names:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        given = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return None, log or f"NVRTC failed: {status.name}"
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(get_size: Any, get: Any, program: Any) -> str:
    """A text that NVRTC holds, without the zero byte at its end."""
    _, size = get_size(program)
    buffer = bytearray(size)
    get(program, buffer)
    return buffer.decode(errors="replace").rstrip("\0").rstrip() + "\n" if size > 1 else ""


def _compile_command(path: Path, command: list[str]) -> str:
    """Runs nvcc or clang, which know host code by themselves."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.ptx"
        run = subprocess.run(
            [*command, f"-I{path.parent}", "-o", str(output), str(path)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if run.returncode or not output.is_file():
            raise _error(path, run.stdout + run.stderr)
        return output.read_text(encoding="utf-8")


def _error(path: Path, log: str) -> CompileError:
    """The error that a compiler's log tells of; its first line is the cause."""
    match = _ERROR.search(log)
    if match is None:
        first = next(
            (line for line in log.splitlines() if line.strip()), "the compiler failed and said nothing"
        )
        return CompileError(path, None, first, log)
    line = int(match["line"] or match["line2"])
    return CompileError(Path(match["file"]), line, match["cause"].rstrip(), log)

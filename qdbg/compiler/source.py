"""A kernel file as the rest of qdbg sees it: CUDA text, PTX module and the names that a person uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .cuda import compile_cuda
from .files import read_regular
from .host import kernel_parameters
from .mangling import display_name
from .ptx.ir import Function, Instruction, Module
from .ptx.parser import parse


class SourceError(Exception):
    """A file that cannot be used; `str()` is one sentence."""


@dataclass(frozen=True)
class Source:
    """A file that was read and, if it was CUDA, compiled.

    `cuda_lines` is None for a PTX file.  `parameter_names` and `display_names` have an entry for every
    kernel, by its name in the PTX.  `opt` is the level at which CUDA was optimised, 0 for PTX.
    """

    path: Path
    cuda_lines: tuple[str, ...] | None
    ptx: Module
    parameter_names: dict[str, tuple[str, ...]]
    text: str
    display_names: dict[str, str]
    opt: int = 0

    def cuda_line(self, instruction: Instruction) -> int | None:
        """The 1-based line of the user's own file that an instruction comes from, where it is known."""
        location = instruction.location
        if self.cuda_lines is None or location is None:
            return None
        file = Path(self.ptx.files.get(location.file, ""))
        is_own = file.name == self.path.name and location.line <= len(self.cuda_lines)
        return location.line if is_own else None

    def place(self, instruction: Instruction) -> str:
        """`file:line` of an instruction in the user's own file where that is known, else in the PTX."""
        line = self.cuda_line(instruction)
        return f"{self.ptx.path}:{instruction.line}" if line is None else f"{self.path}:{line}"

    def quote(self, instruction: Instruction) -> str:
        """The instruction's text as messages show it, with its PTX line where `place` does not say that."""
        number = "" if self.cuda_line(instruction) is None else f" (PTX line {instruction.line})"
        return f"`{instruction.text.strip()}`{number}"

    def kernel_place(self, kernel: Function) -> str:
        """`file:line` of a kernel in the user's own file; without the line where that is not known."""
        if self.cuda_lines is None:
            return f"{self.path}:{kernel.line}"
        name = re.escape(_plain_name(kernel))
        found = re.search(rf"__global__[^;{{}}]*?\b{name}\s*\(", self.text)
        if found is not None:
            line: int | None = self.text.count("\n", 0, found.end()) + 1
        else:
            line = next((n for n in map(self.cuda_line, kernel.body) if n is not None), None)
        return f"{self.path}" if line is None else f"{self.path}:{line}"


def read_kernel_file(path: Path) -> str:
    """The text of a file that holds any, its lines ending in LF whether the file has LF, CRLF or CR.

    Raises `SourceError`.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise SourceError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise SourceError(f"{path}: this is a directory; give a .cu or .ptx file") from None
    except OSError as error:
        raise SourceError(f"{path}: the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}:{line}: this is not UTF-8 text; save the file as UTF-8") from None
    if "\0" in text:
        raise SourceError(f"{path}: the file holds zero bytes, so it is not CUDA or PTX text")
    if not text.strip():
        raise SourceError(f"{path}: the file is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load_module(path: Path, opt: int = 3) -> Source:
    """Reads a `.cu` or `.ptx` file; `opt` is the optimisation level for CUDA (3, 1 or 0).

    Raises:
        SourceError: for a file that is not there, not text or empty, and for one without a kernel.
        CompileError: for CUDA that does not compile.
        PtxError: for PTX that cannot be read.
    """
    text = read_kernel_file(path)
    if path.suffix == ".ptx":
        module, written = parse(text, str(path)), []
    elif path.suffix in (".cu", ".cuh"):
        module, written = parse(compile_cuda(path, opt), f"{path} (its PTX)"), kernel_parameters(text)
    else:
        raise SourceError(f"{path}: a kernel file ends in .cu or .ptx")
    if not module.kernels:
        cure = "a template needs an explicit instantiation" if written else "write a __global__ function"
        raise SourceError(f"{path}: there is no kernel in this file; {cure}")
    return _source(path, text, module, None if path.suffix == ".ptx" else opt, written)


def ptx_source(text: str, path: str = "<ptx>") -> Source:
    """PTX text that lies in no file; `path` is what messages call it.

    Raises:
        PtxError: for PTX that cannot be read.
    """
    return _source(Path(path), text, parse(text, path), None, [])


def _source(
    path: Path, text: str, module: Module, opt: int | None, written: list[tuple[str, tuple[str | None, ...]]]
) -> Source:
    """`opt` is None for PTX; `written`: the kernels that CUDA text declares."""
    return Source(
        path=path,
        cuda_lines=None if opt is None else tuple(text.removesuffix("\n").split("\n")),
        ptx=module,
        parameter_names={kernel.name: _parameter_names(kernel, written) for kernel in module.kernels},
        text=text,
        display_names={kernel.name: display_name(kernel.name) for kernel in module.kernels},
        opt=opt or 0,
    )


def _plain_name(kernel: Function) -> str:
    """The identifier in front of the kernel's parameters: no namespaces, no template arguments."""
    return display_name(kernel.name).partition("<")[0].rpartition("::")[2]


def _parameter_names(kernel: Function, written: list[tuple[str, tuple[str | None, ...]]]) -> tuple[str, ...]:
    """The names of the parameters, from the CUDA source or else from the PTX (`k_param_0` is `param_0`).

    Of overloads that call them differently nobody knows whose kernel this is.
    """
    plain = _plain_name(kernel)
    count = len(kernel.parameters)
    found = {names for name, names in written if name == plain and len(names) == count}
    names = found.pop() if len(found) == 1 else (None,) * count
    fallback = (parameter.name.removeprefix(f"{kernel.name}_") for parameter in kernel.parameters)
    return tuple(name or other for name, other in zip(names, fallback, strict=True))

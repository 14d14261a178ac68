"""PTX as a library: load a text, launch a kernel on numpy arrays, step through it, look at its threads.

The interpreter runs the PTX; neither a GPU nor a model takes part.  `from qdbg.runtime import load_ptx` is
the way in, and the README has an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdbg.compiler.cuda import CompileError
from qdbg.compiler.ptx.ir import TYPE_BITS, PtxError, Variable
from qdbg.compiler.source import Source, SourceError, load_module, ptx_source
from qdbg.runtime.interpreter import Event, Fault, Interpreter, LimitReached, Printed, Unsupported, Warp
from qdbg.runtime.interpreter.findings import Finding
from qdbg.runtime.interpreter.names import HIGH
from qdbg.runtime.interpreter.warp import coordinates
from qdbg.runtime.launch import Argument, Dim3, Launch, LaunchError, bind, kernel_of
from qdbg.runtime.launch_scanner import dim3
from qdbg.runtime.values import ArrayData, Scalar

__all__ = [
    "CompileError",
    "Event",
    "Fault",
    "Finding",
    "Kernels",
    "LaunchError",
    "LimitReached",
    "Location",
    "Printed",
    "PtxError",
    "PtxLaunch",
    "SourceError",
    "Thread",
    "Unsupported",
    "load_kernels",
    "load_ptx",
]


def load_ptx(text: str, path: str = "<ptx>") -> Kernels:
    """Read PTX text; `path` is what messages call it.  Raises `PtxError`."""
    return Kernels(ptx_source(text, path))


def load_kernels(path: str | Path, opt: Literal[0, 1, 3] = 3) -> Kernels:
    """Read a `.ptx` file, or compile a `.cu` file, optimised as `opt` says.

    Raises `SourceError`, `CompileError` and `PtxError`.
    """
    return Kernels(load_module(Path(path), opt))


class Kernels:
    """The kernels of a file."""

    def __init__(self, source: Source):
        self.source = source

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, as in CUDA where that is known."""
        return tuple(self.source.display_names[kernel.name] for kernel in self.source.ptx.kernels)

    def launch(
        self,
        kernel: str | None,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: ArrayLike | bytes,
        shared: int = 0,
        races: bool = False,
    ) -> PtxLaunch:
        """A launch that stands before its first instruction.

        kernel: a name, None for the only one; grid, block: one to three sizes, x first; arguments: one a
        parameter, in order: an array for a pointer, a number for a scalar, bytes or an array of as many
        bytes for a struct; shared: bytes of dynamic shared memory; races: whether accesses to memory that
        nothing orders are looked for.

        Arrays are copied to the device; `run` copies what the kernel changed back into them.  One array
        that is given twice is one piece of memory.  Raises `LaunchError`.
        """
        launch = Launch(
            kernel, _sizes(grid, "grid"), _sizes(block, "block"), shared, origin="the launch", written=True
        )
        function = kernel_of(self.source, launch)
        names = self.source.parameter_names[function.name]
        if len(arguments) != len(names):
            raise LaunchError(
                "the launch",
                f"{function.name} takes {len(names)} arguments ({', '.join(names) or 'none'}), "
                f"not {len(arguments)}; give one for each",
            )
        arrays: dict[str, NDArray[np.generic]] = {}
        values: list[Argument] = []
        known: dict[int, ArrayData] = {}
        for name, parameter, argument in zip(names, function.parameters, arguments, strict=True):
            value = known.get(id(argument)) or _value(name, parameter, argument)
            if isinstance(value, ArrayData) and isinstance(argument, np.ndarray) and parameter.count is None:
                if id(argument) not in known:
                    arrays[name] = argument
                known[id(argument)] = value
            values.append(Argument(name, value, f"argument {name}"))
        bound = bind(self.source, replace(launch, arguments=tuple(values)))
        return PtxLaunch(Interpreter(self.source.ptx, bound, races=races), arrays)


class PtxLaunch:
    """A launch that can be run, stepped and looked at.

    `interpreter` is what runs it, for everything that is not offered here.
    """

    def __init__(self, interpreter: Interpreter, arrays: Mapping[str, NDArray[np.generic]]):
        """arrays: parameter name -> the caller's array, which gets what the kernel changed."""
        self.interpreter = interpreter
        self._arrays = dict(arrays)

    # -- running --------------------------------------------------------------------------------------

    def run(self, limit: int | None = None) -> None:
        """Run to the end and update the caller's arrays.

        They are updated too when this raises: `Fault` where the kernel does what a GPU stops for,
        `Unsupported` at an instruction that the interpreter lacks, and `LimitReached` after `limit` warp
        instructions.
        """
        try:
            self.interpreter.run(limit)
        finally:
            self.update()

    def step(self) -> Event | None:
        """Execute the next warp instruction; None when the launch is over.

        Raises `Fault` and `Unsupported`.  The caller's arrays stay as they are; `update` changes them.
        """
        return self.interpreter.step()

    def update(self) -> None:
        """Copy what the kernel changed so far into the caller's arrays.

        Raises `ValueError` if it changed one that is read-only.
        """
        for name, array in self._arrays.items():
            content = self.interpreter.array(name).reshape(array.shape)
            if content.tobytes() != array.tobytes():
                array[...] = content

    @property
    def finished(self) -> bool:
        """Whether every thread has exited."""
        return self.interpreter.finished

    # -- looking --------------------------------------------------------------------------------------

    @property
    def printed(self) -> Sequence[Printed]:
        """What the kernel printed so far, a call of printf each."""
        return self.interpreter.printed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the kernel did so far and should not, such as a race; see `Finding.kind`."""
        return self.interpreter.findings

    @property
    def block(self) -> Dim3:
        """The block that runs, x first; blocks run one after another."""
        return coordinates(self.interpreter.block, self.interpreter.bound.grid)

    def thread(self, x: int, y: int = 0, z: int = 0) -> Thread:
        """A thread of the running block.  Raises `IndexError` if the block has none there."""
        sizes = self.interpreter.bound.block
        if not all(0 <= at < size for at, size in zip((x, y, z), sizes, strict=True)):
            raise IndexError(f"a block of {sizes} has no thread {(x, y, z)}")
        number = x + sizes[0] * (y + sizes[1] * z)
        warp, lane = divmod(number, self.interpreter.warps[0].lanes)
        return Thread(self.interpreter, self.interpreter.warps[warp], lane)

    def array(self, name: str) -> NDArray[np.generic]:
        """The present content of a parameter's array or a module variable, one-dimensional; a copy.

        Raises `KeyError`.
        """
        return self.interpreter.array(name).copy()

    @property
    def shared(self) -> NDArray[np.uint8]:
        """The running block's shared memory; a copy."""
        return self.interpreter.shared.copy()


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the code.

    function: its name in the PTX; text: the instruction; line: 1-based, in the PTX; cuda_line: that of the
    CUDA source where it is known.
    """

    function: str
    text: str
    line: int
    cuda_line: int | None


class Thread:
    """A thread of the running block, as it is at the moment."""

    def __init__(self, interpreter: Interpreter, warp: Warp, lane: int):
        self._interpreter, self._warp, self._lane = interpreter, warp, lane

    @property
    def exited(self) -> bool:
        """Whether it has left the kernel."""
        return bool(self._warp.exited[self._lane])

    @property
    def waiting(self) -> bool:
        """Whether it waits for other threads, at a barrier for one."""
        return bool(self._warp.waiting[self._lane] >= 0)

    @property
    def location(self) -> Location | None:
        """The instruction that it will execute next; None after its exit."""
        return None if self.exited else self._location(int(self._warp.pc[self._lane]))

    @property
    def calls(self) -> tuple[Location, ...]:
        """The calls that it is in, the outermost first."""
        return tuple(map(self._location, self._warp.stack.callers(self._lane)))

    def bits(self, register: str) -> int:
        """The bits of a register of the function that it is in, of the kernel after its exit.

        Raises `KeyError`.
        """
        names = self._interpreter.names(int(self._warp.pc[self._lane]))
        low = int(self._warp.registers[names.key(register)][self._lane])
        if names.registers[register] != "b128":
            return low
        return low | int(self._warp.registers[names.key(register + HIGH)][self._lane]) << 64

    def value(self, register: str) -> int | float | bool:
        """A register's value in its declared type; `.b` types count as unsigned.  Raises `KeyError`."""
        bits = self.bits(register)
        type_name = self._interpreter.names(int(self._warp.pc[self._lane])).registers[register]
        if type_name == "pred":
            return bool(bits)
        if type_name in ("f16", "f32", "f64"):
            size = TYPE_BITS[type_name] // 8
            return float(np.frombuffer(bits.to_bytes(size, "little"), f"<f{size}")[0])
        width = TYPE_BITS[type_name]
        return bits - (1 << width) if type_name[0] == "s" and bits >> (width - 1) else bits

    @property
    def registers(self) -> dict[str, int | float | bool]:
        """The values of all registers of the function that it is in."""
        names = self._interpreter.names(int(self._warp.pc[self._lane]))
        return {name: self.value(name) for name in names.function.registers}

    def _location(self, index: int) -> Location:
        function, instruction = self._interpreter.location(index)
        source = self._interpreter.bound.source
        return Location(function.name, instruction.text, instruction.line, source.cuda_line(instruction))


def _sizes(given: int | Sequence[int], what: str) -> Dim3:
    return dim3((given,) if isinstance(given, int) else given, what, "the launch")


def _value(name: str, parameter: Variable, given: ArrayLike | bytes) -> Scalar | ArrayData:
    """What a program gave for a parameter, as a launch has it."""
    if isinstance(given, bytes):
        return ArrayData(np.frombuffer(given, np.uint8))
    array = np.asarray(given)
    if array.dtype.kind not in "biufcV":
        raise LaunchError(f"argument {name}", f"{type(given).__name__} is no number and no array of numbers")
    if array.ndim or parameter.count is not None:
        return ArrayData(np.array(array, order="C").reshape(-1))
    if parameter.type in ("f32", "f64") and array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            bits = array.astype(f"<{parameter.type[0]}{TYPE_BITS[parameter.type] // 8}").tobytes()[::-1]
        return Scalar(f"0{'f' if len(bits) == 4 else 'd'}{bits.hex()}")
    if array.dtype.kind not in "biu":
        raise LaunchError(f"argument {name}", f"{given} is no integer, and {name} is a .{parameter.type}")
    return Scalar(str(int(array)))

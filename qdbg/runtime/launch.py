"""Binding a launch to a kernel: arguments checked against parameters, memory laid out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Function
from qdbg.runtime.launch_arguments import encode_argument, match_arguments, parameter_names
from qdbg.runtime.launch_language import Argument, ExpectSpec, Launch, parse_launches, with_overrides
from qdbg.runtime.launch_memory import BASE, Allocation, Layout, check_size, parameter_offsets
from qdbg.runtime.launch_scanner import Dim3, LaunchError

if TYPE_CHECKING:
    from qdbg.compiler.source import Source

__all__ = [
    "Allocation",
    "Argument",
    "BoundLaunch",
    "Dim3",
    "Expectation",
    "Launch",
    "LaunchError",
    "bind",
    "kernel_of",
    "launch_for",
    "parse_launches",
    "with_overrides",
]

#: The interpreter's memory: enough for any launch that a person debugs, small enough to allocate.
_DEFAULT_MEMORY = 1 << 28
#: Spaces that mean nothing in the name of a template kernel.
_SPACES = re.compile(r"\s*([<>,:*&])\s*")
#: Bytes of parameters that a kernel may have (CUDA C++ programming guide, "Function Parameters").
_MOST_PARAMETERS = 32_764


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an array must hold after the launch; `ulp` None means bit for bit."""

    name: str
    values: NDArray[np.generic]
    ulp: int | None
    origin: str

    def mismatches(self, actual: NDArray[np.generic]) -> NDArray[np.intp]:
        """Indices of the elements of `actual` (same dtype and length) that are not as expected."""
        bits = f"<i{self.values.dtype.itemsize}"
        want, got = self.values.view(bits), actual.view(bits)
        if self.ulp is None:
            return np.flatnonzero(want != got)
        both_nan = np.isnan(self.values) & np.isnan(actual)
        one_nan = np.isnan(self.values) ^ np.isnan(actual)
        distance = [abs(a - b) for a, b in zip(_ordered(want), _ordered(got), strict=True)]
        far = np.array([d > self.ulp for d in distance], dtype=bool)
        return np.flatnonzero((far & ~both_nan) | one_nan)


@dataclass(frozen=True, eq=False)
class BoundLaunch:
    """A launch ready to run.

    parameters: the parameter space's bytes, at `parameter_offsets`; allocations: arrays and module
    variables with their initial content; symbols: addresses of module variables (and of shared ones,
    counted from `shared_base`); the block's shared memory is the bytes from `shared_base` on.
    """

    kernel: Function
    grid: Dim3
    block: Dim3
    parameters: bytes
    parameter_offsets: dict[str, int]
    allocations: tuple[Allocation, ...]
    symbols: dict[str, int]
    shared_base: int
    shared_bytes: int
    expectations: tuple[Expectation, ...]
    launch: Launch
    source: Source

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def memory_end(self) -> int:
        """The first byte past everything that is laid out."""
        return self.shared_base + self.shared_bytes


def launch_for(source: Source, kernel: str | None = None) -> Launch:
    """The file's first launch (of `kernel`, if named), else an empty one to fill with overrides."""
    launches = parse_launches(source.text, str(source.path))
    if kernel is None and launches:
        return launches[0]
    wanted = [f.name for f in _called(source, kernel)] if kernel else []
    for launch in launches:
        called = [f.name for f in _called(source, launch.kernel)] if launch.kernel else []
        if launch.kernel == kernel or any(name in wanted for name in called):
            return launch
    return Launch(kernel=kernel, written=False)


def bind(
    source: Source, launch: Launch, max_threads: int | None = None, memory_bytes: int | None = None
) -> BoundLaunch:
    """Check a launch against its kernel and lay memory out.

    `max_threads` a block and `memory_bytes` are the machine's limits; None where only the interpreter
    runs.  Raises `LaunchError`.
    """
    kernel = kernel_of(source, launch)
    if "external" in kernel.directives:
        where = f"{source.ptx.path}:{kernel.line}"
        raise LaunchError(where, f"{kernel.name} is only declared here; give the file that defines it")
    _check_block(kernel, launch, max_threads)
    layout = Layout()
    offsets = parameter_offsets(kernel.parameters)
    size = max((offsets[p.name] + p.size for p in kernel.parameters), default=0)
    if size > _MOST_PARAMETERS:
        raise LaunchError(
            f"{source.ptx.path}:{kernel.line}",
            f"the parameters of {kernel.name} take {size} bytes, a kernel may have {_MOST_PARAMETERS}; "
            "pass a pointer",
        )
    for variable in kernel.variables:
        if variable.space == "local":
            check_size(source.ptx, variable, launch.threads, _DEFAULT_MEMORY)
    limit = memory_bytes if memory_bytes is not None else _DEFAULT_MEMORY
    image = bytearray(size)
    names = parameter_names(source, kernel)
    arguments = match_arguments(source, launch, kernel, names)
    for parameter, name, argument in zip(kernel.parameters, names, arguments, strict=True):
        content = encode_argument(source, argument, parameter, name, layout)
        image[offsets[parameter.name] : offsets[parameter.name] + parameter.size] = content
    arrays_end = layout.end
    layout.place_variables(source.ptx, kernel, limit)
    shared_bytes = layout.place_shared(source.ptx, kernel, launch.shared)
    shared_base = layout.end
    if shared_bytes == 0:
        shared_base = max((a.allocated_end for a in layout.allocations), default=BASE)
    _check_memory(launch, layout, arrays_end, shared_base + shared_bytes - BASE, shared_bytes, limit)
    bound_names = {a.name: a for a in layout.allocations}
    expectations = tuple(_expectation(source, e, bound_names) for e in launch.expectations)
    return BoundLaunch(
        kernel, launch.grid, launch.block, bytes(image), offsets, tuple(layout.allocations),
        layout.symbols, shared_base, shared_bytes, expectations, launch, source,
    )  # fmt: skip


def _names(source: Source) -> list[tuple[str, Function]]:
    return [(source.display_names.get(f.name, f.name), f) for f in source.ptx.kernels]


def _called(source: Source, name: str) -> list[Function]:
    """The kernels that a name stands for, as the source or the PTX has it; `k<int,3>` is `k<int, 3>`."""
    wanted = _SPACES.sub(r"\1", name.strip())
    return [f for shown, f in _names(source) if wanted in (_SPACES.sub(r"\1", shown), f.name)]


def kernel_of(source: Source, launch: Launch) -> Function:
    """The kernel that a launch names, or the file's only one.  Raises `LaunchError`."""
    named = _names(source)
    where = launch.origin if launch.written else str(source.path)
    if not named:
        raise LaunchError(str(source.path), "the file has no kernel; write a `__global__` function")
    listing = ", ".join(name for name, _ in named)
    if launch.kernel is None:
        if len(named) == 1:
            return named[0][1]
        raise LaunchError(where, f"the file has {len(named)} kernels ({listing}); choose one with --kernel")
    found = _called(source, launch.kernel)
    if not found:
        raise LaunchError(where, f"there is no kernel {launch.kernel}; the file has {listing}")
    if len(found) > 1:
        candidates = ", ".join(f.name for f in found)
        raise LaunchError(where, f"{launch.kernel} names {len(found)} kernels; use one of {candidates}")
    return found[0]


def _check_block(kernel: Function, launch: Launch, max_threads: int | None) -> None:
    if max_threads is not None and launch.threads > max_threads:
        raise LaunchError(
            launch.origin,
            f"a block of {launch.threads} threads is larger than the machine's {max_threads}; "
            "launch more, smaller blocks, or use --engine interpreter",
        )
    required = kernel.directives.get("reqntid")
    if required and (*required, 1, 1)[:3] != launch.block:
        raise LaunchError(launch.origin, f"{kernel.name} requires a block of {required} (.reqntid); use that")
    most = int(np.prod(kernel.directives.get("maxntid") or (1024,)))
    if launch.threads > most:
        raise LaunchError(
            launch.origin,
            f"{kernel.name} allows {most} threads a block (.maxntid), not {launch.threads}; use fewer",
        )


def _check_memory(
    launch: Launch, layout: Layout, arrays_end: int, needed: int, shared: int, limit: int
) -> None:
    """Name what fills the memory, with both sizes, where the launch does not fit."""
    if needed <= limit:
        return
    largest = max(layout.allocations, key=lambda a: a.size, default=None)
    if largest is not None and largest.size >= shared:
        gaps = needed - shared - sum(a.size for a in layout.allocations)
        noticed = f", {gaps} the gaps between arrays, where an index past an end faults"
        origin = next((a.origin for a in launch.arguments if a.name == largest.name), launch.origin)
        raise LaunchError(
            origin,
            f"the launch needs {needed} bytes of memory (of which {largest.name} takes {largest.size}"
            f"{noticed if needed - gaps <= limit else ''}) and the machine has {limit}; use smaller arrays",
        )
    raise LaunchError(
        launch.origin,
        f"the launch needs {needed} bytes of memory (of which shared memory takes {shared}, arrays "
        f"{arrays_end - BASE}) and the machine has {limit}; use less",
    )


def _expectation(source: Source, spec: ExpectSpec, arrays: dict[str, Allocation]) -> Expectation:
    allocation = arrays.get(spec.name)
    if allocation is None:
        listing = ", ".join(arrays) or "no arrays"
        raise LaunchError(spec.origin, f"expect {spec.name} names no array of the launch; it has {listing}")
    try:
        values = spec.value.materialise(source.path.parent)
    except ValueError as error:
        raise LaunchError(spec.origin, str(error)) from None
    data = allocation.data
    if len(values) != len(data):
        raise LaunchError(
            spec.origin,
            f"expect {spec.name} has {len(values)} values and the array {len(data)}; give every element",
        )
    if values.dtype != data.dtype:
        raise LaunchError(
            spec.origin,
            f"expect {spec.name} is {values.dtype} and the array {data.dtype}; use the array's type",
        )
    return Expectation(spec.name, values, spec.ulp, spec.origin)


def _ordered(bits: NDArray[np.generic]) -> list[int]:
    """Float bit patterns (as signed integers) as integers in the order of the floats."""
    sign = 1 << (bits.dtype.itemsize * 8 - 1)
    return [b if b >= 0 else -(b + sign) for b in bits.tolist()]

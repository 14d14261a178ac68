"""Launches on a GPU and on the interpreter, compared bit for bit.

Only what PTX leaves open may differ.  An array of which the file says `expect name ~ ... ulp n` may be n
units in the last place off.  And every approximate instruction that a kernel contains is run by itself on
many operands, and must keep within the error that the ISA states for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Instruction, Module
from qdbg.runtime.gpu import Gpu, GpuError, Job, Pointer
from qdbg.runtime.interpreter import Fault, Interpreter, LimitReached, Unsupported, error_bound
from qdbg.runtime.launch import BoundLaunch, Expectation
from qdbg.runtime.launch_arguments import match_arguments, parameter_names
from qdbg.runtime.ptx import load_ptx
from qdbg.runtime.values import Scalar

#: Operands of each approximate instruction: so many threads in so many blocks.
_THREADS, _BLOCKS = 256, 4
#: numpy type of an operand, PTX type of its register.
_OPERANDS = {
    "f32": ("<f4", "f32"), "f64": ("<f8", "f64"), "f16": ("<u2", "b16"), "bf16": ("<u2", "b16"),
    "f16x2": ("<u4", "b32"), "bf16x2": ("<u4", "b32"),
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """An element of which the GPU made something else."""

    array: str
    index: int
    gpu: str
    interpreter: str

    def __str__(self) -> str:
        return f"{self.array}[{self.index}] is {self.gpu} on the GPU and {self.interpreter} here"


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    elements: compared; differing: not the same bits; wrong: those of them that nothing allows, the first of
    which is `first`; skipped: why nothing was compared; error: what the GPU said instead of a result.
    """

    elements: int = 0
    differing: int = 0
    wrong: int = 0
    first: Difference | None = None
    skipped: str | None = None
    error: str | None = None

    @property
    def same(self) -> bool | None:
        """Whether GPU and interpreter agree; None where nothing was compared."""
        return None if self.skipped else self.error is None and self.wrong == 0


def compare_launch(bound: BoundLaunch, gpu: Gpu, limit: int) -> Compared:
    """Run a launch on both.  One that does not end well on the interpreter is not tried on the GPU."""
    interpreter = Interpreter(bound.source.ptx, bound)
    try:
        interpreter.run(limit)
    except (Fault, Unsupported) as error:
        return Compared(skipped=str(error))
    except LimitReached:
        return Compared(skipped=f"it does not end within {limit:,} PTX instructions")
    job = job_of(bound)
    try:
        found = gpu.run(job)
    except GpuError as error:
        return Compared(error=str(error))
    expectations = {e.name: e for e in bound.expectations}
    total = Compared()
    for name, content in found.items():
        here = interpreter.array(name)
        wrong = _not_allowed(content, here, expectations.get(name))
        total = _add(total, name, content, here, wrong)
    return total


def job_of(bound: BoundLaunch) -> Job:
    """A launch as a GPU takes it.

    A parameter is a pointer where its launch gives an array; its bytes are then an address that counts
    on the interpreter only.  A variable that holds addresses is left out.
    """
    source, launch = bound.source, bound.launch
    names = {a.address: a.name for a in bound.allocations}
    given = match_arguments(source, launch, bound.kernel, parameter_names(source, bound.kernel))
    parameters: list[bytes | Pointer] = []
    for parameter, argument in zip(bound.kernel.parameters, given, strict=True):
        start = bound.parameter_offsets[parameter.name]
        value = bound.parameters[start : start + parameter.size]
        is_pointer = parameter.count is None and not isinstance(argument.value, Scalar)
        parameters.append(Pointer(names[int.from_bytes(value, "little")]) if is_pointer else value)
    arrays = {p.array for p in parameters if isinstance(p, Pointer)}
    relocated = {v.name for v in source.ptx.variables if v.relocations}
    return Job(
        ptx="\n".join(source.ptx.lines) + "\n",
        kernel=bound.kernel.name,
        grid=bound.grid,
        block=bound.block,
        shared=launch.shared,
        parameters=tuple(parameters),
        arrays={a.name: a.data for a in bound.allocations if a.name in arrays},
        variables={
            a.name: a.data
            for a in bound.allocations
            if a.name not in arrays | relocated and a.space == "global"
        },
    )


# -- approximate instructions ------------------------------------------------------------------------------


def approximate(module: Module) -> dict[str, Instruction]:
    """The approximate instructions of a module, one of each name."""
    instructions = (i for function in module.functions for i in function.body)
    return {i.name: i for i in instructions if error_bound(i) is not None}


def compare_instruction(instruction: Instruction, module: Module, gpu: Gpu) -> Compared:
    """Run one instruction of a module on operands of all kinds, on both."""
    bound_of_error = error_bound(instruction)
    assert bound_of_error is not None
    ptx, count = probe(instruction, module)
    dtype = np.dtype(_OPERANDS[instruction.types[0]][0])
    operands = [_operands(dtype, seed) for seed in range(count)]
    out = np.zeros(_BLOCKS * _THREADS, dtype)
    launch = load_ptx(ptx, f"<{instruction.name}>").launch("probe", _BLOCKS, _THREADS, *operands, out)
    job = job_of(launch.interpreter.bound)
    launch.run()
    try:
        found = gpu.run(job)["out"]
    except GpuError as error:
        return Compared(error=str(error))
    admitted = bound_of_error.admits(found, out, *operands)
    # Of a pair of numbers both must be right.
    wrong = np.flatnonzero(~admitted.reshape(len(out), -1).all(axis=1))
    return _add(Compared(), "result", found, out, wrong)


def probe(instruction: Instruction, module: Module) -> tuple[str, int]:
    """PTX whose kernel `probe(a, ..., out)` runs an instruction once a thread, and its number of operands."""
    count = len(instruction.operands) - 1
    names = "abc"[:count]
    type_ = instruction.types[0]
    dtype, register = _OPERANDS[type_]
    size = np.dtype(dtype).itemsize
    parameters = ", ".join(f".param .u64 {name}" for name in (*names, "out"))
    load = "".join(
        f"    ld.param.u64 %d1, [{name}]; add.s64 %d1, %d1, %d0; ld.global.b{8 * size} %x{i}, [%d1];\n"
        for i, name in enumerate(names)
    )
    sources = ", ".join(f"%x{i}" for i in range(count))
    text = f"""\
.version {module.version}
.target {module.target}
.address_size 64
.visible .entry probe({parameters})
{{
    .reg .{register} %x<4>; .reg .b32 %r<4>; .reg .b64 %d<2>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    mul.wide.u32 %d0, %r3, {size};
{load}    {instruction.name} %x3, {sources};
    ld.param.u64 %d1, [out]; add.s64 %d1, %d1, %d0; st.global.b{8 * size} [%d1], %x3;
    ret;
}}
"""
    return text, count


def _operands(dtype: np.dtype[Any], seed: int) -> NDArray[np.generic]:
    """Random patterns, so exponents of all sizes, subnormals, infinities and NaN; half of them moderate."""
    random = np.random.default_rng(seed)
    count = _BLOCKS * _THREADS
    patterns = random.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "f":
        patterns[::2] = random.uniform(-8, 8, count // 2).astype(dtype)
        patterns[:8] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0], dtype)
    return patterns


# -- comparing ---------------------------------------------------------------------------------------------


def _not_allowed(
    found: NDArray[np.generic], here: NDArray[np.generic], expectation: Expectation | None
) -> NDArray[np.intp]:
    """Indices of the elements that must be the same and are not."""
    exact = Expectation("", here, None, "") if expectation is None else replace(expectation, values=here)
    return exact.mismatches(found)


def _add(
    total: Compared,
    name: str,
    found: NDArray[np.generic],
    here: NDArray[np.generic],
    wrong: NDArray[np.intp],
) -> Compared:
    first = total.first
    if first is None and len(wrong):
        index = int(wrong[0])
        first = Difference(name, index, *(_show(a[index]) for a in (found, here)))
    bits = np.dtype(f"<u{here.dtype.itemsize}")
    return Compared(
        total.elements + len(here),
        total.differing + int(np.count_nonzero(found.view(bits) != here.view(bits))),
        total.wrong + len(wrong),
        first,
    )


def _show(value: np.generic) -> str:
    bits = int.from_bytes(value.tobytes(), "little")
    return f"{value} (0x{bits:0{2 * value.nbytes}x})"

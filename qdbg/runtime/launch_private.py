"""Where a launch's parameters and local memory lie, behind everything that the blocks share.

    shared memory | parameters | window of thread 0 | window of thread 1 | ... | scratch

Each piece starts at a multiple of 16, a window at one of what its variables ask for, and is followed by at
least one unallocated word, as the arrays are (`launch_memory`).  A window holds the kernel's frame of local
memory.  The addresses are those of generic pointers into parameters and local memory (PTX ISA 6.4.1),
whether or not a machine puts anything there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qdbg.compiler.machine.config import WARP
from qdbg.compiler.ptx.ir import Function, Symbol, Variable
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.launch_memory import round_up

_ALIGN = 16
_GAP = 4
_BARRIERS = 16


@dataclass(frozen=True)
class PrivateMemory:
    """Byte addresses and sizes.

    parameters: address of the parameter space; parameter_bytes: what lies there, 0 unless the kernel takes
    the address of a parameter; frame: local variable -> offset in a window, of which
    `frame_bytes` are used; local: address of the first window; stride: bytes from one to the next; threads:
    how many windows there are; scratch_bytes: what reductions of a warp and barriers that count need.
    """

    parameters: int
    parameter_bytes: int
    frame: dict[str, int]
    frame_bytes: int
    local: int
    stride: int

    threads: int
    scratch_bytes: int

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Address and size of the window of each thread; none where the kernel has no local variables."""
        if not self.frame_bytes:
            return ()
        return tuple((self.local + t * self.stride, self.frame_bytes) for t in range(self.threads))

    @property
    def scratch(self) -> int:
        """Address of the memory that reductions of a warp and barriers work in."""
        if self.frame_bytes:
            return self.local + self.threads * self.stride
        return self.local if self.parameter_bytes else self.parameters

    @property
    def used(self) -> int:
        """The first byte past what the kernel needs; 0 where it needs nothing."""
        if self.scratch_bytes:
            return self.scratch + self.scratch_bytes
        if self.frame_bytes:
            start, size = self.windows[-1]
            return start + size
        return self.parameters + self.parameter_bytes if self.parameter_bytes else 0

    @property
    def end(self) -> int:
        """Where unused memory begins, a multiple of 16, on a machine that holds what the kernel needs."""
        return (
            round_up(self.scratch + self.scratch_bytes + _GAP, _ALIGN) if self.scratch_bytes else self.scratch
        )


def private_memory(bound: BoundLaunch) -> PrivateMemory:
    """The private memory of a launch."""
    framed = framed_variables(bound.kernel)
    frame, size = frame_offsets(framed)
    align = max([_ALIGN, *(variable.align for variable in framed)])
    parameters = round_up(bound.memory_end + _GAP, _ALIGN)
    local = round_up(parameters + len(bound.parameters) + _GAP, align)
    symbols = {o.name for i in bound.kernel.body for o in i.operands if isinstance(o, Symbol)}
    return PrivateMemory(
        parameters,
        0 if symbols.isdisjoint(bound.parameter_offsets) else len(bound.parameters),
        frame=frame,
        frame_bytes=round_up(size, 4),
        local=local,
        stride=round_up(size + _GAP, align),
        threads=bound.threads,
        scratch_bytes=_scratch_bytes(bound),
    )


def _scratch_bytes(bound: BoundLaunch) -> int:
    """A word for each warp that reduces, then the counter of each barrier that counts threads."""
    counts = [
        i for i in bound.kernel.body
        if i.opcode in ("bar", "barrier") and len(i.operands) == 2 and i.has("sync", "arrive")
    ]  # fmt: skip
    if not counts and all(i.opcode != "redux" for i in bound.kernel.body):
        return 0
    return 4 * -(-bound.threads // WARP) + (4 * _BARRIERS if counts else 0)


def framed_variables(function: Function) -> list[Variable]:
    """The variables in a function's frame: local ones, and those of its call scopes (PTX ISA 5.1.6)."""
    return [v for v in function.variables if v.space in ("local", "param")]


def frame_offsets(variables: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """The offset of each variable in a frame, and the bytes of the frame."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        offsets[variable.name] = round_up(end, max(variable.align, 1))
        end = offsets[variable.name] + variable.size
    return offsets, end

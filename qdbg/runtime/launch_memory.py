"""Where a launch's arrays and a module's variables lie in memory.

One flat address space holds everything: arrays of the launch from `BASE` on, then the module's
`.global` and `.const` variables, then the shared memory of the running block.  Every piece starts at a
multiple of 16 and is followed by at least one unallocated word, so that running over an end faults.

What may be touched is counted in words of 4 bytes, here and in the machine: a piece whose size is no
multiple of 4 has its last word whole, the bytes behind its content being zeros at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.ptx.ir import (
    Address,
    Arguments,
    Function,
    Module,
    Operand,
    Space,
    Symbol,
    Variable,
    Vector,
)
from qdbg.runtime.launch_scanner import LaunchError

BASE = MEMORY_BASE
_ALIGN = 16
_GAP = 4
#: Where device functions lie, one every `_ALIGN` bytes: behind any memory that a launch can have.
_FUNCTIONS = 1 << 31
_WORD = 4
_NUMPY_TYPES = {
    **{f"{kind}{bits}": f"<u{bits // 8}" for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    "f32": "<f4",
    "f64": "<f8",
}


@dataclass(frozen=True, eq=False)
class Allocation:
    """A named piece of memory: `data` is its content before the launch, one-dimensional."""

    name: str
    address: int
    data: NDArray[np.generic]
    space: Space = "global"

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.data.nbytes)

    @property
    def end(self) -> int:
        """The first byte past the content."""
        return self.address + self.size

    @property
    def allocated_end(self) -> int:
        """The first byte that may not be touched: `end` rounded up to a whole word."""
        return round_up(self.end, _WORD)


@dataclass
class Layout:
    """Hands out addresses from `BASE` upwards and keeps what lies where."""

    allocations: list[Allocation] = field(default_factory=list)
    symbols: dict[str, int] = field(default_factory=dict)
    end: int = BASE

    def place(
        self, name: str, data: NDArray[np.generic], space: Space = "global", align: int = _ALIGN
    ) -> Allocation:
        """Put an array at the next free address; one that has its place already keeps it."""
        for known in self.allocations:
            if known.data is data:
                return known
        allocation = Allocation(name, round_up(self.end, max(align, _ALIGN)), data, space)
        self.allocations.append(allocation)
        self.end = round_up(allocation.allocated_end + _GAP, _ALIGN)
        return allocation

    def place_variables(self, module: Module, kernel: Function, limit: int) -> None:
        """Put the module variables that `kernel` can reach, with initial values and addresses filled in.

        Raises LaunchError for one of more than `limit` bytes.
        """
        reached = reachable(module, kernel)
        addresses = function_addresses(module)
        contents: list[tuple[Variable, NDArray[np.uint8]]] = []
        for variable in (*module.variables, *(v for f in module.functions for v in f.variables)):
            if variable.space not in ("global", "const") or variable.name not in reached:
                continue
            check_size(module, variable, 1, limit)
            content = np.zeros(variable.size, np.uint8)
            initial = np.frombuffer(variable.init or b"", np.uint8)
            content[: len(initial)] = initial
            dtype = np.dtype(_NUMPY_TYPES.get(variable.type, "<u1"))
            placed = self.place(variable.name, content.view(dtype), variable.space, variable.align)
            self.symbols[variable.name] = placed.address
            contents.append((variable, content))
        for variable, content in contents:
            for relocation in variable.relocations:
                address = self.symbols.get(relocation.symbol, addresses.get(relocation.symbol))
                if address is None:
                    raise LaunchError(
                        f"{module.path}:{variable.line}",
                        f"the initialiser of {variable.name} takes the address of {relocation.symbol}, which "
                        "is neither a global nor a const variable nor a device function; use one of these",
                    )
                address = (address + relocation.addend) % (1 << 64)
                encoded = np.frombuffer(address.to_bytes(8, "little"), np.uint8)[: relocation.size]
                content[relocation.offset : relocation.offset + relocation.size] = encoded

    def place_shared(self, module: Module, kernel: Function, dynamic: int) -> int:
        """Lay the block's shared variables out; returns the bytes of the window, which starts at `end`.

        They are whole words.  `end` moves up to where the variables are aligned in generic addresses too.
        Their symbols count from the start of the window.  All `extern .shared` arrays are one: the
        dynamic part, behind the static ones (PTX ISA, "Shared State Space").
        """
        scopes = [module.variables, kernel.variables]
        scopes += [f.variables for f in module.functions if not f.is_entry]
        shared = [v for scope in scopes for v in scope if v.space == "shared"]
        reached = reachable(module, kernel)
        size = 0
        used = [v for v in shared if v.name in reached or v in kernel.variables]
        self.end = round_up(self.end, max([_ALIGN, *(v.align for v in used)]))
        for variable in used:
            if not (variable.external or variable.size == 0):
                offset = round_up(size, max(variable.align, 1))
                self.symbols[variable.name] = offset
                size = offset + variable.size
        outer = [v for v in shared if v.external or v.size == 0]
        if outer or dynamic:
            start = round_up(size, max([_ALIGN, *(v.align for v in outer)]))
            self.symbols.update({v.name: start for v in outer})
            size = start + dynamic
        return round_up(size, _WORD)


def parameter_offsets(parameters: Iterable[Variable]) -> dict[str, int]:
    """The byte offset of each parameter in the parameter space (PTX ISA, "Kernel Function Parameters")."""
    offsets: dict[str, int] = {}
    end = 0
    for parameter in parameters:
        offsets[parameter.name] = round_up(end, max(parameter.align, 1))
        end = offsets[parameter.name] + parameter.size
    return offsets


def check_size(module: Module, variable: Variable, copies: int, limit: int) -> None:
    """Raises LaunchError where `copies` of a variable take more than `limit` bytes."""
    if variable.size * copies > limit:
        times = f" for each of {copies} threads" if copies > 1 else ""
        raise LaunchError(
            f"{module.path}:{variable.line}",
            f"{variable.name} takes {variable.size} bytes{times} and there are {limit}; make it smaller",
        )


def round_up(value: int, multiple: int) -> int:
    """The least multiple that is not below the value."""
    return -(-value // multiple) * multiple


def function_addresses(module: Module) -> dict[str, int]:
    """Addresses of the device functions, for indirect calls; nothing can be loaded there."""
    functions = [f.name for f in module.functions if not f.is_entry]
    return {name: _FUNCTIONS + _ALIGN * number for number, name in enumerate(functions)}


def reachable(module: Module, kernel: Function) -> set[str]:
    """Names of the symbols that the kernel, a function that it may call, or an initialiser mentions."""
    functions = {f.name: f for f in module.functions if not f.is_entry}
    local = (v for f in module.functions for v in f.variables)
    variables = {v.name: v for v in (*module.variables, *local)}
    names = set(_mentioned(kernel))
    pending = list(names)
    while pending:
        name = pending.pop()
        found = set(_mentioned(functions[name])) if name in functions else set()
        if name in variables:
            found |= {relocation.symbol for relocation in variables[name].relocations}
        pending += found - names
        names |= found
    return names


def _mentioned(function: Function) -> Iterator[str]:
    for instruction in function.body:
        yield from _symbols(instruction.operands)


def _symbols(operands: Iterable[Operand | None]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Symbol(name):
                yield name
            case Address(base=Symbol(name)):
                yield name
            case Vector(elements) | Arguments(elements):
                yield from _symbols(elements)

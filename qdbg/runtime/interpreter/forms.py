"""Element-wise instructions as a table: opcode and type give a *form*, a function over the lanes.

A form says of which types its operands are and computes the result of all lanes at once; it knows nothing
of registers, masks or warps.  A family of instructions is a module that registers makers of forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from qdbg.compiler.ptx.ir import Instruction

#: One value a lane, NDArray[Any]: the dtype is that of the PTX type, which no static type can follow.
Array: TypeAlias = Any

#: The numpy type in which the lanes' values of a PTX type are computed.
DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"<u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}
INTEGERS = "u16 s16 u32 s32 u64 s64"
BITS = "b16 b32 b64"


@dataclass(frozen=True, slots=True)
class Form:
    """`result = function(*sources)`.

    With `carry_in` the function gets the lanes' carry flags (bool) as a last argument; with `carry_out`
    it returns (result, carry flags).
    """

    sources: tuple[str, ...]
    result: str
    function: Callable[..., Any]
    carry_in: bool = False
    carry_out: bool = False


Maker = Callable[[Instruction], Form]
_MAKERS: dict[tuple[str, str], tuple[frozenset[str], Maker]] = {}


def forms(opcode: str, types: str, modifiers: str = "") -> Callable[[Maker], Maker]:
    """Registers a maker for `opcode` with each first type in `types`, given only these other modifiers."""

    def register(maker: Maker) -> Maker:
        for first in types.split():
            _MAKERS[opcode, first] = (frozenset(modifiers.split()), maker)
        return maker

    return register


def find_form(instruction: Instruction) -> Form | None:
    """The form of an instruction, None where the table has none."""
    types = instruction.types
    allowed, maker = _MAKERS.get((instruction.opcode, types[0] if types else ""), (frozenset(), None))
    if maker is None or not allowed.issuperset(m for m in instruction.modifiers if m not in types):
        return None
    return maker(instruction)


def unsigned(type_name: str) -> str:
    """The unsigned type of the same width."""
    return "u" + type_name[1:]

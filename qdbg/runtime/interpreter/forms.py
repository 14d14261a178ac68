"""Element-wise instructions as a table: opcode, types and modifiers give a *form*, a function over the lanes.

A form says of which types its operands are and computes the result of all lanes at once; it knows nothing
of registers, masks or warps.  A family of instructions is a module that registers makers of forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.bounds import ErrorBound
from qdbg.runtime.interpreter.errors import Refusal

#: One value a lane, NDArray[Any]: the dtype is that of the PTX type, which no static type can follow.
Array: TypeAlias = Any

#: The numpy type in which the lanes' values of a PTX type are held.  The 16-bit floats and pairs of them
#: are bit patterns, since numpy has no bfloat16.
DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"<u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype("<u2"),
    "bf16": np.dtype("<u2"),
    "f16x2": np.dtype("<u4"),
    "bf16x2": np.dtype("<u4"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}
INTEGERS = "u16 s16 u32 s32 u64 s64"
BITS = "b16 b32 b64"
PACKED = ("f16x2", "bf16x2")


@dataclass(frozen=True, slots=True)
class Form:
    """`result = function(*sources)`.

    With `carry_in` the function gets the lanes' carry flags (bool) as a last argument; with `carry_out`
    it returns (result, carry flags).  `error` is how far the ISA lets hardware be from the result; None
    where there is one right result.
    """

    sources: tuple[str, ...]
    result: str
    function: Callable[..., Any]
    carry_in: bool = False
    carry_out: bool = False
    error: ErrorBound | None = None


Maker = Callable[[Instruction], Form]
#: By opcode, then by types ("u32", "f32.s64"): the modifiers and the maker of each form.
_MAKERS: dict[str, dict[str, list[tuple[tuple[str, ...], Maker]]]] = {}


def forms(opcode: str, types: str, *modifiers: str) -> Callable[[Maker], Maker]:
    """Registers a maker for `opcode` with each of `types`, several of one instruction joined by dots.

    Each of `modifiers` is alternatives joined by `|`, with a `?` behind them where none may stand:
    `"rn|rz|rm|rp?", "ftz?"`.  Nothing else may stand, in whatever order.
    """

    def register(maker: Maker) -> Maker:
        for one in types.split():
            _MAKERS.setdefault(opcode, {}).setdefault(one, []).append((modifiers, maker))
        return maker

    return register


def find_form(instruction: Instruction) -> Form | None:
    """The form of an instruction, None for an opcode that has none.

    Raises `Refusal` for types or modifiers that the opcode does not take.
    """
    by_types = _MAKERS.get(instruction.opcode)
    if by_types is None:
        return None
    makers = by_types.get(".".join(instruction.types))
    if makers is None:
        listing = ", ".join(f".{types}" for types in by_types)
        raise Refusal(f"is not supported: {instruction.opcode} takes the types {listing}")
    for modifiers, maker in makers:
        if fits(instruction, modifiers):
            return maker(instruction)
    raise Refusal(_grammar(instruction, [modifiers for modifiers, _ in makers]))


def fits(instruction: Instruction, modifiers: Sequence[str]) -> bool:
    """Whether the modifiers that are no types are as `forms` describes them."""
    left = [m for m in instruction.modifiers if m not in instruction.types]
    for slot in modifiers:
        found = [m for m in left if m in slot.rstrip("?").split("|")]
        if len(found) > 1 or (not found and not slot.endswith("?")):
            return False
        left = [m for m in left if m not in found]
    return not left


def check(instruction: Instruction, modifiers: Sequence[str]) -> None:
    """Raises `Refusal` where the modifiers are not as `forms` describes them."""
    if not fits(instruction, modifiers):
        raise Refusal(_grammar(instruction, [modifiers]))


def _grammar(instruction: Instruction, alternatives: list[Sequence[str]]) -> str:
    def shown(slot: str) -> str:
        names = " or ".join(f".{name}" for name in slot.rstrip("?").split("|"))
        return f"[{names}]" if slot.endswith("?") else names

    name = ".".join((instruction.opcode, *instruction.types))
    takes = "; or ".join(", ".join(map(shown, slots)) or "no modifiers" for slots in alternatives)
    return f"is not supported: {name} takes {takes}"


def unsigned(type_name: str) -> str:
    """The unsigned type of the same width."""
    return "u" + type_name[1:]


def packed(type_name: str, function: Callable[..., Array]) -> Callable[..., Array]:
    """For a packed type `function` of its 16-bit elements, applied to both halves of every lane; else itself.

    The function takes and returns uint16 arrays, twice as long as there are lanes.
    """
    if type_name not in PACKED:
        return function
    return lambda *operands: function(*(x.view("<u2") for x in operands)).view("<u4")


def element(type_name: str) -> str:
    """The type of one element: `f16` for `f16x2`, a scalar type itself."""
    return type_name.removesuffix("x2")

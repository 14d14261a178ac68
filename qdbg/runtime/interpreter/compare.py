"""Comparison and selection (PTX ISA 9.7.6): set, selp, slct, and the comparisons of setp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array, Form, forms
from qdbg.runtime.interpreter.rounding import flush

_ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {name + "u": name for name in _ORDERED}
COMPARISONS = (*_ORDERED, *_UNSIGNED_NAMES, *_UNORDERED, "num", "nan")
COMBINATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
COMPARABLE = "b16 b32 b64 u16 s16 u32 s32 u64 s64 f32 f64"


def comparison(instruction: Instruction, type_name: str) -> Callable[[Array, Array], Array]:
    """The comparison that a set or setp names, on operands of `type_name`.

    The plain comparisons are false where an operand is NaN, `ne` too; those ending in `u` are true.
    """
    name = next((m for m in instruction.modifiers if m in COMPARISONS), None)
    if name is None:
        raise Refusal("names no comparison")
    plain = _ORDERED.get(_UNSIGNED_NAMES.get(name, _UNORDERED.get(name, name)))
    ftz = instruction.has("ftz") and type_name == "f32"
    if not type_name.startswith("f"):
        if plain is None or name in _UNORDERED:
            raise Refusal(f"compares integers with .{name}, which is for floats")
        return plain

    def compare(a: Array, b: Array) -> Array:
        unordered = np.isnan(a) | np.isnan(b)
        if plain is None:
            return unordered if name == "nan" else ~unordered
        if ftz:
            a, b = flush(a), flush(b)
        return plain(a, b) | unordered if name in _UNORDERED else plain(a, b) & ~unordered

    return compare


@forms("set", "u32 s32 f32", " ".join((*COMPARISONS, *COMBINATIONS, "ftz")))
def _set(instruction: Instruction) -> Form:
    to, source = instruction.types
    compare = comparison(instruction, source)
    combine = next((f for m, f in COMBINATIONS.items() if instruction.has(m)), None)
    true = np.ones(1, np.float32)[0] if to == "f32" else ~DTYPES[to].type(0)

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        holds = compare(a, b)
        if combine is not None and c is not None:
            holds = combine(holds, c)
        return np.where(holds, true, DTYPES[to].type(0))

    return Form((source, source, "pred") if combine else (source, source), to, function)


@forms("selp", COMPARABLE)
def _selp(instruction: Instruction) -> Form:
    t = instruction.types[0]
    bits = f"b{TYPE_BITS[t]}"  # a NaN passes through unchanged
    return Form((bits, bits, "pred"), bits, lambda a, b, p: np.where(p, a, b))


@forms("slct", COMPARABLE, "ftz")
def _slct(instruction: Instruction) -> Form:
    t, tested = instruction.types
    bits, ftz = f"b{TYPE_BITS[t]}", instruction.has("ftz")
    return Form((bits, bits, tested), bits, lambda a, b, c: np.where((flush(c) if ftz else c) >= 0, a, b))

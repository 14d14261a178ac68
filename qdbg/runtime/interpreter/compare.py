"""Comparison and selection (PTX ISA 9.7.6 and 9.7.7): set, setp, selp, slct."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction, Pair
from qdbg.runtime.interpreter.data import Action, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.formats import FORMATS
from qdbg.runtime.interpreter.forms import DTYPES, PACKED, Array, Form, check, element, forms, packed
from qdbg.runtime.interpreter.operands import Decoder
from qdbg.runtime.interpreter.patterns import flush_pattern
from qdbg.runtime.interpreter.rounding import flush, narrow

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

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
_FLOAT = "|".join((*_ORDERED, *_UNORDERED, "num", "nan"))
_COMBINATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_COMBINE = "|".join(_COMBINATIONS) + "?"
#: The types that can be compared: groups with the comparisons of each and whether `.ftz` may stand.
_GROUPS: dict[str, tuple[str, ...]] = {
    "b16 b32 b64": ("eq|ne",),
    "s16 s32 s64": ("|".join(_ORDERED),),
    "u16 u32 u64": ("|".join((*_ORDERED, *_UNSIGNED_NAMES)),),
    "f32 f16": (_FLOAT, "ftz?"),
    "f64 bf16": (_FLOAT,),
}
_SLOTS = {name: slots for names, slots in _GROUPS.items() for name in names.split()}
_SELECTABLE = "b16 b32 b64 u16 s16 u32 s32 u64 s64 f32 f64"


def _comparison(instruction: Instruction, type_name: str) -> Callable[[Array, Array], Array]:
    """The comparison that a set or setp names, on operands of a scalar type.

    The plain comparisons are false where an operand is NaN, `ne` too; those ending in `u` are true.
    """
    name = next(m for m in instruction.modifiers if m in _FLOAT.split("|") or m in _UNSIGNED_NAMES)
    plain = _ORDERED.get(_UNSIGNED_NAMES.get(name, _UNORDERED.get(name, name)))
    format_ = FORMATS.get(type_name)
    if format_ is None:
        assert plain is not None
        return plain
    ftz = instruction.has("ftz")

    def number(values: Array) -> Array:
        if type_name in ("f32", "f64"):
            return flush(values) if ftz else values
        return format_.to_f64(flush_pattern(values, format_) if ftz else values)

    def compare(a: Array, b: Array) -> Array:
        a, b = number(a), number(b)
        unordered = np.isnan(a) | np.isnan(b)
        if plain is None:
            return unordered if name == "nan" else ~unordered
        return plain(a, b) | unordered if name in _UNORDERED else plain(a, b) & ~unordered

    return compare


def _combination(instruction: Instruction) -> Callable[[Array, Array], Array] | None:
    return next((f for m, f in _COMBINATIONS.items() if instruction.has(m)), None)


def _set(instruction: Instruction) -> Form:
    """All ones or, for a float destination, 1.0 where the comparison holds; of pairs in each half."""
    to, source = instruction.types
    compare, combine = _comparison(instruction, element(source)), _combination(instruction)
    result = "u16" if source in PACKED and to not in PACKED else element(to)
    true = ~DTYPES[result].type(0) if result[0] in "us" else _one(result)

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        holds = compare(a, b)
        if combine is not None and c is not None:
            holds = combine(holds, np.repeat(c, len(holds) // len(c)))
        return np.where(holds, true, true.dtype.type(0))

    def packed_function(a: Array, b: Array, *c: Array) -> Array:
        return packed(source, lambda x, y: function(x, y, *c))(a, b)

    return Form((source, source, "pred") if combine else (source, source), to, packed_function)


def _one(type_name: str) -> Array:
    """1.0 in a float type, as its lanes are held."""
    if type_name in ("f16", "bf16"):
        return narrow(np.ones(1), FORMATS[type_name], "rn")[0]
    return DTYPES[type_name].type(1)


for _source, _slots in _SLOTS.items():
    _to = ("u32", "s32", "f32") if _source not in ("f16", "bf16") else ("u16", "s16", "u32", "s32")
    forms("set", " ".join(f"{to}.{_source}" for to in (*_to, "f16", "bf16")), *_slots, _COMBINE)(_set)
forms("set", "f16x2.f16x2 u32.f16x2 s32.f16x2", _FLOAT, "ftz?", _COMBINE)(_set)
forms("set", "bf16x2.bf16x2 u32.bf16x2 s32.bf16x2", _FLOAT, _COMBINE)(_set)


@forms("selp", _SELECTABLE)
def _selp(instruction: Instruction) -> Form:
    bits = f"b{TYPE_BITS[instruction.types[0]]}"  # a NaN passes through unchanged
    return Form((bits, bits, "pred"), bits, lambda a, b, p: np.where(p, a, b))


def _slct(instruction: Instruction) -> Form:
    """a where c >= 0: for -0 too, not for NaN."""
    t, tested = instruction.types
    bits, ftz = f"b{TYPE_BITS[t]}", instruction.has("ftz")
    return Form((bits, bits, tested), bits, lambda a, b, c: np.where((flush(c) if ftz else c) >= 0, a, b))


forms("slct", " ".join(f"{t}.s32" for t in _SELECTABLE.split()))(_slct)
forms("slct", " ".join(f"{t}.f32" for t in _SELECTABLE.split()), "ftz?")(_slct)


@builder("setp")
def _setp(decoder: Decoder) -> Action:
    """p = (a cmp b) op c and q = (not (a cmp b)) op c: q is not simply the negation of p.

    Of pairs p is the lower half's comparison and q the upper half's.
    """
    instruction = decoder.instruction
    (type_name,) = instruction.types
    if element(type_name) not in _SLOTS:
        raise Refusal(f"is not supported: setp compares no .{type_name}")
    check(instruction, (*_SLOTS[element(type_name)], _COMBINE))
    destination, *sources = instruction.operands
    compare, combine = _both(instruction, type_name), _combination(instruction)
    if len(sources) != (3 if combine else 2):
        raise Refusal("has the wrong number of operands")
    first, second = (decoder.read(operand, type_name) for operand in sources[:2])
    third = decoder.read(sources[2], "pred") if combine else None
    pair = destination if isinstance(destination, Pair) else None
    if type_name in PACKED and pair is None:
        raise Refusal("needs two destinations p|q, one for each half")
    write_p = decoder.write(pair.first if pair else destination, "pred")
    write_q = decoder.write(pair.second, "pred") if pair and pair.second else None

    def action(warp: Warp, active: Array) -> None:
        p, q = compare(first(warp), second(warp))
        if combine is not None and third is not None:
            other = third(warp)
            p, q = combine(p, other), combine(q, other)
        write_p(warp, active, p)
        if write_q is not None:
            write_q(warp, active, q)

    return action


def _both(instruction: Instruction, type_name: str) -> Callable[[Array, Array], tuple[Array, Array]]:
    """What setp compares for p and for q."""
    compare = _comparison(instruction, element(type_name))

    def scalar(a: Array, b: Array) -> tuple[Array, Array]:
        holds = compare(a, b)
        return holds, ~holds

    def halves(a: Array, b: Array) -> tuple[Array, Array]:
        holds = compare(a.view("<u2"), b.view("<u2"))
        return holds[::2], holds[1::2]

    return halves if type_name in PACKED else scalar

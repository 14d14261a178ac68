"""cvt (PTX ISA 9.7.9, "cvt") among integers, f16, bf16, f32 and f64.

Every float is exact in f64, so that a conversion is: to f64, then rounded once to the destination.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction
from qdbg.runtime.interpreter import float16
from qdbg.runtime.interpreter.float64 import with_payload
from qdbg.runtime.interpreter.formats import FORMATS, Mode
from qdbg.runtime.interpreter.forms import DTYPES, Array, Form, element, forms
from qdbg.runtime.interpreter.integer import saturate
from qdbg.runtime.interpreter.rounding import (
    canonical,
    correct,
    flush,
    narrow,
    round_to_f32,
    rounding_mode,
    saturate_unit,
    sum_to_odd,
    two_sum,
)

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_RND, _TO_INTEGER = "rn|rz|rm|rp", "rni|rzi|rmi|rpi"
_INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,  # ties to even
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _pairs(to: tuple[str, ...], source: tuple[str, ...]) -> str:
    return " ".join(f"{t}.{s}" for t in to for s in source)


@forms("cvt", _pairs(_INTEGERS, _INTEGERS), "sat?")
def _integer_to_integer(instruction: Instruction) -> Form:
    """The source's type extends, the destination's truncates, or clamps with `.sat`."""
    to, source = instruction.types
    dtype = DTYPES[to]
    if instruction.has("sat"):
        return Form((source,), to, lambda a: saturate(a, dtype))
    return Form((source,), to, lambda a: a.astype(dtype))


def _to_integer(instruction: Instruction) -> Form:
    """Always clamps.  NaN gives 0, or the most negative value where f64 or a 64-bit integer is involved."""
    to, source = instruction.types
    integral = next(f for m, f in _INTEGRAL.items() if instruction.has(m))
    dtype, ftz = DTYPES[to], instruction.has("ftz")
    low, high, bits = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), TYPE_BITS[to]
    nan = dtype.type(0)
    if source == "f64" or bits == 64:
        nan = np.array(1 << (bits - 1), f"<u{bits // 8}").view(dtype)[()]

    def function(a: Array) -> Array:
        value = integral(FORMATS[source].to_f64(flush(a) if ftz else a))
        too_low, too_high = value < float(low), value >= float(high + 1)
        inside = np.where(too_low | too_high | np.isnan(value), 0.0, value)
        wide = inside.astype(np.uint64 if dtype.kind == "u" else np.int64).astype(dtype)
        clamped = np.where(too_low, dtype.type(low), np.where(too_high, dtype.type(high), wide))
        return np.where(np.isnan(value), nan, clamped).astype(dtype)

    return Form((source,), to, function)


forms("cvt", _pairs(_INTEGERS, ("f32",)), _TO_INTEGER, "ftz?", "sat?")(_to_integer)
forms("cvt", _pairs(_INTEGERS, ("f16", "bf16", "f64")), _TO_INTEGER, "sat?")(_to_integer)


def round_f64(exact: Array, to: str, mode: Mode) -> Array:
    """f64 values rounded once to a float type.  NaN becomes the canonical one, but quiet in f64."""
    if to == "f64":
        return with_payload(exact, exact)
    return canonical(round_to_f32(exact, mode)) if to == "f32" else narrow(exact, FORMATS[to], mode)


def _integer_to_f64(a: Array, mode: Mode) -> Array:
    """Rounded once: both halves of a 64-bit integer are exact in f64, their sum need not be."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    total, error = two_sum(*_halves(a))
    return correct(total, error < 0, error > 0, mode)


def _halves(a: Array) -> tuple[Array, Array]:
    """The upper and lower 32 bits of 64-bit integers as f64; their sum is the integer."""
    high = (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
    return high, (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)


def _from_integer(instruction: Instruction) -> Form:
    to, source = instruction.types
    mode, sat = rounding_mode(instruction), instruction.has("sat")

    def function(a: Array) -> Array:
        if to == "f64":
            result = _integer_to_f64(a, mode)
        elif a.dtype.itemsize == 8:
            result = round_f64(sum_to_odd(*_halves(a)), to, mode)
        else:
            result = round_f64(a.astype(np.float64), to, mode)
        return _saturated(result, to) if sat else result

    return Form((source,), to, function)


def _saturated(result: Array, to: str) -> Array:
    return saturate_unit(result) if to in ("f32", "f64") else float16.saturate(result, FORMATS[to])


forms("cvt", _pairs(("f32",), _INTEGERS), _RND, "ftz?", "sat?")(_from_integer)
forms("cvt", _pairs(("f16", "f64"), _INTEGERS), _RND, "sat?")(_from_integer)
forms("cvt", _pairs(("bf16",), _INTEGERS), _RND)(_from_integer)


def _float_to_float(instruction: Instruction) -> Form:
    """With `.rni` and the like to an integral number of the same format; without a modifier it is a move.

    `.ftz` makes a NaN of f32 the canonical one before it becomes a wider one.
    """
    to, source = instruction.types
    if instruction.modifiers == (to, to):
        bits = f"b{TYPE_BITS[to]}"
        return Form((bits,), bits, lambda a: a)
    integral = next((f for m, f in _INTEGRAL.items() if instruction.has(m)), None)
    mode, ftz = rounding_mode(instruction), instruction.has("ftz")

    def function(a: Array) -> Array:
        if ftz and source == "f32":
            a = canonical(flush(a))
        exact = FORMATS[source].to_f64(a)
        result = round_f64(integral(exact) if integral else exact, to, mode)
        if ftz and to == "f32":
            result = flush(result)
        if instruction.has("sat"):
            return _saturated(result, to)
        return float16.rectify(result, FORMATS[to]) if instruction.has("relu") else result

    return Form((source,), to, function)


for _type in ("f16", "f32", "f64", "bf16"):  # of one format: to an integral number, or clamped, or flushed
    _extra = {"f32": ("ftz?", "sat?"), "bf16": ()}.get(_type, ("sat?",))
    forms("cvt", f"{_type}.{_type}", f"{_TO_INTEGER}?", *_extra)(_float_to_float)
forms("cvt", "f64.f32 f32.f16", "ftz?", "sat?")(_float_to_float)  # wider: always exact
forms("cvt", "f64.f16", "sat?")(_float_to_float)
forms("cvt", "f32.bf16", "ftz?", "sat?")(_float_to_float)
forms("cvt", "f64.bf16", "sat?")(_float_to_float)
forms("cvt", "f32.f64 f16.f32", _RND, "ftz?", "sat?")(_float_to_float)
forms("cvt", "f16.f64 f16.bf16", _RND, "sat?")(_float_to_float)
forms("cvt", "bf16.f32", _RND, "ftz?")(_float_to_float)
forms("cvt", "bf16.f64 bf16.f16", _RND)(_float_to_float)


def _from_f32(instruction: Instruction) -> Form:
    """With `.relu` and `.satfinite`, and two at a time: the first source goes into the upper half."""
    to = instruction.types[0]
    format_, mode = FORMATS[element(to)], rounding_mode(instruction)
    relu, finite = instruction.has("relu"), instruction.has("satfinite")

    def convert(a: Array) -> Array:
        exact = a.astype(np.float64)
        if finite:
            exact = np.clip(exact, -format_.largest, format_.largest)  # NaN stays
        result = narrow(exact, format_, mode)
        return float16.rectify(result, format_) if relu else result

    if to == element(to):
        return Form(("f32",), to, convert)

    def convert_two(a: Array, b: Array) -> Array:
        return np.stack([convert(b), convert(a)], axis=1).view("<u4").reshape(-1)

    return Form(("f32", "f32"), to, convert_two)


forms("cvt", "f16.f32 bf16.f32 f16x2.f32 bf16x2.f32", "rn|rz", "relu?", "satfinite?")(_from_f32)

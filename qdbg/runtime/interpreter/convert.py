"""cvt (PTX ISA 9.7.9, "cvt") among integers, f32 and f64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.float32 import rounding_mode
from qdbg.runtime.interpreter.forms import DTYPES, Array, Form, forms
from qdbg.runtime.interpreter.integer import saturate
from qdbg.runtime.interpreter.rounding import canonical, flush, round_to_f32, saturate_unit, sum_to_odd

_INTEGERS = "u8 s8 u16 s16 u32 s32 u64 s64"
_TO_INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,  # ties to even
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


@forms("cvt", _INTEGERS + " f32 f64", "sat ftz rn rz rm rp rni rzi rmi rpi")
def _cvt(instruction: Instruction) -> Form:
    to, source = instruction.types
    if source not in DTYPES:
        raise Refusal(f"converts from .{source}, which is not supported yet")
    if source.startswith("f"):
        function = _float_to_float if to.startswith("f") else _float_to_integer
    else:
        function = _integer_to_float if to.startswith("f") else _integer_to_integer
    return Form((source,), to, function(instruction, to, source))


def _integer_to_integer(instruction: Instruction, to: str, source: str) -> Callable[[Array], Array]:
    """The source's type extends, the destination's truncates, or clamps with `.sat`."""
    dtype = DTYPES[to]
    if instruction.has("sat"):
        return lambda a: saturate(a, dtype)
    return lambda a: a.astype(dtype)


def _integral(instruction: Instruction) -> Callable[[Array], Array] | None:
    return next((f for m, f in _TO_INTEGRAL.items() if instruction.has(m)), None)


def _float_to_integer(instruction: Instruction, to: str, source: str) -> Callable[[Array], Array]:
    """Always clamps.  NaN gives 0, or the most negative value where a 64-bit type is involved."""
    integral = _integral(instruction)
    if integral is None:
        raise Refusal("converts to an integer without .rni, .rzi, .rmi or .rpi")
    dtype, ftz = DTYPES[to], instruction.has("ftz")
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bits = dtype.itemsize * 8
    nan = dtype.type(0)
    if source == "f64" or bits == 64:
        nan = np.array(1 << (bits - 1), f"<u{bits // 8}").view(dtype)[()]

    def function(a: Array) -> Array:
        value = integral((flush(a) if ftz and source == "f32" else a).astype(np.float64))
        too_low, too_high = value < float(low), value >= float(high + 1)
        inside = np.where(too_low | too_high | np.isnan(value), 0.0, value)
        wide = inside.astype(np.uint64 if dtype.kind == "u" else np.int64).astype(dtype)
        clamped = np.where(too_low, dtype.type(low), np.where(too_high, dtype.type(high), wide))
        return np.where(np.isnan(value), nan, clamped).astype(dtype)

    return function


def _integer_to_float(instruction: Instruction, to: str, source: str) -> Callable[[Array], Array]:
    mode, sat = rounding_mode(instruction), instruction.has("sat")
    if to == "f64" and mode != "rn" and source in ("u64", "s64"):
        raise Refusal("rounds a 64-bit integer to .f64 in a mode that is not supported yet")

    def function(a: Array) -> Array:
        if to == "f64":
            result = a.astype(np.float64)
        elif a.dtype.itemsize == 8:  # both halves are exact in f64, their sum need not be
            high = (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
            low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
            result = round_to_f32(sum_to_odd(high, low), mode)
        else:
            result = round_to_f32(a.astype(np.float64), mode)
        return saturate_unit(result) if sat else result

    return function


def _float_to_float(instruction: Instruction, to: str, source: str) -> Callable[[Array], Array]:
    integral, mode = _integral(instruction), rounding_mode(instruction)
    ftz, sat = instruction.has("ftz"), instruction.has("sat")

    def function(a: Array) -> Array:
        if ftz and source == "f32":
            a = flush(a)
        if integral is not None:
            a = integral(a)
        if to == "f64":
            result = a.astype(np.float64)
        else:
            result = canonical(a if source == "f32" else round_to_f32(a, mode))
            result = flush(result) if ftz else result
        return saturate_unit(result) if sat else result

    return function

"""Double precision (PTX ISA 9.7.3, "Floating Point Instructions").

NaN payloads are passed on: the result is the first operand that is NaN, made quiet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter import exact
from qdbg.runtime.interpreter.formats import F64, Mode
from qdbg.runtime.interpreter.forms import Array, Form, forms
from qdbg.runtime.interpreter.rounding import rounding_mode

_QUIET = np.uint64(1 << 51)


def with_payload(result: Array, *operands: Array) -> Array:
    """f64 results whose NaN are those of the operands, made quiet, or the default one where no operand is."""
    if not np.isnan(result).any():
        return result
    bits = np.where(np.isnan(result), np.uint64(F64.nan), result.view(np.uint64))
    for operand in reversed(operands):
        bits = np.where(np.isnan(operand), operand.view(np.uint64) | _QUIET, bits)
    return bits.view(np.float64)


def exactly(
    operation: Callable[..., int], lanes: Array, near: Array, operands: tuple[Array, ...], mode: Mode
) -> Array:
    """`near`, and in `lanes` (bool) the result of an operation of `exact` on the operands."""
    bits = near.view(np.uint64).copy()
    chosen = np.flatnonzero(lanes)
    rows = zip(*(operand.view(np.uint64)[chosen].tolist() for operand in operands), strict=True)
    bits[chosen] = [operation(*row, F64, mode) for row in rows]
    return bits.view(np.float64)


def _finite(*operands: Array) -> Array:
    return np.logical_and.reduce([np.isfinite(operand) for operand in operands])


def add(a: Array, b: Array, mode: Mode = "rn") -> Array:
    """a + b of f64."""
    near = np.add(a, b)
    if mode != "rn":
        near = exactly(exact.add, _finite(a, b), near, (a, b), mode)
    return with_payload(near, a, b)


def subtract(a: Array, b: Array, mode: Mode = "rn") -> Array:
    """a - b of f64; a NaN is passed on with its own sign."""
    near = np.subtract(a, b)
    if mode != "rn":
        near = exactly(exact.add, _finite(a, b), near, (a, np.negative(b)), mode)
    return with_payload(near, a, b)


def multiply(a: Array, b: Array, mode: Mode = "rn") -> Array:
    """a * b of f64."""
    near = np.multiply(a, b)
    if mode != "rn":
        near = exactly(exact.multiply, _finite(a, b), near, (a, b), mode)
    return with_payload(near, a, b)


def fused_multiply_add(a: Array, b: Array, c: Array, mode: Mode = "rn") -> Array:
    """a * b + c of f64, rounded once."""
    near = np.where(_finite(a, b), c, a * b + c)  # what holds where an operand is not finite
    return with_payload(exactly(exact.fused_multiply_add, _finite(a, b, c), near, (a, b, c), mode), a, b, c)


def divide(a: Array, b: Array, mode: Mode = "rn") -> Array:
    """a / b of f64."""
    near = np.divide(a, b)
    if mode != "rn":
        near = exactly(exact.divide, _finite(a, b) & (b != 0), near, (a, b), mode)
    return with_payload(near, a, b)


def square_root(a: Array, mode: Mode = "rn") -> Array:
    """The square root of f64."""
    near = np.sqrt(a)
    if mode != "rn":
        near = exactly(exact.square_root, _finite(a) & (a > 0), near, (a,), mode)
    return with_payload(near, a)


def _arithmetic(function: Callable[..., Array], arity: int) -> Callable[[Instruction], Form]:
    def make(instruction: Instruction) -> Form:
        mode = rounding_mode(instruction)
        return Form(("f64",) * arity, "f64", lambda *operands: function(*operands, mode))

    return make


_RND = "rn|rz|rm|rp"
forms("add", "f64", f"{_RND}?")(_arithmetic(add, 2))
forms("sub", "f64", f"{_RND}?")(_arithmetic(subtract, 2))
forms("mul", "f64", f"{_RND}?")(_arithmetic(multiply, 2))
forms("fma", "f64", _RND)(_arithmetic(fused_multiply_add, 3))
forms("mad", "f64", _RND)(_arithmetic(fused_multiply_add, 3))
forms("div", "f64", _RND)(_arithmetic(divide, 2))
forms("sqrt", "f64", _RND)(_arithmetic(square_root, 1))
forms("rcp", "f64", _RND)(_arithmetic(lambda a, mode: divide(np.ones_like(a), a, mode), 1))

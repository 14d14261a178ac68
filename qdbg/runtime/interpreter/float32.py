"""Single-precision arithmetic (PTX ISA 9.7.3, "Floating Point Instructions")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter import rounding
from qdbg.runtime.interpreter.bounds import ErrorBound
from qdbg.runtime.interpreter.formats import Mode
from qdbg.runtime.interpreter.forms import Array, Form, forms
from qdbg.runtime.interpreter.rounding import canonical, flush, rounding_mode, saturate_unit


def arithmetic(
    function: Callable[..., Array], arity: int, error: ErrorBound | None = None
) -> Callable[[Instruction], Form]:
    """A maker for `function(*operands, mode)` with `.ftz`, canonical NaN and `.sat` around it."""

    def make(instruction: Instruction) -> Form:
        mode, ftz, sat = rounding_mode(instruction), instruction.has("ftz"), instruction.has("sat")

        def compute(*operands: Array) -> Array:
            if ftz:
                operands = tuple(flush(x) for x in operands)
            result = canonical(function(*operands, mode))
            result = flush(result) if ftz else result
            return saturate_unit(result) if sat else result

        return Form(("f32",) * arity, "f32", compute, error=error)

    return make


def _subtract(a: Array, b: Array, mode: Mode) -> Array:
    return rounding.add(a, np.negative(b), mode)


def reciprocal(a: Array, mode: Mode) -> Array:
    """1 / a of f32."""
    return rounding.divide(np.ones_like(a), a, mode)


_RND = "rn|rz|rm|rp"
forms("add", "f32", f"{_RND}?", "ftz?", "sat?")(arithmetic(rounding.add, 2))
forms("sub", "f32", f"{_RND}?", "ftz?", "sat?")(arithmetic(_subtract, 2))
forms("mul", "f32", f"{_RND}?", "ftz?", "sat?")(arithmetic(rounding.multiply, 2))
forms("fma", "f32", _RND, "ftz?", "sat?")(arithmetic(rounding.fused_multiply_add, 3))
forms("mad", "f32", _RND, "ftz?", "sat?")(arithmetic(rounding.fused_multiply_add, 3))
forms("div", "f32", _RND, "ftz?")(arithmetic(rounding.divide, 2))
forms("sqrt", "f32", _RND, "ftz?")(arithmetic(rounding.square_root, 1))
forms("rcp", "f32", _RND, "ftz?")(arithmetic(reciprocal, 1))

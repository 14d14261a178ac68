"""Half precision and bfloat16, single and in pairs (PTX ISA 9.7.4, "Half Precision Floating Point").

Values are uint16 patterns; a pair is computed as twice as many of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.formats import FORMATS, Format
from qdbg.runtime.interpreter.forms import Array, Form, element, forms, packed
from qdbg.runtime.interpreter.patterns import flush_pattern
from qdbg.runtime.interpreter.rounding import narrow, sum_to_odd


def add(a: Array, b: Array, format_: Format) -> Array:
    """a + b of 16-bit patterns, rounded to nearest."""
    return narrow(sum_to_odd(format_.to_f64(a), format_.to_f64(b)), format_, "rn")


def subtract(a: Array, b: Array, format_: Format) -> Array:
    """a - b of 16-bit patterns, rounded to nearest."""
    return add(a, b ^ np.uint16(format_.sign), format_)


def multiply(a: Array, b: Array, format_: Format) -> Array:
    """a * b of 16-bit patterns, rounded to nearest."""
    return narrow(format_.to_f64(a) * format_.to_f64(b), format_, "rn")


def fused_multiply_add(a: Array, b: Array, c: Array, format_: Format) -> Array:
    """a * b + c of 16-bit patterns, rounded once, to nearest."""
    product = format_.to_f64(a) * format_.to_f64(b)
    return narrow(sum_to_odd(product, format_.to_f64(c)), format_, "rn")


def rectify(bits: Array, format_: Format) -> Array:
    """`.relu`: +0 for what is negative; NaN stays."""
    minus_infinity = format_.sign | format_.infinity
    return np.where((bits >= format_.sign) & (bits <= minus_infinity), np.uint16(0), bits)


def saturate(bits: Array, format_: Format) -> Array:
    """`.sat`: clamped to [0, 1]; NaN and -0 give +0."""
    one = narrow(np.ones(1), format_, "rn")[0]
    return np.where(bits > format_.infinity, np.uint16(0), np.minimum(bits, one))


def _arithmetic(function: Callable[..., Array], arity: int) -> Callable[[Instruction], Form]:
    def make(instruction: Instruction) -> Form:
        type_name = instruction.types[0]
        format_ = FORMATS[element(type_name)]
        ftz = instruction.has("ftz")

        def compute(*operands: Array) -> Array:
            if ftz:
                operands = tuple(flush_pattern(x, format_) for x in operands)
            result = function(*operands, format_)
            if ftz:
                result = flush_pattern(result, format_)
            if instruction.has("sat"):
                return saturate(result, format_)
            return rectify(result, format_) if instruction.has("relu") else result

        return Form((type_name,) * arity, type_name, packed(type_name, compute))

    return make


for _opcode, _function in (("add", add), ("sub", subtract), ("mul", multiply)):
    forms(_opcode, "f16 f16x2", "rn?", "ftz?", "sat?")(_arithmetic(_function, 2))
    forms(_opcode, "bf16 bf16x2", "rn?")(_arithmetic(_function, 2))
forms("fma", "f16 f16x2", "rn", "ftz?", "sat|relu?")(_arithmetic(fused_multiply_add, 3))
forms("fma", "bf16 bf16x2", "rn", "relu?")(_arithmetic(fused_multiply_add, 3))

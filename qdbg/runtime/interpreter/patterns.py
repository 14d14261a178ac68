"""Float operations that look at patterns alone: neg, abs, copysign, testp, min, max (PTX ISA 9.7.3, 9.7.4).

They are the same for every format.  neg, abs and copysign touch the sign and keep a NaN's payload.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.formats import F64, FORMATS, Format
from qdbg.runtime.interpreter.forms import Array, Form, element, forms, packed

_HALVES = "f16 f16x2"
_BRAINS = "bf16 bf16x2"


def flush_pattern(bits: Array, format_: Format) -> Array:
    """Patterns with subnormals replaced by zero of the same sign (`.ftz`)."""
    sign = bits.dtype.type(format_.sign)
    subnormal = bits & bits.dtype.type(format_.infinity) == 0
    return np.where(subnormal, bits & sign, bits)


def is_nan(bits: Array, format_: Format) -> Array:
    """Which patterns are NaN."""
    return bits & bits.dtype.type(format_.sign - 1) > format_.infinity


def _quiet(bits: Array, format_: Format) -> Array:
    """Patterns with signalling NaNs made quiet, which `.ftz` does as well."""
    highest = (format_.infinity & -format_.infinity) >> 1  # the bit below the exponent
    return np.where(is_nan(bits, format_), bits | bits.dtype.type(highest), bits)


def _form(instruction: Instruction, arity: int, function: Callable[..., Array], result: str = "") -> Form:
    """A form of `function(*patterns, format)`; operands are flushed with `.ftz`."""
    type_name = instruction.types[0]
    format_, ftz = FORMATS[element(type_name)], instruction.has("ftz")

    def on_patterns(*patterns: Array) -> Array:
        if ftz:
            patterns = tuple(_quiet(flush_pattern(x, format_), format_) for x in patterns)
        return function(*patterns, format_)

    if type_name not in ("f32", "f64"):
        return Form((type_name,) * arity, result or type_name, packed(type_name, on_patterns))

    def on_floats(*operands: Array) -> Array:
        found = on_patterns(*(x.view(format_.raw) for x in operands))
        return found if result else found.view(operands[0].dtype)

    return Form((type_name,) * arity, result or type_name, on_floats)


def _neg(bits: Array, format_: Format) -> Array:
    return bits ^ bits.dtype.type(format_.sign)


def _abs(bits: Array, format_: Format) -> Array:
    return bits & bits.dtype.type(format_.sign - 1)


def _unary(function: Callable[..., Array]) -> Callable[[Instruction], Form]:
    return lambda instruction: _form(instruction, 1, function)


for _opcode, _function in (("neg", _neg), ("abs", _abs)):
    forms(_opcode, f"f32 {_HALVES}", "ftz?")(_unary(_function))
    forms(_opcode, f"f64 {_BRAINS}")(_unary(_function))


@forms("copysign", "f32 f64")
def _copysign(instruction: Instruction) -> Form:
    """The sign of a on the magnitude of b (the reverse of C)."""
    return _form(instruction, 2, lambda a, b, f: (a & a.dtype.type(f.sign)) | (b & b.dtype.type(f.sign - 1)))


#: Zeros count as normal.
_TESTS: dict[str, Callable[[Array, Format], Array]] = {
    "finite": lambda a, f: a < f.infinity,
    "infinite": lambda a, f: a == f.infinity,
    "number": lambda a, f: a <= f.infinity,
    "notanumber": lambda a, f: a > f.infinity,
    "normal": lambda a, f: (a < f.infinity) & ((a >= 1 << (f.precision - 1)) | (a == 0)),
    "subnormal": lambda a, f: (a < 1 << (f.precision - 1)) & (a != 0),
}


@forms("testp", "f32 f64", "|".join(_TESTS))
def _testp(instruction: Instruction) -> Form:
    test = next(_TESTS[m] for m in instruction.modifiers if m in _TESTS)
    return _form(instruction, 1, lambda a, f: test(_abs(a, f), f), "pred")


def _order(bits: Array, format_: Format) -> Array:
    """Signed integers that order patterns as their numbers are ordered, -0 before +0."""
    signed = bits.view(f"<i{bits.dtype.itemsize}")
    return np.where(signed < 0, signed ^ signed.dtype.type(format_.sign - 1), signed)


def extreme(a: Array, b: Array, format_: Format, smallest: bool, propagate: bool) -> Array:
    """min or max of patterns: a NaN operand is ignored or, with `propagate`, wins; -0 < +0."""
    first = _order(a, format_) < _order(b, format_)
    chosen = np.where(first == smallest, a, b)
    a_nan, b_nan = is_nan(a, format_), is_nan(b, format_)
    nan = a.dtype.type(format_.nan)
    if format_ is F64:  # double precision passes payloads on
        nan = a | a.dtype.type(1 << 51)
    if propagate:
        return np.where(a_nan | b_nan, nan, chosen)
    return np.where(a_nan, np.where(b_nan, nan, b), np.where(b_nan, a, chosen))


def _extreme(smallest: bool) -> Callable[[Instruction], Form]:
    def make(instruction: Instruction) -> Form:
        propagate, absolute = instruction.has("NaN"), instruction.has("abs")
        signed = instruction.has("xorsign")
        three = instruction.types == ("f32",) and not signed and len(instruction.operands) == 4
        if absolute and not signed and not three:
            raise Refusal("is not supported: .abs without .xorsign takes three source operands")

        def function(*operands: Array) -> Array:
            *patterns, format_ = operands
            sign = (patterns[0] ^ patterns[1]) & patterns[0].dtype.type(format_.sign)
            if absolute:
                patterns = [_abs(x, format_) for x in patterns]
            result, *rest = patterns
            for other in rest:
                result = extreme(result, other, format_, smallest, propagate)
            if signed:
                result = np.where(is_nan(result, format_), result, _abs(result, format_) | sign)
            return result

        return _form(instruction, 3 if three else 2, function)

    return make


for _opcode, _smallest in (("min", True), ("max", False)):
    for _types, _ftz in ((f"f32 {_HALVES}", ("ftz?",)), (_BRAINS, ())):
        forms(_opcode, _types, *_ftz, "NaN?")(_extreme(_smallest))
        forms(_opcode, _types, *_ftz, "NaN?", "xorsign", "abs")(_extreme(_smallest))
    forms(_opcode, "f32", "ftz?", "NaN?", "abs")(_extreme(_smallest))
    forms(_opcode, "f64")(_extreme(_smallest))

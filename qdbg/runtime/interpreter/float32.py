"""Single precision (PTX ISA 9.7.3, "Floating Point Instructions")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter import rounding
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array, Form, forms
from qdbg.runtime.interpreter.rounding import Mode, canonical, flush, saturate_unit

_MODES: tuple[Mode, ...] = ("rn", "rz", "rm", "rp")
_ROUNDING = "rn rz rm rp ftz sat"


def rounding_mode(instruction: Instruction) -> Mode:
    """The rounding modifier; `rn` where there is none."""
    return next((m for m in _MODES if instruction.has(m)), "rn")


def _arithmetic(function: Callable[..., Array], arity: int) -> Callable[[Instruction], Form]:
    """A maker for `function(*operands, mode)` with `.ftz`, canonical NaN and `.sat` around it."""

    def make(instruction: Instruction) -> Form:
        mode, ftz, sat = rounding_mode(instruction), instruction.has("ftz"), instruction.has("sat")

        def compute(*operands: Array) -> Array:
            if ftz:
                operands = tuple(flush(x) for x in operands)
            result = canonical(function(*operands, mode))
            result = flush(result) if ftz else result
            return saturate_unit(result) if sat else result

        return Form(("f32",) * arity, "f32", compute)

    return make


forms("add", "f32", _ROUNDING)(_arithmetic(rounding.add, 2))
forms("sub", "f32", _ROUNDING)(_arithmetic(lambda a, b, mode: rounding.add(a, np.negative(b), mode), 2))
forms("mul", "f32", _ROUNDING)(_arithmetic(rounding.multiply, 2))
forms("fma", "f32", _ROUNDING)(_arithmetic(rounding.fused_multiply_add, 3))
forms("mad", "f32", _ROUNDING)(_arithmetic(rounding.fused_multiply_add, 3))


def _ieee_only(maker: Callable[[Instruction], Form]) -> Callable[[Instruction], Form]:
    """Refuses the forms without a rounding modifier: they are approximations of another kind."""

    def make(instruction: Instruction) -> Form:
        if not instruction.has(*_MODES):
            raise Refusal("has no rounding modifier and is not supported yet")
        return maker(instruction)

    return make


forms("div", "f32", "rn rz rm rp ftz")(_ieee_only(_arithmetic(rounding.divide, 2)))
forms("sqrt", "f32", "rn rz rm rp ftz")(_ieee_only(_arithmetic(rounding.square_root, 1)))
forms("rcp", "f32", "rn rz rm rp ftz")(
    _ieee_only(_arithmetic(lambda a, mode: rounding.divide(np.ones_like(a), a, mode), 1))
)


@forms("neg", "f32", "ftz")
def _neg(instruction: Instruction) -> Form:
    return _sign_only(instruction, lambda bits: bits ^ np.uint32(1 << 31))


@forms("abs", "f32", "ftz")
def _abs(instruction: Instruction) -> Form:
    return _sign_only(instruction, lambda bits: bits & np.uint32((1 << 31) - 1))


def _sign_only(instruction: Instruction, function: Callable[[Array], Array]) -> Form:
    """Operations on the sign bit alone: a NaN keeps its payload."""
    ftz = instruction.has("ftz")
    return Form(
        ("f32",), "f32", lambda a: function((flush(a) if ftz else a).view(np.uint32)).view(np.float32)
    )


def _extreme(smallest: bool) -> Callable[[Instruction], Form]:
    """min and max: a NaN operand is ignored (with `.NaN` it wins), and -0 < +0."""

    def make(instruction: Instruction) -> Form:
        ftz, propagate = instruction.has("ftz"), instruction.has("NaN")

        def compute(a: Array, b: Array) -> Array:
            if ftz:
                a, b = flush(a), flush(b)
            first = (a < b) | ((a == b) & np.signbit(a))
            chosen = np.where(first, a, b) if smallest else np.where(first, b, a)
            other = np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))
            unordered = np.isnan(a) | np.isnan(b)
            return canonical(np.where(unordered, np.float32(np.nan), chosen) if propagate else other)

        return Form(("f32", "f32"), "f32", compute)

    return make


forms("min", "f32", "ftz NaN")(_extreme(smallest=True))
forms("max", "f32", "ftz NaN")(_extreme(smallest=False))


@forms("copysign", "f32")
def _copysign(instruction: Instruction) -> Form:
    """The sign of a on the magnitude of b (the reverse of C)."""
    return Form(("f32", "f32"), "f32", lambda a, b: np.copysign(b, a))


_SMALLEST_NORMAL = np.float32(2.0**-126)
#: Zeros count as normal (PTX ISA, "testp").
_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= _SMALLEST_NORMAL) | (a == 0)),
    "subnormal": lambda a: (np.abs(a) < _SMALLEST_NORMAL) & (a != 0),
}


@forms("testp", "f32", " ".join(_TESTS))
def _testp(instruction: Instruction) -> Form:
    return Form(("f32",), "pred", next(_TESTS[m] for m in instruction.modifiers if m in _TESTS))

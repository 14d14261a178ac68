"""Integer arithmetic (PTX ISA 9.7.1, "Integer Arithmetic Instructions", and 9.7.2, extended precision)."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction
from qdbg.runtime.interpreter.forms import DTYPES, INTEGERS, Array, Form, forms, unsigned

_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def _type(instruction: Instruction) -> str:
    return instruction.types[0]


def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the same signedness and twice the width (at most 32 bits come in)."""
    return np.dtype(f"<{dtype.kind}{dtype.itemsize * 2}")


def saturate(wide: Array, dtype: np.dtype[Any]) -> Array:
    """`wide` clamped to the range of a type."""
    limits = np.iinfo(dtype)
    own = np.iinfo(wide.dtype)
    low, high = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
    return np.clip(wide, wide.dtype.type(low), wide.dtype.type(high)).astype(dtype)


def multiply_wide(a: Array, b: Array) -> Array:
    """The double-width product of operands of up to 32 bits."""
    wide = _wider(a.dtype)
    return a.astype(wide) * b.astype(wide)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the double-width product, by the operands' signedness."""
    if a.dtype.itemsize < 8:
        return (multiply_wide(a, b) >> (a.dtype.itemsize * 8)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x_low, x_high, y_low, y_high = x & _LOW32, x >> _32, y & _LOW32, y >> _32
    middle = x_high * y_low + (x_low * y_low >> _32)
    other = x_low * y_high + (middle & _LOW32)
    high = x_high * y_high + (middle >> _32) + (other >> _32)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def magnitude(a: Array) -> Array:
    """|a| as an unsigned number; exact for the most negative one."""
    if a.dtype.kind == "u":
        return a
    bits = a.view(f"<u{a.dtype.itemsize}")
    return np.where(a < 0, ~bits + bits.dtype.type(1), bits)


def _negate_where(condition: Array, value: Array) -> Array:
    return np.where(condition, ~value + value.dtype.type(1), value)


def divide(a: Array, b: Array) -> Array:
    """Quotient truncated toward zero.  Division by zero gives all ones, as the hardware does."""
    x, y = magnitude(a), magnitude(b)
    zero = y == 0
    quotient = x // np.where(zero, y.dtype.type(1), y)
    quotient = _negate_where((a < 0) ^ (b < 0), quotient)
    return np.where(zero, ~y.dtype.type(0), quotient).view(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend.  Division by zero gives all ones, as the hardware does."""
    x, y = magnitude(a), magnitude(b)
    zero = y == 0
    rest = _negate_where(a < 0, x % np.where(zero, y.dtype.type(1), y))
    return np.where(zero, ~y.dtype.type(0), rest).view(a.dtype)


def _same(function: Any, arity: int) -> Any:
    """A maker of forms whose operands and result all have the instruction's type."""

    def make(instruction: Instruction) -> Form:
        return Form((_type(instruction),) * arity, _type(instruction), function)

    return make


for _opcode, _function, _arity in (
    ("min", np.minimum, 2),
    ("max", np.maximum, 2),
    ("div", divide, 2),
    ("rem", remainder, 2),
):
    forms(_opcode, INTEGERS)(_same(_function, _arity))
for _opcode, _extreme in (("min", np.minimum), ("max", np.maximum)):
    forms(_opcode, "s32", "relu")(_same(lambda a, b, f=_extreme: np.maximum(f(a, b), 0), 2))
forms("neg", "s16 s32 s64")(_same(np.negative, 1))
forms("abs", "s16 s32 s64")(_same(lambda a: magnitude(a).view(a.dtype), 1))


forms("add", INTEGERS)(_same(np.add, 2))
forms("sub", INTEGERS)(_same(np.subtract, 2))
forms("add", "s32", "sat")(_same(lambda a, b: saturate(a.astype(np.int64) + b, a.dtype), 2))
forms("sub", "s32", "sat")(_same(lambda a, b: saturate(a.astype(np.int64) - b, a.dtype), 2))


def _product(instruction: Instruction) -> Any:
    return multiply_high if instruction.has("hi") else np.multiply


@forms("mul", INTEGERS, "lo|hi")
def _mul(instruction: Instruction) -> Form:
    return Form((_type(instruction),) * 2, _type(instruction), _product(instruction))


@forms("mad", INTEGERS, "lo|hi")
def _mad(instruction: Instruction) -> Form:
    product = _product(instruction)
    return Form((_type(instruction),) * 3, _type(instruction), lambda a, b, c: product(a, b) + c)


@forms("mad", "s32", "hi", "sat")
def _mad_saturating(instruction: Instruction) -> Form:
    return Form(
        ("s32",) * 3, "s32", lambda a, b, c: saturate(multiply_high(a, b).astype(np.int64) + c, a.dtype)
    )


def _double(type_name: str) -> str:
    return type_name[0] + str(2 * TYPE_BITS[type_name])


@forms("mul", "u16 s16 u32 s32", "wide")
def _mul_wide(instruction: Instruction) -> Form:
    t = _type(instruction)
    return Form((t, t), _double(t), multiply_wide)


@forms("mad", "u16 s16 u32 s32", "wide")
def _mad_wide(instruction: Instruction) -> Form:
    t = _type(instruction)
    return Form((t, t, _double(t)), _double(t), lambda a, b, c: multiply_wide(a, b) + c)


#: The types of extended-precision arithmetic, which is unsigned in effect.
_CARRYING = "u32 s32 u64 s64"


@forms("add", _CARRYING, "cc")
def _add_cc(instruction: Instruction) -> Form:
    u = unsigned(_type(instruction))
    return Form((u, u), u, lambda a, b: add_carry(a, b, False), carry_out=True)


@forms("sub", _CARRYING, "cc")
def _sub_cc(instruction: Instruction) -> Form:
    u = unsigned(_type(instruction))
    return Form((u, u), u, lambda a, b: sub_borrow(a, b, False), carry_out=True)


@forms("mad", _CARRYING, "lo|hi", "cc")
def _mad_cc(instruction: Instruction) -> Form:
    t = _type(instruction)
    return Form((t, t, t), unsigned(t), _mad_carry(_product(instruction), with_carry=False), carry_out=True)


@forms("addc", _CARRYING, "cc?")
def _addc(instruction: Instruction) -> Form:
    return _with_carry(instruction, add_carry)


@forms("subc", _CARRYING, "cc?")
def _subc(instruction: Instruction) -> Form:
    return _with_carry(instruction, sub_borrow)


@forms("madc", _CARRYING, "lo|hi", "cc?")
def _madc(instruction: Instruction) -> Form:
    t = _type(instruction)
    function = _mad_carry(_product(instruction), with_carry=True)
    if instruction.has("cc"):
        return Form((t, t, t), unsigned(t), function, carry_in=True, carry_out=True)
    return Form((t, t, t), unsigned(t), lambda *operands: function(*operands)[0], carry_in=True)


def add_carry(a: Array, b: Array, carry: Array | bool) -> tuple[Array, Array]:
    """a + b + carry of unsigned operands, and whether it carried out."""
    total = a + b + np.asarray(carry).astype(a.dtype)
    return total, (total < a) | (np.asarray(carry) & (total == a))


def sub_borrow(a: Array, b: Array, borrow: Array | bool) -> tuple[Array, Array]:
    """a - b - borrow of unsigned operands, and whether it borrowed."""
    difference = a - b - np.asarray(borrow).astype(a.dtype)
    return difference, (a < b) | (np.asarray(borrow) & (a == b))


def _with_carry(instruction: Instruction, function: Any) -> Form:
    u = unsigned(_type(instruction))
    if instruction.has("cc"):
        return Form((u, u), u, function, carry_in=True, carry_out=True)
    return Form((u, u), u, lambda *operands: function(*operands)[0], carry_in=True)


def _mad_carry(product: Any, with_carry: bool) -> Any:
    def function(a: Array, b: Array, c: Array, carry: Array | bool = False) -> tuple[Array, Array]:
        as_unsigned = f"<u{a.dtype.itemsize}"
        return add_carry(product(a, b).view(as_unsigned), c.view(as_unsigned), with_carry and carry)

    return function


def _low24(a: Array) -> Array:
    """The low 24 bits, sign-extended for a signed type, in 64 bits."""
    if a.dtype.kind == "i":
        return (a << 8 >> 8).astype(np.int64)
    return (a & a.dtype.type(0xFFFFFF)).astype(np.uint64)


def _multiply24(instruction: Instruction) -> Any:
    shift = 16 if instruction.has("hi") else 0
    return lambda a, b: ((_low24(a) * _low24(b)) >> shift).astype(a.dtype)


@forms("mul24", "u32 s32", "lo|hi")
def _mul24(instruction: Instruction) -> Form:
    return Form((_type(instruction),) * 2, _type(instruction), _multiply24(instruction))


@forms("mad24", "u32 s32", "lo|hi")
def _mad24(instruction: Instruction) -> Form:
    product = _multiply24(instruction)
    return Form((_type(instruction),) * 3, _type(instruction), lambda a, b, c: product(a, b) + c)


@forms("mad24", "s32", "hi", "sat")
def _mad24_saturating(instruction: Instruction) -> Form:
    product = _multiply24(instruction)
    return Form(("s32",) * 3, "s32", lambda a, b, c: saturate(product(a, b).astype(np.int64) + c, a.dtype))


@forms("sad", INTEGERS)
def _sad(instruction: Instruction) -> Form:
    t = _type(instruction)
    return Form((t, t, t), t, lambda a, b, c: c + np.where(a < b, b - a, a - b))


def _dot(a: Array, b: Array, c: Array) -> Array:
    """Row-wise dot product of small integers [lanes, n] plus c, wrapped to c's type."""
    return ((a.astype(np.int64) * b.astype(np.int64)).sum(axis=1) + c).astype(c.dtype)


def _parts(a: Array, type_name: str, bits: int) -> Array:
    """The bytes or halves of each 32-bit value, low first, [lanes, 32 / bits]."""
    return a.view(f"<{DTYPES[type_name].kind}{bits // 8}").reshape(len(a), -1)


_DOT_TYPES = "u32.u32 u32.s32 s32.u32 s32.s32"


def _dot_type(instruction: Instruction) -> str:
    return "s32" if "s32" in instruction.types else "u32"


@forms("dp4a", _DOT_TYPES)
def _dp4a(instruction: Instruction) -> Form:
    s, t = instruction.types
    d = _dot_type(instruction)
    return Form(("b32", "b32", d), d, lambda a, b, c: _dot(_parts(a, s, 8), _parts(b, t, 8), c))


@forms("dp2a", _DOT_TYPES, "lo|hi")
def _dp2a(instruction: Instruction) -> Form:
    s, t = instruction.types
    d = _dot_type(instruction)
    half = slice(2, 4) if instruction.has("hi") else slice(0, 2)
    return Form(("b32", "b32", d), d, lambda a, b, c: _dot(_parts(a, s, 16), _parts(b, t, 8)[:, half], c))

"""Logic, shifts and bit fields (PTX ISA 9.7.1 from `popc` on, 9.7.8 "Logic and Shift", `prmt`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction
from qdbg.runtime.interpreter.forms import BITS, Array, Form, forms


def _type(instruction: Instruction) -> str:
    return instruction.types[0]


def _width(a: Array) -> int:
    return int(a.dtype.itemsize) * 8


def shift_left(a: Array, count: Array) -> Array:
    """a << count; 0 from the width on (the count is clamped, not masked)."""
    width = _width(a)
    shifted = a << np.minimum(count, width - 1).astype(a.dtype)
    return np.where(count < width, shifted, a.dtype.type(0))


def shift_right(a: Array, count: Array) -> Array:
    """a >> count; the sign (signed) or 0 (unsigned) from the width on."""
    width = _width(a)
    shifted = a >> np.minimum(count, width - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(count < width, shifted, a.dtype.type(0))


def ones(count: Array, dtype: np.dtype[Any]) -> Array:
    """A mask of the `count` low bits; all of them from the width on."""
    return ~shift_left(np.full(len(count), ~dtype.type(0), dtype), count)


def _logic(function: Any, arity: int) -> Any:
    return lambda instruction: Form((_type(instruction),) * arity, _type(instruction), function)


for _opcode, _function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    forms(_opcode, f"{BITS} pred")(_logic(_function, 2))
forms("not", f"{BITS} pred")(_logic(np.invert, 1))
forms("cnot", BITS)(_logic(lambda a: (a == 0).astype(a.dtype), 1))
forms("shl", BITS)(lambda i: Form((_type(i), "u32"), _type(i), shift_left))
forms("shr", f"{BITS} u16 s16 u32 s32 u64 s64")(lambda i: Form((_type(i), "u32"), _type(i), shift_right))


@forms("shf", "b32", "l|r", "clamp|wrap")
def _shf(instruction: Instruction) -> Form:
    left, clamp = instruction.has("l"), instruction.has("clamp")

    def function(low: Array, high: Array, count: Array) -> Array:
        n = (np.minimum(count, 32) if clamp else count & np.uint32(31)).astype(np.uint64)
        both = high.astype(np.uint64) << np.uint64(32) | low
        return ((both << n) >> np.uint64(32) if left else both >> n).astype(np.uint32)

    return Form(("b32", "b32", "u32"), "b32", function)


def bit_length(a: Array) -> Array:
    """Position of the highest set bit plus one, 0 for 0; as u32."""
    shift = 1
    while shift < _width(a):
        a = a | a >> a.dtype.type(shift)
        shift *= 2
    return np.bitwise_count(a).astype(np.uint32)


forms("popc", "b32 b64")(lambda i: Form((_type(i),), "u32", lambda a: np.bitwise_count(a).astype(np.uint32)))
forms("clz", "b32 b64")(lambda i: Form((_type(i),), "u32", lambda a: np.uint32(_width(a)) - bit_length(a)))


@forms("brev", "b32 b64")
def _brev(instruction: Instruction) -> Form:
    def function(a: Array) -> Array:
        bits = np.unpackbits(a.view(np.uint8).reshape(len(a), -1), axis=1, bitorder="little")
        return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(a.dtype).reshape(-1)

    return Form((_type(instruction),), _type(instruction), function)


@forms("bfind", "u32 s32 u64 s64", "shiftamt?")
def _bfind(instruction: Instruction) -> Form:
    def function(a: Array) -> Array:
        if a.dtype.kind == "i":  # the highest bit that differs from the sign
            a = (a ^ (a >> (_width(a) - 1))).view(f"<u{a.dtype.itemsize}")
        found = bit_length(a) - np.uint32(1)
        if not instruction.has("shiftamt"):
            return found
        return np.where(a == 0, found, np.uint32(_width(a) - 1) - found)

    return Form((_type(instruction),), "u32", function)


@forms("bfe", "u32 s32 u64 s64")
def _bfe(instruction: Instruction) -> Form:
    width = TYPE_BITS[_type(instruction)]

    def function(a: Array, position: Array, length: Array) -> Array:
        position, length = position & np.uint32(255), length & np.uint32(255)
        raw = a.view(f"<u{a.dtype.itemsize}")
        field = shift_right(raw, position) & ones(length, raw.dtype)
        if a.dtype.kind == "i":
            sign_at = np.minimum(position + length - np.uint32(1), width - 1)
            inside = np.minimum(length, np.maximum(width - position.astype(np.int64), 0)).astype(np.uint32)
            negative = shift_right(raw, sign_at) & raw.dtype.type(1) != 0
            field = np.where(negative, field | ~ones(inside, raw.dtype), field)
        return np.where(length == 0, raw.dtype.type(0), field).view(a.dtype)

    return Form((_type(instruction), "u32", "u32"), _type(instruction), function)


@forms("bfi", "b32 b64")
def _bfi(instruction: Instruction) -> Form:
    def function(a: Array, b: Array, position: Array, length: Array) -> Array:
        position, length = position & np.uint32(255), length & np.uint32(255)
        field = shift_left(ones(length, a.dtype), position)
        return b & ~field | shift_left(a, position) & field

    return Form((_type(instruction),) * 2 + ("u32", "u32"), _type(instruction), function)


@forms("bmsk", "b32", "clamp|wrap")
def _bmsk(instruction: Instruction) -> Form:
    def function(position: Array, length: Array) -> Array:
        if instruction.has("wrap"):
            position, length = position & np.uint32(31), length & np.uint32(31)
        return shift_left(ones(length, np.dtype(np.uint32)), position)

    return Form(("u32", "u32"), "b32", function)


@forms("szext", "u32 s32", "clamp|wrap")
def _szext(instruction: Instruction) -> Form:
    """The low b bits of a, extended by the type; all of a from 32 on, unless the count wraps."""

    def function(a: Array, count: Array) -> Array:
        if instruction.has("wrap"):
            count = count & np.uint32(31)
        raw = a.view(np.uint32)
        field = raw & ones(count, raw.dtype)
        if a.dtype.kind == "i":
            top = np.minimum(count, np.uint32(32)) - np.uint32(1)
            negative = (shift_right(raw, top) & np.uint32(1) != 0) & (count != 0)
            field = np.where(negative, field | ~ones(count, raw.dtype), field)
        return field.view(a.dtype)

    return Form((_type(instruction), "u32"), _type(instruction), function)


@forms("fns", "b32")
def _fns(instruction: Instruction) -> Form:
    """Where the n-th set bit is, counting from a base upward (n > 0) or downward; all ones if nowhere.

    A base above 31 is undefined; here it finds nothing.
    """

    def function(mask: Array, base: Array, offset: Array) -> Array:
        bits = np.arange(32, dtype=np.int64)
        n, start = offset.astype(np.int64)[:, None], base.astype(np.int64)[:, None]
        present = mask[:, None] >> bits.astype(np.uint32) & np.uint32(1) != 0  # [lanes, 32]
        counted = present & np.where(n > 0, bits >= start, np.where(n < 0, bits <= start, bits == start))
        upward = counted.cumsum(axis=1)
        downward = upward[:, -1:] - upward + counted
        place = np.where(n < 0, downward, upward)  # 1 for the bit nearest to the base
        hit = counted & (place == np.maximum(np.abs(n), 1)) & (start < 32)
        return np.where(hit.any(axis=1), hit.argmax(axis=1), 0xFFFFFFFF).astype(np.uint32)

    return Form(("b32", "u32", "s32"), "b32", function)


#: Which of the eight bytes of {b, a} goes to byte i of the result, for selector c & 3.
_PERMUTATIONS: dict[str, Any] = {
    "f4e": lambda c, i: (c + i) & 7,
    "b4e": lambda c, i: (c - i) & 7,
    "rc8": lambda c, i: c,
    "ecl": lambda c, i: np.maximum(c, i),
    "ecr": lambda c, i: np.minimum(c, i),
    "rc16": lambda c, i: (c & 1) * 2 + (i & 1),
}


@forms("prmt", "b32", "|".join(_PERMUTATIONS) + "?")
def _prmt(instruction: Instruction) -> Form:
    mode = next((m for m in instruction.modifiers if m in _PERMUTATIONS), None)

    def function(a: Array, b: Array, c: Array) -> Array:
        source = np.stack([a, b], axis=1).view(np.uint8)  # [lanes, 8], low byte first
        result = np.empty((len(a), 4), np.uint8)
        lanes, selector = np.arange(len(a)), c.astype(np.int64)
        for i in range(4):
            choice = _PERMUTATIONS[mode](selector & 3, i) if mode else selector >> 4 * i & 15
            chosen = source[lanes, choice & 7]
            sign = np.where(chosen & 0x80, np.uint8(0xFF), np.uint8(0))
            result[:, i] = np.where(choice & 8, sign, chosen)
        return result.view(np.uint32).reshape(-1)

    return Form(("b32",) * 3, "b32", function)

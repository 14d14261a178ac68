"""Values of the launch language: number literals, array types and array contents.

Everything here raises `ValueError` with a sentence that lacks only its place; the launch reader
puts file and line in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Element types of arrays in a launch, and the numpy type of each.
DTYPES: dict[str, np.dtype[np.generic]] = {
    **{f"i{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
    "bytes": np.dtype("<u1"),
}
#: No array of a launch may be longer than this; beyond it a typing error is more likely than a wish.
LONGEST = 1 << 26

NUMBER = re.compile(
    r"[+-]?(?:0[fF][0-9a-fA-F]{8}(?![\w.])|0[dD][0-9a-fA-F]{16}(?![\w.])"
    r"|0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?\d+)?"
    r"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan\b|inf\b)"
)

#: What `nan` stands for: the NaN that f32 arithmetic of PTX produces (7fffffff), and the quiet NaN of f64.
_NAN_BITS = {32: 0x7FFFFFFF, 64: 0x7FF8000000000000}
_PTX_FLOAT = {"f": 32, "d": 64}


def integer(text: str) -> int:
    """The value of an integer literal, decimal or hexadecimal."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return int(text, 10)  # leading zeros
    except ValueError:
        raise ValueError(f"{text} is not an integer") from None


def integer_bits(text: str, low: int, high: int, type_name: str) -> int:
    """An integer literal that must lie in [low, high]."""
    value = integer(text)
    if not low <= value <= high:
        raise ValueError(f"{text} is out of range: {type_name} holds {low} to {high}")
    return value


def float_bits(text: str, bits: int) -> int:
    """The bit pattern of a float literal rounded to f32 (bits=32) or f64 (bits=64).

    Accepts integers, decimals, C hexadecimal floats, `nan`, `inf` and PTX bit patterns (`0f3F800000`).
    """
    sign, digits = (1, text[1:]) if text.startswith("-") else (0, text.removeprefix("+"))
    negative = sign << (bits - 1)
    if digits == "nan":
        return _NAN_BITS[bits] | negative
    if len(digits) > 2 and digits[1].lower() in _PTX_FLOAT and digits[0] == "0":
        if _PTX_FLOAT[digits[1].lower()] != bits:
            raise ValueError(f"{text} is the bit pattern of another float type than f{bits}")
        return int.from_bytes(bytes.fromhex(digits[2:]), "big") ^ negative
    value = float.fromhex(digits) if digits[:2].lower() == "0x" else float(digits)
    dtype = np.dtype(f"f{bits // 8}")
    with np.errstate(over="ignore"):
        rounded = np.array([value]).astype(dtype)
    if np.isinf(rounded[0]) and digits != "inf":
        raise ValueError(f"{text} is out of range: the largest f{bits} is {np.finfo(dtype).max}")
    return int(rounded.view(f"u{bits // 8}")[0]) | negative


def elements(type_name: str, literals: tuple[str, ...]) -> NDArray[np.generic]:
    """An array of `type_name` with these values, shape [len(literals)]."""
    dtype = DTYPES[type_name]
    if dtype.kind == "f":
        bits = dtype.itemsize * 8
        patterns = [float_bits(text, bits) for text in literals]
        return np.array(patterns, dtype=f"<u{dtype.itemsize}").view(dtype)
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    low, high = int(limits.min), int(limits.max)
    return np.array([integer_bits(text, low, high, type_name) for text in literals], dtype=dtype)


def random_elements(
    type_name: str, count: int, seed: int, bounds: tuple[str, str] | None
) -> NDArray[np.generic]:
    """`count` reproducible values: element i is splitmix64's output number i+1 for the seed.

    Without bounds integers cover their whole type and floats [-1, 1); with bounds both cover [low, high).
    """
    dtype = DTYPES[type_name]
    state = np.uint64(seed & (1 << 64) - 1) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    if dtype.kind == "f":
        low, high = (float(b) for b in bounds or ("-1", "1"))
        digits = np.finfo(dtype).nmant + 1  # type: ignore[type-var]
        unit = (state >> np.uint64(64 - digits)).astype(np.float64) / 2.0**digits
        return (low + unit * (high - low)).astype(dtype)
    if bounds is None:
        return state.astype(dtype)
    start, end = elements(type_name, bounds).tolist()
    if start >= end:
        raise ValueError(f"random({seed}, {bounds[0]}, {bounds[1]}) has an empty range")
    offsets = state % np.uint64(end - start)
    return (offsets + np.uint64(start & (1 << 64) - 1)).astype(dtype)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number whose type is decided by the parameter that it goes to."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class ArrayData:
    """An array that a program gives, one-dimensional."""

    data: NDArray[np.generic]

    def materialise(self, directory: Path) -> NDArray[np.generic]:
        """The array itself."""
        return self.data


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array as written: `i32[1, 2]`, `f32[16] = iota`, `u8[] = @file.npy`.

    Exactly one of `literals` and `fill` is set; `length` is None where the content decides it.
    `fill` is a number literal, `iota`, `@path`, or `random`, which takes `arguments`.
    """

    type: str
    length: int | None
    literals: tuple[str, ...] | None = None
    fill: str | None = None
    arguments: tuple[str, ...] = ()

    def materialise(self, directory: Path) -> NDArray[np.generic]:
        """The array, shape [length]; `@path` is looked up relative to `directory`."""
        if self.literals is not None:
            return elements(self.type, self.literals)
        assert self.fill is not None
        if self.fill.startswith("@"):
            return self._load(directory / self.fill[1:])
        count = self.length or 0
        if self.fill == "iota":
            if DTYPES[self.type].kind != "f":
                elements(self.type, (str(max(count - 1, 0)),))
            return np.arange(count).astype(DTYPES[self.type])
        if self.fill == "random":
            bounds = (self.arguments[1], self.arguments[2]) if len(self.arguments) == 3 else None
            return random_elements(self.type, count, integer(self.arguments[0]), bounds)
        return np.repeat(elements(self.type, (self.fill,)), count)

    def _load(self, path: Path) -> NDArray[np.generic]:
        try:
            array = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise ValueError(f"{path} does not exist; give the path relative to the kernel's file") from None
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a readable .npy file ({error})") from None
        if not isinstance(array, np.ndarray) or array.dtype != DTYPES[self.type]:
            found = getattr(array, "dtype", "an archive")
            raise ValueError(f"{path} holds {found}, not {self.type}; convert it or change the type")
        if self.length is not None and array.size != self.length:
            raise ValueError(f"{path} holds {array.size} elements, not {self.length}; write {self.type}[]")
        return np.ascontiguousarray(array).reshape(-1)

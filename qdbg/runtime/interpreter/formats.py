"""The binary floating-point formats of PTX (PTX ISA 5.2, "Types"), as patterns of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: To nearest with ties to even, toward zero, toward minus and toward plus infinity.
Mode = Literal["rn", "rz", "rm", "rp"]
MODES: tuple[Mode, ...] = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary format: `bits` wide, `precision` bits of significand, the hidden one included.

    `nan` is the pattern of the NaN that operations produce which have no NaN to pass on.
    """

    name: str
    bits: int
    precision: int
    nan: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """The pattern of +infinity: an exponent of ones, a fraction of zero."""
        return self.sign - (1 << (self.precision - 1))

    @property
    def smallest(self) -> int:
        """The exponent of the smallest subnormal."""
        return 3 - self.precision - (1 << (self.bits - self.precision - 1))

    @property
    def beyond(self) -> int:
        """The exponent of the first power of two that is too large."""
        return 1 << (self.bits - self.precision - 1)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0 ** (self.beyond - 1)

    @property
    def raw(self) -> np.dtype[Any]:
        """The unsigned numpy type that holds a pattern."""
        return np.dtype(f"<u{self.bits // 8}")

    def to_f64(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers, exactly: of numpy floats, or of patterns for the 16-bit formats.

        Pairs of 16-bit patterns (uint32) give two numbers each.
        """
        if self.name == "f16":
            return values.view(np.float16).astype(np.float64)
        if self.name == "bf16":
            single = values.view(np.uint16).astype(np.uint32) << np.uint32(16)
            return single.view(np.float32).astype(np.float64)
        return values.astype(np.float64)


#: Half-precision and single-precision arithmetic returns one NaN, whatever it was given (the ISA leaves
#: open which).  Double precision passes payloads on; what it makes itself is the hardware's default NaN.
F16 = Format("f16", 16, 11, 0x7FFF)
BF16 = Format("bf16", 16, 8, 0x7FFF)
F32 = Format("f32", 32, 24, 0x7FFFFFFF)
F64 = Format("f64", 64, 53, 0xFFF8000000000000)
FORMATS = {format_.name: format_ for format_ in (F16, BF16, F32, F64)}

"""Numbers as text, in the format that a person chose."""

from __future__ import annotations

import struct

FORMATS = ("auto", "hex", "unsigned", "float")


def bits_of(type_: str) -> int:
    """The width of a PTX type such as `b32`, `f64`, `pred`."""
    return 1 if type_ == "pred" else int("".join(c for c in type_ if c.isdigit()) or 32)


def show(value: int | None, type_: str, format_: str = "auto") -> str:
    """A register's bits in at most 11 columns; auto: floats as floats, .u types unsigned, others signed."""
    if value is None:
        return ""
    bits = bits_of(type_)
    value &= (1 << bits) - 1
    if bits == 1:
        return str(value)
    if format_ == "hex":
        return shorten(f"{value:0{bits // 4}x}" if bits <= 32 else f"{value:#x}")
    if format_ == "unsigned" or (format_ == "auto" and type_.startswith("u")):
        return shorten(str(value))
    if format_ == "float" or (format_ == "auto" and type_.startswith("f")):
        code = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}.get(bits)
        if code:
            number = struct.unpack(code[1], struct.pack(code[0], value))[0]
            return shorten(f"{number:.6g}")
    return shorten(str(value - (1 << bits) if value >> (bits - 1) else value))


def shorten(text: str, width: int = 11) -> str:
    """Text of at most `width` columns, the middle left out."""
    return text if len(text) <= width else f"{text[: width - 6]}..{text[-4:]}"

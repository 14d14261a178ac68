"""The format language of printf in device code (CUDA C++ Programming Guide, "Format Specifiers")."""

from __future__ import annotations

import re
import struct
from typing import Protocol

_SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|z|j|t)?"
    r"(?P<type>[%cdiouxXpeEfFgGaAs])"
)
_LONG = ("l", "ll", "z", "j", "t")
#: A width or precision of more than this would only fill the terminal.
_WIDEST = 4096


class Reader(Protocol):
    """The memory of the thread that prints."""

    def word(self, address: int, size: int) -> int:
        """The unsigned value of `size` bytes."""

    def string(self, address: int) -> str:
        """The text up to a zero byte."""


class _Arguments:
    """The variadic arguments: values at multiples of their size, one after another."""

    def __init__(self, address: int, memory: Reader):
        self._next, self._memory = address, memory
        self.count = 0

    def take(self, size: int) -> int:
        self._next = -(-self._next // size) * size
        value = self._memory.word(self._next, size)
        self._next += size
        self.count += 1
        return value

    def number(self, text: str | None) -> int | None:
        """A width or precision: digits, or `*` for an argument."""
        if text is None:
            return None
        value = _signed(self.take(4), 32) if text == "*" else int(text or "0")
        return max(-_WIDEST, min(value, _WIDEST))


def formatted(text: str, buffer: int, memory: Reader) -> tuple[str, int]:
    """The text that printf prints, and the number of arguments it took.

    `buffer` is the address of the arguments.  A specifier that CUDA does not know stays as it is.
    """
    arguments = _Arguments(buffer, memory)
    printed, end = [], 0
    for match in _SPECIFIER.finditer(text):
        printed += [text[end : match.start()], _one(match, arguments, memory)]
        end = match.end()
    return "".join((*printed, text[end:])), arguments.count


def _one(match: re.Match[str], arguments: _Arguments, memory: Reader) -> str:
    kind, flags = match["type"], match["flags"]
    if kind == "%":
        return "%"
    width = arguments.number(match["width"])
    precision = arguments.number(match["precision"])
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    if precision is not None and precision < 0:
        precision = None
    if kind == "s":
        return _pad(memory.string(arguments.take(8))[:precision], flags.replace("0", ""), width)
    if kind == "c":
        return _pad(chr(arguments.take(4) & 0xFF), flags.replace("0", ""), width)
    if kind == "p":
        value = arguments.take(8)
        return _pad(f"{value:#x}" if value else "(nil)", flags.replace("0", ""), width)
    if kind in "diouxX":
        bits = {"hh": 8, "h": 16}.get(match["size"] or "", 64 if match["size"] in _LONG else 32)
        value = arguments.take(8 if bits == 64 else 4) & ((1 << bits) - 1)
        return _integer(value, bits, kind, flags, width, precision)
    (number,) = struct.unpack("<d", arguments.take(8).to_bytes(8, "little"))
    return _float(number, kind, flags, width, precision)


def _integer(value: int, bits: int, kind: str, flags: str, width: int | None, precision: int | None) -> str:
    """As C99 7.19.6.1 has it: the precision is the least number of digits, and turns the flag 0 off."""
    sign = ""
    if kind in "di":
        value = _signed(value, bits)
        sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    digits = format(abs(value), {"o": "o", "x": "x", "X": "X"}.get(kind, "d"))
    if precision is not None:
        digits = digits.rjust(precision, "0") if value or precision else ""
        flags = flags.replace("0", "")
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    if "#" in flags and kind in "xX" and value:
        sign = "0" + kind
    return _pad(digits, flags, width, sign)


def _float(value: float, kind: str, flags: str, width: int | None, precision: int | None) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        flags = flags.replace("0", "")
    negative = struct.pack(">d", value)[0] >= 128
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    size = abs(value)
    if kind in "aA" and size < float("inf"):
        digits = _hexadecimal(size, precision)
        digits = digits.upper() if kind == "A" else digits
        return _pad(digits[2:], flags, width, sign + digits[:2])
    kind = {"a": "f", "A": "F"}.get(kind, kind)
    form = f"{'#' if '#' in flags else ''}.{6 if precision is None else precision}{kind}"
    return _pad(format(size, form), flags, width, sign)


def _hexadecimal(size: float, precision: int | None) -> str:
    """`%a` as the C library of Linux prints it: the leading digit is 1 for normal numbers."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", size))
    exponent, mantissa = bits >> 52, bits & ((1 << 52) - 1)
    whole = mantissa | (1 << 52 if exponent else 0)
    power = 0 if size == 0 else (exponent or 1) - 1023
    if precision is None:
        digits = f"{mantissa:013x}".rstrip("0")
    else:
        shift = 4 * max(13 - precision, 0)
        half, rest = 1 << shift >> 1, whole & ((1 << shift) - 1)
        whole >>= shift
        whole += rest > half or (rest == half and half > 0 and whole & 1 == 1)
        kept = 52 - shift
        digits = f"{whole & ((1 << kept) - 1):0{kept // 4}x}"[: kept // 4].ljust(precision, "0")
        whole <<= shift
    point = "." if digits else ""
    return f"0x{whole >> 52}{point}{digits}p{power:+d}"


def _pad(text: str, flags: str, width: int | None, sign: str = "") -> str:
    room = max((width or 0) - len(sign) - len(text), 0)
    if "-" in flags:
        return sign + text + " " * room
    return sign + "0" * room + text if "0" in flags else " " * room + sign + text


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value

"""Functions that PTX calls and does not define: `vprintf` and `__assertfail` of the CUDA device library.

CUDA C++ Programming Guide, "Formatted Output" and "Assertion".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from qdbg.runtime.interpreter.data import Action
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.printf import formatted

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp


class Bytes(Protocol):
    """An argument or result of a call, uint8 [lanes, size]."""

    def fetch(self, warp: Warp, lanes: Array) -> Array:
        """The bytes."""

    def deliver(self, warp: Warp, lanes: Array, values: Array) -> None:
        """Store such bytes."""


Builtin = Callable[[Sequence[Bytes], Sequence[Bytes]], Action]


def _values(place: Bytes, warp: Warp, lanes: Array) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in place.fetch(warp, lanes)]


def _vprintf(arguments: Sequence[Bytes], results: Sequence[Bytes]) -> Action:
    """`int vprintf(const char *format, va_list arguments)`: returns how many arguments were formatted."""
    if len(arguments) != 2:
        raise Refusal("does not have the two arguments of vprintf")

    def action(warp: Warp, active: Array) -> None:
        lanes = np.flatnonzero(active)
        counts = []
        texts, buffers = (_values(place, warp, lanes) for place in arguments)
        for lane, text, buffer in zip(lanes.tolist(), texts, buffers, strict=True):
            line, count = formatted(warp.string(lane, text), buffer, _Reader(warp, lane))
            warp.print(lane, line)
            counts.append(count)
        for place in results:
            place.deliver(warp, lanes, np.array(counts, "<i4").view(np.uint8).reshape(-1, 4))

    return action


class _Reader:
    """Reads the generic memory of one lane."""

    def __init__(self, warp: Warp, lane: int):
        self._warp, self._lane = warp, lane

    def word(self, address: int, size: int) -> int:
        """The unsigned value of `size` bytes."""
        return self._warp.word(self._lane, address, size)

    def string(self, address: int) -> str:
        """The text up to a zero byte."""
        return self._warp.string(self._lane, address)


def _assertfail(arguments: Sequence[Bytes], results: Sequence[Bytes]) -> Action:
    """`void __assertfail(message, file, unsigned line, function, size_t charSize)`."""
    if len(arguments) != 5:
        raise Refusal("does not have the five arguments of __assertfail")

    def action(warp: Warp, active: Array) -> None:
        lane = int(np.argmax(active))
        lanes = np.array([lane])
        message, file, line, function = (_values(place, warp, lanes)[0] for place in arguments[:4])
        said, where, inside = (warp.string(lane, address) for address in (message, file, function))
        raise warp.fault(
            f"{warp.name(lane)}: assertion `{said}` failed in {inside} ({where}:{line})", "assertion", lane
        )

    return action


BUILTINS: dict[str, Builtin] = {"vprintf": _vprintf, "__assertfail": _assertfail}

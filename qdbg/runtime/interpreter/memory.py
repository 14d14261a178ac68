"""Memory: one flat image of bytes in which every state space has its place.

    0x1000    arrays of the launch, module variables        (global, const, generic)
    shared    the running block's shared window             (shared; generic from `shared_base` on)
    param     the kernel's parameters                       (param)
    local     one window a thread of the block              (local)

Global addresses are checked against what is allocated (whole words of 4 bytes, as `launch_memory` says),
the others against their window.
Shared memory is not cleared between blocks, as on hardware; it starts as zeros.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Space
from qdbg.runtime.interpreter.errors import Reason
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.launch import BoundLaunch

#: Generic addresses of local memory and of parameters; the same for every thread, as on hardware.
LOCAL_WINDOW = 1 << 40
PARAM_WINDOW = 1 << 41
_ALIGN = 16


class AccessError(Exception):
    """The access number `position` of a batch is not allowed."""

    def __init__(self, position: int, address: int, reason: Reason):
        super().__init__(reason)
        self.position, self.address, self.reason = position, address, reason


class Memory:
    """The bytes of a launch.  Addresses come as uint64 arrays, one an accessing lane."""

    def __init__(self, bound: BoundLaunch, local_bytes: int):
        self.end = bound.memory_end
        self.flat_size = _round_up(self.end)
        self._shared = (bound.shared_base, bound.shared_bytes)
        self._param = (self.flat_size, len(bound.parameters))
        self._local = (_round_up(self._param[0] + len(bound.parameters)), local_bytes)
        self.local_stride = _round_up(local_bytes)
        size = self._local[0] + self.local_stride * bound.threads
        self.image: NDArray[np.uint8] = np.zeros(_round_up(size), np.uint8)
        self._allocated = np.zeros(_round_up(self.end) + _ALIGN, np.bool_)
        for allocation in bound.allocations:
            self.image[allocation.address : allocation.end] = allocation.data.view(np.uint8)
            self._allocated[allocation.address : allocation.allocated_end] = True
        self._allocated[bound.shared_base : self.end] = True
        param = self._param[0]
        self.image[param : param + len(bound.parameters)] = np.frombuffer(bound.parameters, np.uint8)
        self._views = {size: self.image.view(f"<u{size}") for size in (1, 2, 4, 8)}

    def clear_local(self) -> None:
        """Zero the local windows, for a new block."""
        self.image[self._local[0] :] = 0

    def locate(self, space: Space, addresses: Array, threads: Array, size: int) -> Array:
        """Positions in the image of aligned accesses; raises `AccessError` for the first bad one.

        `threads` are the accessing threads' numbers within the block.
        """
        misaligned = addresses & np.uint64(size - 1) != 0
        if space in ("global", "const", "generic"):
            located, bad = self._locate_flat(addresses, threads, size)
        else:
            base, extent = {"shared": self._shared, "param": self._param, "local": self._local}[space]
            located, bad = _window(addresses, base, extent, size)
            if space == "local":
                located = located + threads * self.local_stride
        wrong = misaligned | bad
        if wrong.any():
            position = int(np.argmax(wrong))
            reason: Reason = "misaligned" if misaligned[position] else "out of bounds"
            raise AccessError(position, int(addresses[position]), reason)
        return located

    def _locate_flat(self, addresses: Array, threads: Array, size: int) -> tuple[Array, Array]:
        beyond = addresses >= np.uint64(self.end)
        if not beyond.any():
            located = addresses.astype(np.int64)
            # Both ends suffice: an aligned access lies within 16 bytes, which one allocation starts at most.
            return located, ~(self._allocated[located] & self._allocated[located + (size - 1)])
        located = np.where(beyond, np.uint64(0), addresses).astype(np.int64)
        bad = ~(self._allocated[located] & self._allocated[located + (size - 1)])
        windows = (
            (LOCAL_WINDOW, self._local, threads * self.local_stride),
            (PARAM_WINDOW, self._param, np.zeros_like(threads)),
        )
        for start, (base, extent), shift in windows:
            offsets = addresses - np.uint64(start)
            inside = (addresses >= np.uint64(start)) & (offsets < np.uint64(extent))
            place, outside = _window(offsets, base, extent, size)
            located = np.where(inside, place + shift, located)
            bad = np.where(inside, outside, bad)
        return located, bad

    def load(self, located: Array, size: int) -> Array:
        """The unsigned values of `size` bytes at positions that `locate` returned."""
        return self._views[size][located // size]

    def store(self, located: Array, size: int, values: Array) -> None:
        """Store unsigned values; where lanes collide the highest one wins."""
        self._views[size][located // size] = values


def _window(addresses: Array, base: int, extent: int, size: int) -> tuple[Array, Array]:
    """Positions of window offsets in the image, and which of them lie outside."""
    outside = (
        addresses > np.uint64(max(extent - size, 0)) if extent >= size else np.ones(len(addresses), bool)
    )
    return np.where(outside, np.uint64(0), addresses).astype(np.int64) + base, outside


def _round_up(value: int) -> int:
    return -(-value // _ALIGN) * _ALIGN

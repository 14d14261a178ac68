"""Memory: one flat image of bytes in which every state space has its place.

    0x1000    arrays of the launch, module variables        (global, const, generic)
    shared    the running block's shared window             (shared; generic from `shared_base` on)
    param     the kernel's parameters                       (param)
    local     one stack of frames a thread of the block     (local)

Global addresses are checked against what is allocated (whole words of 4 bytes, as `launch_memory` says),
the others against their window; that of local memory ends where the thread's newest frame does.
Shared memory is not cleared between blocks, as on hardware; it starts as zeros.

Local memory is interleaved, as on hardware: the first `_ROW` bytes of every thread, then the next ones.
So what is in use is one piece, however deep the frames, and the rest costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.ir import Space
from qdbg.runtime.interpreter.errors import Reason
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.launch_private import private_memory

_ALIGN = 16
#: No access is larger, so that none crosses into another thread's bytes.
_ROW = 32


class AccessError(Exception):
    """The access number `position` of a batch is not allowed."""

    def __init__(self, position: int, address: int, reason: Reason):
        super().__init__(reason)
        self.position, self.address, self.reason = position, address, reason


class Memory:
    """The bytes of a launch.  Addresses come as uint64 arrays, one an accessing lane."""

    def __init__(self, bound: BoundLaunch, frame_bytes: int, stack_bytes: int):
        """frame_bytes: the kernel's frame; stack_bytes: what the frames of its calls may take, a thread."""
        self.end = bound.memory_end
        self.flat_size = _round_up(self.end)
        self.shared_window = (bound.shared_base, bound.shared_bytes)
        self.private = private_memory(bound)
        self._param = (self.flat_size, len(bound.parameters))
        self._local = _round_up(self._param[0] + len(bound.parameters), _ROW)
        self._row = _ROW * bound.threads
        self.stack_end = _round_up(frame_bytes + stack_bytes, _ROW)
        size = self._local + self.stack_end // _ROW * self._row
        self.image: NDArray[np.uint8] = np.zeros(_round_up(size), np.uint8)
        self._used = 0
        self.use_local(frame_bytes)
        self._allocated = np.zeros(_round_up(self.end) + _ROW, np.bool_)
        for allocation in bound.allocations:
            self.image[allocation.address : allocation.end] = allocation.data.view(np.uint8)
            self._allocated[allocation.address : allocation.allocated_end] = True
        self._allocated[bound.shared_base : self.end] = True
        param = self._param[0]
        self.image[param : param + len(bound.parameters)] = np.frombuffer(bound.parameters, np.uint8)
        self._views = {size: self.image.view(f"<u{size}") for size in (1, 2, 4, 8)}

    def use_local(self, top: int) -> None:
        """Frames now reach up to `top`, at most `stack_end`."""
        self._used = max(self._used, _round_up(top, _ROW) // _ROW * self._row)

    def clear_local(self) -> None:
        """Zero the frames, for a new block."""
        self.image[self._local : self._local + self._used] = 0

    def save(self) -> NDArray[np.uint8]:
        """A copy of what is in use."""
        return self.image[: self._local + self._used].copy()

    def restore(self, saved: NDArray[np.uint8]) -> None:
        """Return to a saved state, which stays valid."""
        self.image[: len(saved)] = saved
        self.image[len(saved) : self._local + self._used] = 0
        self._used = len(saved) - self._local

    def locate(self, space: Space, addresses: Array, threads: Array, tops: Array, size: int) -> Array:
        """Positions in the image of aligned accesses; raises `AccessError` for the first bad one.

        `threads` are the accessing threads' numbers within the block, `tops` (uint64) the ends of their
        newest frames.
        """
        misaligned = addresses & np.uint64(size - 1) != 0
        if space in ("global", "const", "generic"):
            located, bad = self._locate_flat(addresses, threads, tops, size)
        elif space == "local":
            located, bad = self._locate_local(addresses, threads, tops, size)
        else:
            base, extent = self.shared_window if space == "shared" else self._param
            located, bad = _window(addresses, base, extent, size)
        wrong = misaligned | bad
        if wrong.any():
            position = int(np.argmax(wrong))
            reason: Reason = "misaligned" if misaligned[position] else "out of bounds"
            raise AccessError(position, int(addresses[position]), reason)
        return located

    def _locate_flat(self, addresses: Array, threads: Array, tops: Array, size: int) -> tuple[Array, Array]:
        beyond = addresses >= np.uint64(self.end)
        if not beyond.any():
            located = addresses.astype(np.int64)
            return located, ~self._is_allocated(located, size)
        located = np.where(beyond, np.uint64(0), addresses).astype(np.int64)
        bad = ~self._is_allocated(located, size)
        offsets = addresses - self.local_window(threads)
        parameters = addresses - np.uint64(self.private.parameters)
        windows = (
            (offsets < tops, self._locate_local(offsets, threads, tops, size)),
            (parameters < np.uint64(self._param[1]), _window(parameters, *self._param, size)),
        )
        for inside, (place, outside) in windows:
            located = np.where(inside, place, located)
            bad = np.where(inside, outside, bad)
        return located, bad

    def _is_allocated(self, located: Array, size: int) -> Array:
        # Both ends suffice where an access lies within 16 bytes, as an allocation starts only at multiples.
        found = self._allocated[located] & self._allocated[located + (size - 1)]
        return found if size <= _ALIGN else found & self._allocated[located + _ALIGN]

    def _locate_local(self, addresses: Array, threads: Array, tops: Array, size: int) -> tuple[Array, Array]:
        outside = (addresses >= tops) | (tops - addresses < np.uint64(size))
        inside = np.where(outside, np.uint64(0), addresses).astype(np.int64)
        return self.local_places(inside, threads), outside

    def local_window(self, threads: Array) -> Array:
        """The generic addresses (uint64) at which the local memory of threads begins for each of them."""
        base, stride = self.private.local, self.private.stride
        return np.uint64(base) + threads.astype(np.uint64) * np.uint64(stride)

    def local_places(self, addresses: NDArray[np.int64], threads: Array) -> NDArray[np.int64]:
        """Positions in the image of bytes of local memory, unchecked."""
        rows, column = np.divmod(addresses, _ROW)
        places: NDArray[np.int64] = self._local + rows * self._row + threads * _ROW + column
        return places

    def is_shared(self, located: Array) -> Array:
        """Which of the positions that `locate` returned lie in shared memory."""
        base, extent = self.shared_window
        return (located >= base) & (located < base + extent)

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


def _round_up(value: int, multiple: int = _ALIGN) -> int:
    return -(-value // multiple) * multiple

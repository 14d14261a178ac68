"""What a snapshot of the sparse engine holds: only what may differ from the state that the prompt left.

A row of the recurrent state that no key has touched is 0, and most of the others keep what the prompt
wrote.  Of the convolution's last inputs only those count that a tap will still read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.sparse.model import Model, State
from qdbg.runtime.sparse.pack import Floats

Places = NDArray[np.int32]


class Snapshot(NamedTuple):
    """Row numbers count all of [layers, value heads, key size].

    base: a recurrent state, shared by many snapshots; touched: rows that are not 0; rows, content: those
    that differ from `base`, float32 [rows, value size]; window: what will still be read of it; keys,
    values: of the positions so far; position: tokens fed.
    """

    base: Floats
    touched: Places
    rows: Places
    content: Floats
    window: Floats
    keys: Floats
    values: Floats
    position: int


class Snapshots:
    """Takes snapshots of a model's state and returns to them."""

    def __init__(self, model: Model):
        self._convolution = model.convolution
        self._base: Floats | None = None
        self._read: dict[int, Places] = {}

    def forget(self) -> None:
        """The next snapshot will be of another launch."""
        self._base = None

    def take(self, state: State, position: int) -> Snapshot:
        """A snapshot; the first of a launch is what the others are told apart from."""
        if self._base is None:
            self._base = state.recurrent.copy()
        touched = np.flatnonzero(state.touched).astype(np.int32)
        now = _rows(state.recurrent)[touched]
        changed = (now.view(np.uint32) != _rows(self._base)[touched].view(np.uint32)).any(axis=1)
        return Snapshot(
            self._base, touched, touched[changed], now[changed],
            state.window.ravel()[self._still_read(position)],
            state.keys[:, :position].copy(), state.values[:, :position].copy(), position,
        )  # fmt: skip

    def restore(self, state: State, snapshot: Snapshot) -> None:
        """Make `state`, which must have room for the positions, what it was."""
        rows = _rows(state.recurrent)
        if snapshot.base is self._base:
            dirty = np.flatnonzero(state.touched)
            rows[dirty] = _rows(snapshot.base)[dirty]
        else:
            self._base = snapshot.base
            state.recurrent[:] = snapshot.base
        rows[snapshot.rows] = snapshot.content
        state.touched[:] = 0
        state.touched.reshape(-1)[snapshot.touched] = 1
        state.window[:] = 0
        state.window.reshape(-1)[self._still_read(snapshot.position)] = snapshot.window
        held = snapshot.keys.shape[1]
        state.keys[:, :held], state.values[:, :held] = snapshot.keys, snapshot.values

    def _still_read(self, position: int) -> Places:
        """Where in the window the inputs lie that a token from `position` on reads.

        The input of `age` tokens ago meets the tap of `age + 1` ago next, then the older ones.
        """
        layers, taps, channels = self._convolution.shape
        phase = position % taps
        if phase not in self._read:
            read = np.zeros((layers, taps, channels), np.bool_)
            for age in range(taps - 1):
                weights = self._convolution[:, : taps - 1 - age]
                read[:, (position - 1 - age) % taps] = (weights != 0).any(axis=1)
            self._read[phase] = np.flatnonzero(read).astype(np.int32)
        return self._read[phase]


def _rows(recurrent: Floats) -> Floats:
    """The state as a table of rows; a view."""
    return recurrent.reshape(-1, recurrent.shape[-1])

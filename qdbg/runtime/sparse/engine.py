"""The `sparse` engine: `Engine` on compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.decode import Rows, StateDecoder
from qdbg.runtime.engine import Progress, Wrong
from qdbg.runtime.sparse import native
from qdbg.runtime.sparse.cache import load_packed
from qdbg.runtime.sparse.model import AT, BLOCK, State, Table, empty_state, model_of, room_for
from qdbg.runtime.sparse.snapshot import Snapshot, Snapshots
from qdbg.runtime.state import MachineState


class SparseModel:
    """Any Qwen3.5 text checkpoint, fed token by token, float32.

    Raises CheckpointFormatError where the checkpoint is damaged or of another kind.
    """

    def __init__(self, checkpoint: Path):
        self.model = model_of(load_packed(checkpoint))
        self._attends = bool((self.model.kinds == 2).any())
        self._room = room_for(self.model)
        self._table = Table(self.model, self._room)
        self.logits = self._room.logits[: self.model.geometry.vocabulary]
        self._snapshots = Snapshots(self.model)
        self.reset()

    def reset(self) -> None:
        """Forget every token."""
        self.state = empty_state(self.model)
        self.position = 0
        self._snapshots.forget()

    @property
    def state(self) -> State:
        """What tokens change."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._table.place(AT.recurrent, state)

    @property
    def weights_read(self) -> int:
        """Bytes of weights that `feed` has read so far, attention's and a few single rows apart."""
        return int(self._room.weights[0])

    def feed(self, tokens: Sequence[int]) -> int:
        """Feed up to 64 tokens; returns the arg-max after the last, whose logits are then in `logits`."""
        return self._call("feed", tokens)

    def check(self, tokens: Sequence[int], expected: Sequence[int]) -> tuple[int, int] | None:
        """Feed up to 64 tokens at once; the first (index, token) at which another token follows than
        `expected` (-1: whatever follows is right), or None."""
        self._room.expected[: len(expected)] = expected
        at = self._call("check", tokens)
        return None if at < 0 else (at, int(self._room.tokens[0]))

    def _call(self, entry: str, tokens: Sequence[int]) -> int:
        count, position = len(tokens), self.position
        self._reserve(position + count)
        self._room.tokens[:count] = tokens
        self.position += count
        return native.entry(entry)(self._table.address, count, position)

    def _reserve(self, positions: int) -> None:
        """Room for keys and values, where attention is alive."""
        held = self.state.keys.shape[1]
        if self._attends and positions > held:
            wider = empty_state(self.model, max(positions, 2 * held))
            wider.keys[:, :held], wider.values[:, :held] = self.state.keys, self.state.values
            self.state = self.state._replace(keys=wider.keys, values=wider.values)
            self._table.place(AT.scores, (np.zeros(wider.keys.shape[1], np.float32),))

    def snapshot(self) -> Snapshot:
        """Everything that tokens change, the logits apart."""
        return self._snapshots.take(self.state, self.position)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, which stays valid; `logits` stay as they are."""
        self._reserve(snapshot.position)
        self._snapshots.restore(self.state, snapshot)
        self.position = snapshot.position

    def layer(self, layer: int) -> Rows:
        """The recurrent state of a layer's heads, float32 [heads, rows, channels]."""
        rows: NDArray[np.float32] = self.state.recurrent[layer]
        return rows


class SparseEngine:
    """See `Engine`."""

    name = "sparse"

    def __init__(self, checkpoint: Path):
        self.model = SparseModel(checkpoint)
        self.decoder = StateDecoder(checkpoint)
        self.passes = 0
        self._token = 0
        self._margin: float | None = None  # the newest token's, once somebody asked for it

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """See `Engine`."""
        self.model.reset()
        for start in range(0, len(ids), BLOCK):
            if progress is not None:
                progress(start, len(ids))
            self._token = self.model.feed(ids[start : start + BLOCK])
        self.passes, self._margin = 1, None
        return self._token

    def step(self) -> int:
        """See `Engine`."""
        self._token = self.model.feed([self._token])
        self.passes, self._margin = self.passes + 1, None
        return self._token

    def verify(
        self, prompt: Sequence[int], trace: Sequence[int], progress: Progress | None = None
    ) -> Wrong | None:
        """Check every token of a proposed trace, 64 at a time; the first wrong one, or None."""
        self.model.reset()
        tokens = [*prompt, *trace[:-1]]
        expected = [-1] * (len(prompt) - 1) + list(trace)
        for start in range(0, len(tokens), BLOCK):
            if progress is not None:
                progress(start, len(tokens))
            wrong = self.model.check(tokens[start : start + BLOCK], expected[start : start + BLOCK])
            if wrong is not None:
                index = start + wrong[0] - (len(prompt) - 1)
                return Wrong(index, trace[index], wrong[1])
        return None

    def margin(self) -> float | None:
        """See `Engine`."""
        if self._margin is None:
            logits = self.model.logits
            best = logits[self._token]
            logits[self._token] = -np.inf  # a maximum takes a twentieth of a partition's time
            self._margin = float(best - logits.max())
            logits[self._token] = best
        return self._margin

    def snapshot(self) -> Any:
        """See `Engine`."""
        return self.model.snapshot(), self._token, self.passes, self.margin()

    def restore(self, snapshot: Any) -> None:
        """See `Engine`."""
        model, self._token, self.passes, self._margin = snapshot
        self.model.restore(model)

    def state(self) -> MachineState:
        """See `Engine`."""
        return self.decoder.decode(self.model.layer)

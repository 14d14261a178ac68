"""Several launches that go through the model together: one forward pass for all of them.

A row of the batch is an `Engine` for its launch, and whoever drives the rows takes them in turn, a pass
each.  The first one to ask for the next token makes the pass; the others find theirs already there.

Prompts of different lengths end together: the shorter ones are padded on the left, with a token that no
program uses, and the padding is masked.  A masked token leaves a row's recurrent state at zero, as it
was.  Rows leave the batch when their launch is over, since a token fed to them would still count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qdbg.runtime.engine import Progress
from qdbg.runtime.state import MachineState

if TYPE_CHECKING:
    import torch

    from qdbg.runtime.stock import StockEngine

#: Tokens of one forward pass where many are known, so that long work shows progress and can be
#: interrupted.  A batch shares them out, but a row gets at least `LEAST`: the delta rule works in chunks
#: of 64, and shorter pieces are padded to that.
PREFILL, LEAST = 256, 64


def piece(rows: int) -> int:
    """Tokens of each row in one forward pass of a batch."""
    return max(LEAST, PREFILL // rows)


def leads(logits: torch.Tensor) -> list[float]:
    """The best of each row's logits [rows, vocabulary] less the runner-up."""
    best = logits.float().topk(2).values
    found: list[float] = (best[:, 0] - best[:, 1]).tolist()
    return found


class Row:
    """The `Engine` of one launch of a batch.  It cannot go back: the others would have to as well."""

    name = "stock"

    def __init__(self, batch: Batch, prompt: Sequence[int]):
        self._batch = batch
        self.prompt = list(prompt)
        self.passes = 0
        self.open = True

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """See `Engine`.  Raises ValueError for another prompt than the batch was made for."""
        if list(ids) != self.prompt:
            raise ValueError("a row of a batch runs the prompt that the batch was made with")
        if self._batch.passes == 0:
            self._batch.prefill(progress)
        self.passes = 1
        return self._batch.token(self)

    def step(self) -> int:
        """See `Engine`.  Raises ValueError where another row of the batch is a pass behind."""
        if self.passes == self._batch.passes:
            self._batch.advance()
        self.passes += 1
        return self._batch.token(self)

    def close(self) -> None:
        """The launch is over: its row takes part no longer, and has no state."""
        self.open = False

    def margin(self) -> float | None:
        """See `Engine`."""
        return self._batch.margin(self)

    def snapshot(self) -> Any:
        """See `Engine`; good for as long as the row stays where it is."""
        return self.passes

    def restore(self, snapshot: Any) -> None:
        """See `Engine`.  Raises ValueError where the row has gone on since."""
        if snapshot != self.passes:
            raise ValueError("a launch that runs in a batch cannot go back")

    def state(self) -> MachineState:
        """See `Engine`."""
        return self._batch.state(self)


class Batch:
    """The model's side of it.  rows: one for each prompt; passes: made so far, by all alike."""

    def __init__(self, engine: StockEngine, prompts: Sequence[Sequence[int]]):
        self._engine = engine
        self.rows = [Row(self, prompt) for prompt in prompts]
        self.passes = 0
        self._seated: list[Row] = []  # the rows of the tensors, in their order
        self._cache: Any = None
        self._mask: torch.Tensor | None = None
        self._tokens: list[int] = []
        self._margins: list[float] = []

    def prefill(self, progress: Progress | None) -> None:
        """Feed all prompts."""
        import torch

        engine, self._seated = self._engine, list(self.rows)
        self._cache = engine.empty_cache()
        longest = max(len(row.prompt) for row in self.rows)
        gaps = [longest - len(row.prompt) for row in self.rows]
        ids = [[engine.padding] * gap + row.prompt for gap, row in zip(gaps, self.rows, strict=True)]
        mask = (torch.arange(longest) >= torch.tensor(gaps)[:, None]).long().to(engine.device)
        size = piece(len(ids))
        for start in range(0, longest, size):
            if progress is not None:
                progress(start, longest)
            end = start + size
            logits = engine.forward([row[start:end] for row in ids], self._cache, mask[:, :end])
            self._take(logits)
        self._mask = mask
        self.passes = 1

    def advance(self) -> None:
        """A forward pass of every open row, all of which must have seen their newest token."""
        import torch

        stay = [i for i, row in enumerate(self._seated) if row.open]
        if len(stay) < len(self._seated):
            self._engine.keep_rows(self._cache, stay)
            self._seated = [self._seated[i] for i in stay]
            self._tokens = [self._tokens[i] for i in stay]
            assert self._mask is not None
            self._mask = self._mask[stay]
        if any(row.passes != self.passes for row in self._seated):
            raise ValueError("the rows of a batch go on in turn, a pass each")
        assert self._mask is not None
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        self._take(self._engine.forward([[token] for token in self._tokens], self._cache, self._mask))
        self.passes += 1

    def token(self, row: Row) -> int:
        """A row's newest token."""
        return self._tokens[self._seated.index(row)]

    def margin(self, row: Row) -> float | None:
        """The lead of a row's newest token."""
        return self._margins[self._seated.index(row)]

    def state(self, row: Row) -> MachineState:
        """The machine's state in a row."""
        return self._engine.state_of(self._cache, self._seated.index(row))

    def _take(self, logits: torch.Tensor) -> None:
        newest = logits[:, -1]
        self._tokens, self._margins = newest.argmax(-1).tolist(), leads(newest)

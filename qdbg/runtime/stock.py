"""The `stock` engine: transformers as installed, one forward pass at a time.

Nothing here is special to the machine except the decoding of the state that a pass leaves behind.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdbg.runtime.batch import PREFILL, Batch, Row, leads, piece
from qdbg.runtime.decode import Rows, StateDecoder
from qdbg.runtime.engine import Progress, Wrong
from qdbg.runtime.state import MachineState

if TYPE_CHECKING:
    import torch


class EngineError(Exception):
    """The engine cannot run; `str()` is one sentence with the cure."""


class StockEngine:
    """`Qwen3_5ForCausalLM` with its own cache.

    dtype: float32 or bfloat16; device: cpu, cuda or mps; threads: of torch, which waits so busily that
    two on two shared cores make single passes 15 times slower.  Raises EngineError where the checkpoint
    cannot be loaded or the device is not there, and later on where the device lacks an operation.
    """

    name = "stock"

    def __init__(self, checkpoint: Path, dtype: str = "float32", device: str = "cpu", threads: int = 1):
        import torch

        _check_device(device)
        import transformers

        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._torch = torch
        try:
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                checkpoint, dtype=getattr(torch, dtype), local_files_only=True
            )
            self.model = model.to(device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"cannot load {checkpoint} on {device}: {_first_line(error)}; "
                "`qdbg doctor` says what works here"
            ) from error
        self.device = device
        self.decoder = StateDecoder(checkpoint)
        self.padding: int = self.model.config.pad_token_id
        self.passes = 0
        self._token = 0
        self._logits: torch.Tensor | None = None
        self._cache: Any = None

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """See `Engine`.  The prompt goes through the model in pieces of 256 tokens."""
        self._cache = self.empty_cache()
        self.passes = 0
        for start in range(0, len(ids), PREFILL):
            if progress is not None:
                progress(start, len(ids))
            self._forward(ids[start : start + PREFILL])
        self.passes = 1
        return self._token

    def step(self) -> int:
        """See `Engine`."""
        self._forward([self._token])
        self.passes += 1
        return self._token

    def batch(self, prompts: Sequence[Sequence[int]]) -> list[Row]:
        """An engine for each of several launches, which all go through the model together."""
        return Batch(self, prompts).rows

    def verify(
        self, prompt: Sequence[int], trace: Sequence[int], progress: Progress | None = None
    ) -> Wrong | None:
        """Check every token of a proposed trace in chunked prefill; the first wrong one, or None."""
        return self.verify_batch([(prompt, trace)], progress)[0]

    def verify_batch(
        self, launches: Sequence[tuple[Sequence[int], Sequence[int]]], progress: Progress | None = None
    ) -> list[Wrong | None]:
        """`verify` for several (prompt, trace), as one batch.  Progress counts tokens of all of them.

        All rows begin together and each leaves the batch when it is over.  So only a row's last piece is
        padded, behind its end, where nothing looks any more; no mask is needed.
        """
        texts = [[*prompt, *trace[:-1]] for prompt, trace in launches]
        found: list[Wrong | None] = [None] * len(launches)
        cache, rows, start, read = self.empty_cache(), list(range(len(texts))), 0, 0
        while rows:
            if progress is not None:
                progress(read, sum(map(len, texts)))
            end = start + piece(len(rows))
            end = min(end, max(len(texts[row]) for row in rows))
            block = [texts[row][start:end] for row in rows]
            padded = [ids + [self.padding] * (end - start - len(ids)) for ids in block]
            says = self.forward(padded, cache, keep=0).argmax(-1).tolist()
            for row, ids, answers in zip(rows, block, says, strict=True):
                prompt, trace = launches[row]
                found[row] = _first_wrong(trace, start - len(prompt) + 1, answers[: len(ids)])
            read += sum(map(len, block))
            stay = [i for i, row in enumerate(rows) if found[row] is None and len(texts[row]) > end]
            if len(stay) < len(rows):
                self.keep_rows(cache, stay)
            rows, start = [rows[i] for i in stay], end
        return found

    def margin(self) -> float | None:
        """See `Engine`."""
        return None if self._logits is None else leads(self._logits[None])[0]

    def snapshot(self) -> Any:
        """See `Engine`."""
        return copy.deepcopy(self._cache), self._token, self._logits, self.passes

    def restore(self, snapshot: Any) -> None:
        """See `Engine`."""
        cache, self._token, self._logits, self.passes = snapshot
        self._cache = copy.deepcopy(cache)

    def state(self) -> MachineState:
        """See `Engine`."""
        return self.state_of(self._cache, 0)

    # -- for a batch too --------------------------------------------------------------------------------

    def forward(
        self, ids: Sequence[Sequence[int]], cache: Any, mask: torch.Tensor | None = None, keep: int = 1
    ) -> torch.Tensor:
        """A forward pass of token ids [rows, tokens].

        mask: int64 [rows, tokens in the cache and in `ids`], 0 for padding.  Returns logits [rows,
        `keep` last tokens, vocabulary]; keep 0 means all.  Raises EngineError.
        """
        with self._torch.inference_mode(), self._on_device():
            tokens = self._torch.tensor(ids, device=self.device)
            output = self.model(tokens, attention_mask=mask, cache=cache, use_cache=True, logits_to_keep=keep)
        logits: torch.Tensor = output.logits
        return logits

    def empty_cache(self) -> Any:
        """An empty cache as `generate` would make it."""
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def keep_rows(self, cache: Any, rows: Sequence[int]) -> None:
        """Let the other rows of a cache go."""
        if rows:
            cache.reorder_cache(self._torch.tensor(rows, device=self.device))

    def state_of(self, cache: Any, row: int) -> MachineState:
        """The machine's state in a row of a cache."""
        return self.decoder.decode(lambda layer: recurrent_state(cache, layer, row))

    # -- inside -----------------------------------------------------------------------------------------

    def _forward(self, ids: Sequence[int]) -> None:
        self._logits = self.forward([ids], self._cache)[0, -1]
        self._token = int(self._logits.argmax())

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """What torch says of its device becomes a sentence."""
        try:
            yield
        except (RuntimeError, NotImplementedError) as error:  # out of memory is a RuntimeError
            raise EngineError(
                f"the device {self.device} cannot run the model: {_first_line(error)}; try --device cpu"
                if self.device != "cpu"
                else f"torch cannot run the model: {_first_line(error)}; `qdbg doctor` says what works here"
            ) from error


def recurrent_state(cache: Any, layer: int, row: int) -> Rows:
    """The recurrent state of a layer's heads in a row of a cache, float32 [heads, rows, channels]."""
    state: Rows = cache.layers[layer].recurrent_states[0][row].float().cpu().numpy()
    return state.astype(np.float32, copy=False)


def _first_wrong(trace: Sequence[int], first: int, answers: Sequence[int]) -> Wrong | None:
    """answers: the model's tokens, of which the first stands where the trace's number `first` does."""
    for index, answer in enumerate(answers, start=first):
        if index >= 0 and answer != trace[index]:
            return Wrong(index, trace[index], answer)
    return None


def _check_device(device: str) -> None:
    """Raises EngineError where torch has no such device."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[device]:
        names = ", ".join(name for name, available in there.items() if available)
        raise EngineError(
            f"there is no device {device} for torch {torch.__version__} here; "
            f"what there is: {names}; `qdbg doctor` says more"
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".;")

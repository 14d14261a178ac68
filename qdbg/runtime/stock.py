"""The `stock` engine: transformers as installed, one forward pass at a time.

Nothing here is special to the machine except the decoding of the state that a pass leaves behind.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdbg.runtime.decode import Rows, StateDecoder
from qdbg.runtime.engine import Progress, Wrong
from qdbg.runtime.state import MachineState

if TYPE_CHECKING:
    import torch

#: Prompt tokens of one forward pass, so that a long prompt shows progress and can be interrupted.
PREFILL = 256


class EngineError(Exception):
    """The engine cannot run; `str()` is one sentence with the cure."""


class StockEngine:
    """`Qwen3_5ForCausalLM` with its own cache.

    dtype: float32 or bfloat16; device: as torch names it; threads: of torch, which waits so busily
    that two on two shared cores run 15 times slower than one.  Raises EngineError where the
    checkpoint cannot be loaded or the device is not there.
    """

    name = "stock"

    def __init__(self, checkpoint: Path, dtype: str = "float32", device: str = "cpu", threads: int = 1):
        import torch
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
            cause = str(error).splitlines()[0]
            raise EngineError(
                f"cannot load {checkpoint} on {device}: {cause}; `qdbg doctor` says what works here"
            ) from error
        self.device = device
        self.decoder = StateDecoder(checkpoint)
        self.passes = 0
        self._token = 0
        self._logits: torch.Tensor | None = None
        self._cache: Any = None

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """See `Engine`.  The prompt goes through the model in pieces of 256 tokens."""
        self._cache = transformers_cache(self.model)
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

    def verify(
        self, prompt: Sequence[int], trace: Sequence[int], progress: Progress | None = None
    ) -> Wrong | None:
        """Check every token of a proposed trace in chunked prefill; the first wrong one, or None."""
        torch = self._torch
        self._cache = transformers_cache(self.model)
        tokens = [*prompt, *trace[:-1]]
        first = len(prompt) - 1
        for start in range(0, len(tokens), PREFILL):
            if progress is not None:
                progress(start, len(tokens))
            piece = tokens[start : start + PREFILL]
            with torch.inference_mode():
                ids = torch.tensor([piece], device=self.device)
                output = self.model(ids, cache=self._cache, use_cache=True)
                found = output.logits[0].argmax(-1).tolist()
            for offset in range(max(0, first - start), len(piece)):
                index = start + offset - first
                if found[offset] != trace[index]:
                    return Wrong(index, trace[index], found[offset])
        return None

    def margin(self) -> float | None:
        """See `Engine`."""
        if self._logits is None:
            return None
        best, second = self._logits.float().topk(2).values.tolist()
        return float(best - second)

    def snapshot(self) -> Any:
        """See `Engine`."""
        return copy.deepcopy(self._cache), self._token, self._logits, self.passes

    def restore(self, snapshot: Any) -> None:
        """See `Engine`."""
        cache, self._token, self._logits, self.passes = snapshot
        self._cache = copy.deepcopy(cache)

    def state(self) -> MachineState:
        """See `Engine`."""
        return self.decoder.decode(self._layer)

    def _forward(self, ids: Sequence[int]) -> None:
        torch = self._torch
        with torch.inference_mode():
            tokens = torch.tensor([list(ids)], device=self.device)
            output = self.model(tokens, cache=self._cache, use_cache=True, logits_to_keep=1)
            logits = output.logits[0, -1]
        self._logits = logits
        self._token = int(logits.argmax())

    def _layer(self, layer: int) -> Rows:
        state = self._cache.layers[layer].recurrent_states[0]
        rows: Rows = state[0].float().cpu().numpy().astype(np.float32, copy=False)
        return rows


def transformers_cache(model: Any) -> Any:
    """An empty cache as `generate` would make it."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)

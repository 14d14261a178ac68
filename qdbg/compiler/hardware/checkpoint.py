"""Tensors -> a checkpoint directory that `AutoModelForCausalLM.from_pretrained` loads.

Written without torch: every weight has at most 8 significant bits, so bfloat16 is the upper half of
its float32.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHTS = "model.safetensors"


def write_checkpoint(
    directory: Path,
    config: Mapping[str, Any],
    tensors: Iterator[tuple[str, NDArray[np.float32]]],
    tokens: list[str],
    wires: Mapping[str, Any],
    dtype: str = "bfloat16",
) -> int:
    """Write config, weights, tokenizer and the names of the wires; returns the number of non-zeros.

    Raises OSError where the directory cannot be written, ValueError on a weight that is not exact in
    bfloat16.
    """
    from safetensors import TensorSpec, serialize_file

    directory.mkdir(parents=True, exist_ok=True)
    buffers: dict[str, NDArray[np.unsignedinteger[Any]]] = {}  # alive until the file is written
    nonzeros = 0
    for name, tensor in tensors:
        nonzeros += int(np.count_nonzero(tensor))
        buffers[name] = _bits(name, tensor, dtype)
    specs = {
        name: TensorSpec(dtype=dtype, shape=b.shape, data_ptr=b.ctypes.data, data_len=b.nbytes)
        for name, b in buffers.items()
    }
    temporary = directory / (WEIGHTS + ".part")
    serialize_file(specs, str(temporary), {"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)
    _write_json(directory / "config.json", {**config, "dtype": dtype})
    generation = {key: config[key] for key in ("eos_token_id", "pad_token_id")}
    _write_json(directory / "generation_config.json", {**generation, "do_sample": False})
    _write_json(directory / "wires.json", wires)
    _write_tokenizer(directory, tokens, config)
    return nonzeros


def _bits(name: str, tensor: NDArray[np.float32], dtype: str) -> NDArray[np.unsignedinteger[Any]]:
    raw = np.ascontiguousarray(tensor, "<f4").view("<u4")
    if (raw & 0xFFFF).any():
        raise ValueError(f"a weight of {name} is not exact in bfloat16")
    return raw if dtype == "float32" else (raw >> 16).astype("<u2")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _write_tokenizer(directory: Path, tokens: list[str], config: Mapping[str, Any]) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(
        models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=[], ignore_merges=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"@[0-9]+|<[^>]*>"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(directory / "tokenizer.json"))
    special = {"eos_token": tokens[config["eos_token_id"]], "pad_token": tokens[config["pad_token_id"]]}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    _write_json(directory / "tokenizer_config.json", {**settings, **special})

"""A checkpoint's matrices with the zeros left out, as flat arrays that compiled code can walk.

Two forms.  **Columns** serve `y += M x` where x is mostly 0: only the columns of x's non-zero
entries are touched, and where a column is dense in a stretch of 64 rows, the stretch is stored
whole.  **Lists** serve single rows (a gate that is open asks for its `up` row) and scattering.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Rows of a dense stretch, and how many non-zeros make it worth storing whole.
STRETCH, WORTHWHILE = 64, 14

Floats = NDArray[np.float32]
Indices = NDArray[np.uint32]


class CheckpointFormatError(Exception):
    """The checkpoint is no Qwen3.5 text model that this engine can run; one sentence."""


class Columns(NamedTuple):
    """Matrices by columns.  Matrix m has the non-empty columns start[m] .. start[m+1]; column c is
    input `column[c]`, its stretches dense_at[c] .. dense_at[c+1] begin at rows `dense_row` and hold 64
    values each, its other entries are scatter_at[c] .. scatter_at[c+1]."""

    start: Indices
    column: Indices
    dense_at: Indices
    dense_row: Indices
    dense_value: Floats
    scatter_at: Indices
    scatter_row: Indices
    scatter_value: Floats


class Lists(NamedTuple):
    """Sparse rows of all layers one after another: layer l's row r is first[l] + r, and row i has the
    numbers at[i] .. at[i+1]: `value` at input `entry`."""

    first: Indices
    at: Indices
    entry: Indices
    value: Floats


@dataclass
class Packed:
    """Everything a forward pass needs.  Shapes: L layers, H hidden, V vocabulary."""

    config: dict[str, Any]
    kinds: NDArray[np.int64]  # [L] 0: mixer skipped, 1: DeltaNet, 2: attention
    units: NDArray[np.int64]  # [L] MLP units in use
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)
    lists: dict[str, Lists] = field(default_factory=dict)


def read_tensors(checkpoint: Path) -> dict[str, Floats]:
    """All tensors of a checkpoint's safetensors files as float32, by name.

    Raises CheckpointFormatError on a file that is damaged or of another type.
    """
    from safetensors import SafetensorError, deserialize

    tensors: dict[str, Floats] = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        try:
            content = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
        except SafetensorError as error:
            raise CheckpointFormatError(f"{file} is damaged: {error}") from error
        for name, entry in content:
            tensors[name.removeprefix("model.language_model.").removeprefix("model.")] = _floats(entry)
    return tensors


def _floats(entry: dict[str, Any]) -> Floats:
    if entry["dtype"] == "BF16":
        raw = np.frombuffer(entry["data"], "<u2").astype(np.uint32) << 16
        return raw.view(np.float32).reshape(entry["shape"])
    if entry["dtype"] == "F32":
        return np.frombuffer(entry["data"], "<f4").reshape(entry["shape"])
    raise CheckpointFormatError(f"weights of type {entry['dtype']} are not supported, only BF16 and F32")


def pack(checkpoint: Path) -> Packed:
    """Read and pack a checkpoint.  Raises CheckpointFormatError if this engine cannot run it."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config", config)
    if config.get("model_type") not in ("qwen3_5_text", "qwen3_5"):
        raise CheckpointFormatError(f"{checkpoint} is a {config.get('model_type')} model, not Qwen3.5 text")
    tensors = read_tensors(checkpoint)
    if config.get("tie_word_embeddings") or "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = tensors["embed_tokens.weight"]
    layers = range(config["num_hidden_layers"])

    def of(name: str) -> list[Floats | None]:
        return [tensors.get(f"layers.{layer}.{name}.weight") for layer in layers]

    packed = Packed(config, _kinds(config, tensors), np.zeros(len(layers), np.int64))
    _pack_norms(packed, tensors)
    _pack_deltanet(packed, tensors, of)
    _pack_attention(packed, of)
    _pack_mlp(packed, of)
    packed.lists["embed"] = make_lists([tensors["embed_tokens.weight"]])
    packed.columns["head"] = make_columns([tensors["lm_head.weight"]])
    return packed


def _kinds(config: dict[str, Any], tensors: dict[str, Floats]) -> NDArray[np.int64]:
    kinds = []
    for layer, kind in enumerate(config["layer_types"]):
        if kind == "linear_attention":
            # Without input the state stays empty; with a zero out_proj it would still move.
            kinds.append(int(tensors[f"layers.{layer}.linear_attn.in_proj_qkv.weight"].any()))
        elif kind == "full_attention":
            kinds.append(2 * int(tensors[f"layers.{layer}.self_attn.o_proj.weight"].any()))
        else:
            raise CheckpointFormatError(f"layers of type {kind} are not supported")
    return np.array(kinds, np.int64)


def _pack_norms(packed: Packed, tensors: dict[str, Floats]) -> None:
    layers = range(len(packed.kinds))
    for short, name in (("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")):
        packed.arrays[short] = 1 + np.stack([tensors[f"layers.{layer}.{name}.weight"] for layer in layers])
    packed.arrays["final_norm"] = 1 + tensors["norm.weight"]


def _pack_deltanet(
    packed: Packed, tensors: dict[str, Floats], of: Callable[[str], list[Floats | None]]
) -> None:
    config, count = packed.config, len(packed.kinds)
    heads, size = config["linear_num_value_heads"], config["linear_value_head_dim"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    width = 2 * keys + heads * size
    packed.columns["qkv"] = make_columns(of("linear_attn.in_proj_qkv"))
    for short, name in (("qkv", "qkv"), ("z", "z"), ("b", "b"), ("a", "a")):
        packed.lists[short] = make_lists(of(f"linear_attn.in_proj_{name}"))
    packed.lists["out"] = make_lists([None if m is None else m.T for m in of("linear_attn.out_proj")])
    convolution = np.zeros((count, config["linear_conv_kernel_dim"], width), np.float32)
    packed.arrays |= {
        "convolution": convolution,
        "decay": np.zeros((count, heads), np.float32),
        "dt_bias": np.zeros((count, heads), np.float32),
        "gated_norm": np.zeros((count, size), np.float32),
    }
    for layer, kind in enumerate(packed.kinds):
        prefix = f"layers.{layer}.linear_attn."
        if kind == 1:
            convolution[layer] = tensors[prefix + "conv1d.weight"][:, 0, :].T
            packed.arrays["decay"][layer] = -np.exp(tensors[prefix + "A_log"])
            packed.arrays["dt_bias"][layer] = tensors[prefix + "dt_bias"]
            packed.arrays["gated_norm"][layer] = tensors[prefix + "norm.weight"]


def _pack_attention(packed: Packed, of: Callable[[str], list[Floats | None]]) -> None:
    live = packed.kinds == 2
    for short in ("q_proj", "k_proj", "v_proj", "o_proj"):
        matrices = [m if on else None for m, on in zip(of(f"self_attn.{short}"), live, strict=True)]
        if short == "o_proj":  # scattered from, so kept by inputs
            matrices = [None if m is None else m.T for m in matrices]
        packed.lists[short] = make_lists(matrices)
    size = packed.config["head_dim"]
    for short in ("q_norm", "k_norm"):
        rows = [np.zeros(size, np.float32) if w is None else w for w in of(f"self_attn.{short}")]
        packed.arrays[short] = 1 + np.stack(rows)


def _pack_mlp(packed: Packed, of: Callable[[str], list[Floats | None]]) -> None:
    """Units whose gate, up or down is all 0 are left out."""
    gates, ups, downs = (of(f"mlp.{name}_proj") for name in ("gate", "up", "down"))
    kept: tuple[list[Floats | None], ...] = ([], [], [])
    for layer, (gate, up, down) in enumerate(zip(gates, ups, downs, strict=True)):
        assert gate is not None
        assert up is not None
        assert down is not None
        used = gate.any(1) & up.any(1) & down.any(0)
        packed.units[layer] = used.sum()
        for store, rows in zip(kept, (gate, up, down.T), strict=True):
            store.append(rows[used])
    packed.columns["gate"] = make_columns(kept[0])
    for name, matrices in zip(("gate", "up", "down"), kept, strict=True):
        packed.lists[name] = make_lists(matrices)


def make_lists(matrices: list[Floats | None]) -> Lists:
    """The non-zeros of each row; a missing matrix has no rows."""
    first, lengths, indices, values = [0], [], [], []
    for matrix in matrices:
        if matrix is not None:
            rows, columns = np.nonzero(matrix)
            lengths.append(np.bincount(rows, minlength=len(matrix)))
            indices.append(columns)
            values.append(matrix[rows, columns])
        first.append(first[-1] + (0 if matrix is None else len(matrix)))
    at = np.concatenate([[0], *lengths]).cumsum()
    return Lists(_u4(first), _u4(at), _u4(_joined(indices)), _joined(values).astype(np.float32))


def make_columns(matrices: list[Floats | None]) -> Columns:
    """The non-empty columns of each matrix, split into dense stretches and the rest."""
    start, column, dense_at, scatter_at = [0], [], [0], [0]
    dense_row, dense_value, scatter_row, scatter_value = [], [], [], []
    for matrix in matrices:
        if matrix is not None:
            for index in np.nonzero(matrix.any(0))[0]:
                content = np.ascontiguousarray(matrix[:, index])
                rows = np.nonzero(content)[0]
                stretches, counts = np.unique(rows // STRETCH, return_counts=True)
                full = stretches[(counts >= WORTHWHILE) & ((stretches + 1) * STRETCH <= len(content))]
                rest = rows[~np.isin(rows // STRETCH, full)]
                column.append(index)
                dense_row.append(full * STRETCH)
                dense_value += [content[s * STRETCH : (s + 1) * STRETCH] for s in full]
                scatter_row.append(rest)
                scatter_value.append(content[rest])
                dense_at.append(dense_at[-1] + len(full))
                scatter_at.append(scatter_at[-1] + len(rest))
        start.append(len(column))
    return Columns(
        _u4(start), _u4(column), _u4(dense_at), _u4(_joined(dense_row)),
        _joined(dense_value).astype(np.float32), _u4(scatter_at), _u4(_joined(scatter_row)),
        _joined(scatter_value).astype(np.float32),
    )  # fmt: skip


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0)


def _u4(values: Any) -> Indices:
    return np.asarray(values).astype(np.uint32)

"""The shapes that compiled code works on: the model, its state and its scratch space as named tuples
of arrays (numba takes those apart at compile time)."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from qdbg.runtime.sparse.pack import Columns, Floats, Indices, Lists, Packed


class Geometry(NamedTuple):
    """Sizes: layers, hidden, vocabulary; DeltaNet key heads, value heads and head size; attention
    heads, key-value heads, head size and rotary width."""

    layers: int
    hidden: int
    vocabulary: int
    key_heads: int
    value_heads: int
    head: int
    heads: int
    kv_heads: int
    attention_head: int
    rotary: int


class Model(NamedTuple):
    """Weights, and the scalars that they come with."""

    geometry: Geometry
    kinds: Indices
    units: Indices
    norm1: Floats
    norm2: Floats
    final_norm: Floats
    convolution: Floats
    tap_used: Indices
    decay: Floats
    dt_bias: Floats
    gated_norm: Floats
    q_norm: Floats
    k_norm: Floats
    frequency: Floats
    embed: Lists
    qkv_rows: Lists
    z: Lists
    b: Lists
    a: Lists
    out: Lists
    q_proj: Lists
    k_proj: Lists
    v_proj: Lists
    o_proj: Lists
    gate_rows: Lists
    up: Lists
    down: Lists
    head_rows: Lists
    qkv: Columns
    gate: Columns
    head: Columns
    epsilon: np.float32


def _places() -> dict[str, int]:
    place, places = len(Geometry._fields), {}
    for name, kind in get_type_hints(Model).items():
        if name not in ("geometry", "epsilon"):
            places[name] = place
            place += 2 * len(getattr(kind, "_fields", "1"))
    return places


#: Where each field's first array has its entry (begin, end) in `Bundle.table`, after the geometry.
AT: Any = namedtuple("AT", _places())(**_places())


class State(NamedTuple):
    """What a launch changes.

    recurrent: [layers, value heads, key size, value size]; touched: uint8 [layers, value heads, key
    size], 0 where a row of it is still 0; window: [layers, taps, channels], a ring of the last inputs of
    the convolution; keys, values: [layers, positions, kv heads, head size].
    """

    recurrent: Floats
    touched: Any
    window: Floats
    keys: Floats
    values: Floats


def geometry_of(packed: Packed) -> Geometry:
    """Sizes from the configuration."""
    config = packed.config
    size = config["head_dim"]
    rope = config.get("rope_parameters") or {}
    partial = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    return Geometry(
        config["num_hidden_layers"],
        config["hidden_size"],
        config["vocab_size"],
        config["linear_num_key_heads"],
        config["linear_num_value_heads"],
        config["linear_key_head_dim"],
        config["num_attention_heads"],
        config["num_key_value_heads"],
        size,
        int(size * partial),
    )


def model_of(packed: Packed) -> Model:
    """The packed checkpoint as compiled code wants it."""
    geometry, arrays = geometry_of(packed), packed.arrays
    base = (packed.config.get("rope_parameters") or {}).get(
        "rope_theta", packed.config.get("rope_theta", 1e7)
    )
    exponents = np.arange(0, geometry.rotary, 2, dtype=np.float32) / np.float32(max(geometry.rotary, 1))
    rows = {f"{name}_rows" if name in packed.columns else name: table for name, table in packed.lists.items()}
    fields: dict[str, Any] = (
        rows
        | packed.columns
        | arrays
        | {
            "geometry": geometry,
            "kinds": packed.kinds.astype(np.uint32),
            "units": packed.units.astype(np.uint32),
            "tap_used": arrays["convolution"].any(2).astype(np.uint32),
            "frequency": (1.0 / np.float32(base) ** exponents).astype(np.float32),
            "epsilon": np.float32(packed.config["rms_norm_eps"]),
        }
    )
    return Model(**fields)


class Bundle(NamedTuple):
    """A model as three arrays.  Handing compiled code a hundred arrays at every call would cost more
    than a forward pass; `single.unbundle` makes a `Model` of views again.

    table: geometry, then the position of every array in `floats` or `indices`, in order of `Model`.
    """

    floats: Floats
    indices: Indices
    table: Any


def bundle(model: Model) -> Bundle:
    """Flatten a model."""
    floats: list[Floats] = []
    indices: list[Indices] = []
    table: list[int] = [*model.geometry]
    for part in model[1:-1]:
        for array in part if isinstance(part, tuple) else (part,):
            store: list[Any] = floats if array.dtype == np.float32 else indices
            begin = sum(len(held) for held in store)
            store.append(array.ravel())
            table += [begin, begin + array.size]
    floats.append(np.array([model.epsilon]))
    return Bundle(np.concatenate(floats), np.concatenate(indices), np.array(table, np.int64))


def empty_state(model: Model, positions: int = 0) -> State:
    """Before the first token; keys and values only where an attention layer is alive."""
    g = model.geometry
    taps, channels = model.convolution.shape[1:]
    attention = (g.layers, positions if (model.kinds == 2).any() else 0, g.kv_heads, g.attention_head)
    return State(
        np.zeros((g.layers, g.value_heads, g.head, g.head), np.float32),
        np.zeros((g.layers, g.value_heads, g.head), np.uint8),
        np.zeros((g.layers, taps, channels), np.float32),
        np.zeros(attention, np.float32),
        np.zeros(attention, np.float32),
    )

"""The shapes that compiled code works on: the model, its state and its scratch space as named tuples
of arrays (numba takes those apart at compile time), and the table by which it finds them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.sparse.pack import STRETCH, Columns, Floats, Indices, Lists, Packed

#: Tokens of a block; 64 of float32 fill whole vector registers and a cache line each.
BLOCK = 64


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
    qkv: Columns
    gate: Columns
    head: Columns
    epsilon: Floats


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


class Entries(NamedTuple):
    """Keys or queries of the tokens of a block: the entries that are not 0.

    at: uint32 [BLOCK, head size], which channels; value: their values; count: int64 [BLOCK].
    """

    at: Indices
    value: Floats
    count: Any


class Room(NamedTuple):
    """Scratch space, and what goes in and out.  Shapes: T = BLOCK tokens, H hidden.

    tokens: int64 [T], to be fed; expected: int64 [T], what should follow each, or -1; logits: of the
    newest token, with a stretch to spare; scores: of every position, where attention is alive; xs,
    norms: [H, T], the residual stream and its norm; span: [H, 2], the least and the greatest of each
    row of norms; row, line, squares: [T]; x, normed: [H], channels, gates: the same of a single token;
    fresh, seen, mixed: [head size]; weights: int64 [1], bytes of weights that `feed` has read so far.
    """

    tokens: Any
    expected: Any
    logits: Floats
    scores: Floats
    xs: Floats
    norms: Floats
    span: Floats
    row: Floats
    line: Floats
    squares: Floats
    x: Floats
    normed: Floats
    channels: Floats
    gates: Floats
    fresh: Floats
    seen: Floats
    mixed: Floats
    key: Entries
    query: Entries
    weights: Any


def _places() -> dict[str, int]:
    place, places = len(Geometry._fields), {}
    for group in (Model, State, Room):
        for name, kind in get_type_hints(group).items():
            if name != "geometry":
                assert name not in places
                places[name] = place
                place += 2 * len(getattr(kind, "_fields", "1"))
    return places | {"end": place}


#: Where the first array of each field has its entry (address, length) in a table, after the geometry.
AT: Any = namedtuple("AT", _places())(**_places())


class Table:
    """Where compiled code finds everything: the geometry, then address and length of every array.

    `address` is what entries are called with.  A table keeps its arrays alive.
    """

    def __init__(self, model: Model, room: Room):
        self._numbers = np.zeros(AT.end, np.int64)
        self._numbers[: len(model.geometry)] = model.geometry
        self._held: dict[int, Any] = {}
        self.address = self._numbers.ctypes.data
        self.place(AT.kinds, model[1:])
        self.place(AT.tokens, room)

    def place(self, at: int, group: Any) -> None:
        """Note the arrays of a tuple, from an entry on."""
        self._held[at] = group
        for array in _arrays(group):
            assert array.flags.c_contiguous
            self._numbers[at : at + 2] = array.ctypes.data, array.size
            at += 2


def _arrays(group: Any) -> Iterator[NDArray[Any]]:
    for part in group:
        if isinstance(part, tuple):
            yield from _arrays(part)
        else:
            yield part


def room_for(model: Model, positions: int = 0) -> Room:
    """Scratch space; positions: how far attention looks back."""
    g = model.geometry
    shapes: dict[str, Any] = {
        "logits": g.vocabulary + STRETCH,
        "scores": positions,
        "xs": (g.hidden, BLOCK),
        "norms": (g.hidden, BLOCK),
        "span": (g.hidden, 2),
        **dict.fromkeys(("row", "line", "squares"), BLOCK),
        **dict.fromkeys(("x", "normed"), g.hidden),
        "channels": model.convolution.shape[2],
        "gates": int(model.units.max(initial=0)) + STRETCH,
        **dict.fromkeys(("fresh", "seen"), g.head),
        "mixed": 2 * g.attention_head,
    }
    size = (BLOCK, g.head)
    entries = [
        Entries(np.zeros(size, np.uint32), np.zeros(size, np.float32), np.zeros(BLOCK, np.int64))
        for _ in range(2)
    ]
    return Room(
        tokens=np.zeros(BLOCK, np.int64),
        expected=np.zeros(BLOCK, np.int64),
        **{name: np.zeros(shape, np.float32) for name, shape in shapes.items()},
        key=entries[0],
        query=entries[1],
        weights=np.zeros(1, np.int64),
    )


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
            "epsilon": np.array([packed.config["rms_norm_eps"]], np.float32),
        }
    )
    return Model(**fields)


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

"""Inside compiled code: a `Model` of views into a `Bundle`."""

from __future__ import annotations

from typing import Any

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.model import AT, Bundle, Geometry, Model
from qdbg.runtime.sparse.pack import Columns, Floats, Lists


@compiled
def _floats(bundle: Bundle, at: int) -> Floats:
    return bundle.floats[bundle.table[at] : bundle.table[at + 1]]


@compiled
def _indices(bundle: Bundle, at: int) -> Any:
    return bundle.indices[bundle.table[at] : bundle.table[at + 1]]


@compiled
def _matrix(bundle: Bundle, at: int) -> Any:
    flat, layers = _floats(bundle, at), bundle.table[0]
    return flat.reshape(layers, len(flat) // layers)


@compiled
def _lists(b: Bundle, at: int) -> Lists:
    return Lists(_indices(b, at), _indices(b, at + 2), _indices(b, at + 4), _floats(b, at + 6))


@compiled
def _columns(b: Bundle, at: int) -> Columns:
    dense = (_indices(b, at + 4), _indices(b, at + 6), _floats(b, at + 8))
    sparse = (_indices(b, at + 10), _indices(b, at + 12), _floats(b, at + 14))
    return Columns(_indices(b, at), _indices(b, at + 2), *dense, *sparse)


@compiled
def unbundle(b: Bundle) -> Model:
    """Views of a bundle's arrays, in the order of `Model`."""
    t = b.table
    g = Geometry(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9])
    channels = g.head * (2 * g.key_heads + g.value_heads)
    taps = _floats(b, AT.convolution)
    convolution = taps.reshape(g.layers, len(taps) // (g.layers * channels), channels)
    tap_used = _indices(b, AT.tap_used).reshape(g.layers, len(taps) // (g.layers * channels))
    vectors = (_indices(b, AT.kinds), _indices(b, AT.units), _matrix(b, AT.norm1), _matrix(b, AT.norm2))
    heads = (_matrix(b, AT.decay), _matrix(b, AT.dt_bias), _matrix(b, AT.gated_norm))
    rotary = (_matrix(b, AT.q_norm), _matrix(b, AT.k_norm), _floats(b, AT.frequency))
    mixer = (_lists(b, AT.z), _lists(b, AT.b), _lists(b, AT.a), _lists(b, AT.out))
    attend = (_lists(b, AT.q_proj), _lists(b, AT.k_proj), _lists(b, AT.v_proj), _lists(b, AT.o_proj))
    swiglu = (_lists(b, AT.gate_rows), _lists(b, AT.up), _lists(b, AT.down))
    columns = (_columns(b, AT.qkv), _columns(b, AT.gate), _columns(b, AT.head))
    return Model(
        g, *vectors, _floats(b, AT.final_norm), convolution, tap_used, *heads, *rotary, _lists(b, AT.embed),
        _lists(b, AT.qkv_rows), *mixer, *attend, *swiglu, _lists(b, AT.head_rows), *columns, b.floats[-1],
    )  # fmt: skip

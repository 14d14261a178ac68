"""One forward pass of one token, zeros skipped.  Compiled by numba on first use and cached on disk.

The order of operations follows transformers' one-token decoding (the recurrent gated delta rule).
Where every sum is exact, as in a compiled machine, results are equal to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from qdbg.runtime.sparse.model import AT, Bundle, ColumnArrays, Geometry, ListArrays, Model, State
from qdbg.runtime.sparse.pack import STRETCH, Floats

f4 = np.float32
ZERO, ONE, L2_EPSILON = f4(0), f4(1), f4(1e-6)
#: silu(x) is x from here on, and 0 below: exp over- or underflows.
SURE, DEAD = f4(20), f4(-104)
WIDE = np.uint64(STRETCH)


@njit(cache=True, inline="always")
def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    if x >= SURE:
        return x
    if x < DEAD or x == ZERO:
        return ZERO
    return x / (ONE + f4(math.exp(-x)))


@njit(cache=True, inline="always")
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if x >= SURE:
        return ONE
    if x < DEAD:
        return ZERO
    return ONE / (ONE + f4(math.exp(-x)))


@njit(cache=True)
def add_product(matrix: ColumnArrays, which: int, x: Floats, y: Floats) -> None:
    """y += M x for matrix number `which`, columns of zero inputs skipped."""
    for c in range(matrix.start[which], matrix.start[which + 1]):
        value = x[matrix.column[c]]
        if value != ZERO:
            for d in range(matrix.dense_at[c], matrix.dense_at[c + 1]):
                source, row = np.uint64(d) * WIDE, np.uint64(matrix.dense_row[d])
                for j in range(WIDE):
                    y[row + j] += matrix.dense_value[source + j] * value
            for k in range(matrix.scatter_at[c], matrix.scatter_at[c + 1]):
                y[matrix.scatter_row[k]] += matrix.scatter_value[k] * value


@njit(cache=True, inline="always")
def dot(rows: ListArrays, row: int, x: Floats) -> Any:
    """The product of one sparse row with x."""
    total = ZERO
    for k in range(rows.at[row], rows.at[row + 1]):
        total += rows.value[k] * x[rows.entry[k]]
    return total


@njit(cache=True, inline="always")
def scatter(rows: ListArrays, row: int, factor: Any, y: Floats) -> None:
    """y += factor * one sparse row."""
    for k in range(rows.at[row], rows.at[row + 1]):
        y[rows.entry[k]] += rows.value[k] * factor


@njit(cache=True)
def mean_square(x: Floats) -> Any:
    """The mean of the squares, in sixteen partial sums that the processor adds side by side."""
    parts = np.zeros(16, np.float32)
    whole = len(x) // 16 * 16
    for i in range(0, whole, 16):
        for j in range(16):
            parts[j] += x[i + j] * x[i + j]
    total = ZERO
    for j in range(16):
        total += parts[j]
    for i in range(whole, len(x)):
        total += x[i] * x[i]
    return total / f4(len(x))


@njit(cache=True)
def rms_norm(x: Floats, weight: Floats, epsilon: Any, out: Floats) -> None:
    """out = x / rms(x) * weight."""
    factor = ONE / np.sqrt(mean_square(x) + epsilon)
    for i in range(len(x)):
        out[i] = (x[i] * factor) * weight[i]


@njit(cache=True, inline="always")
def any_alive(channels: Floats, first: int, size: int) -> bool:
    """Whether silu would leave anything of a head's channels; without branches, so that it vectorises."""
    count = np.int32(0)
    for i in range(np.uint64(size)):
        value = channels[np.uint64(first) + i]
        count += np.int32((value >= DEAD) & (value != ZERO))
    return bool(count > 0)


@njit(cache=True, inline="always")
def open_channels(channels: Floats, first: int, size: int, where: Any, values: Floats) -> int:
    """silu, then the l2 norm, of a key or query: its non-zero entries, and how many there are."""
    count, squares = 0, ZERO
    if not any_alive(channels, first, size):
        return 0
    for i in range(size):
        raw = channels[first + i]
        if raw != ZERO and not raw < DEAD:
            value = silu(raw)
            where[count], values[count] = i, value
            squares += value * value
            count += 1
    factor = ONE / np.sqrt(squares + L2_EPSILON)
    for i in range(count):
        values[i] *= factor
    return count


@njit(cache=True)
def delta_net(
    model: Model, state: State, layer: int, position: int, x: Floats, normed: Floats, channels: Floats
) -> None:
    """A Gated DeltaNet mixer: x += mixer(normed); the state moves on by one token."""
    g = model.geometry
    size, key_heads, value_heads = g.head, g.key_heads, g.value_heads
    taps = state.window.shape[1]
    window = state.window[layer]
    newest = window[position % taps]
    newest[:] = ZERO
    add_product(model.qkv, layer, normed, newest)
    weight = model.convolution[layer, taps - 1]
    for i in range(len(channels)):
        channels[i] = weight[i] * newest[i]
    for tap in range(taps - 1):
        if model.tap_used[layer, tap]:
            past, weight = window[(position + 1 + tap) % taps], model.convolution[layer, tap]
            for i in range(len(channels)):
                channels[i] += weight[i] * past[i]
    keys_from, values_from = key_heads * size, 2 * key_heads * size
    key_at, query_at = np.empty(size, np.int64), np.empty(size, np.int64)
    key, query = np.empty(size, np.float32), np.empty(size, np.float32)
    change, seen = np.empty(size, np.float32), np.empty(size, np.float32)
    root = f4(math.sqrt(size))
    group = value_heads // key_heads
    for head in range(value_heads):
        source = head // group
        keys = open_channels(channels, keys_from + source * size, size, key_at, key)
        queries = open_channels(channels, source * size, size, query_at, query)
        memory, touched = state.recurrent[layer, head], state.touched[layer, head]
        if model.decay[layer, head] != ZERO:
            raw = dot(model.a, model.a.first[layer] + head, normed) + model.dt_bias[layer, head]
            soft = raw if raw > SURE else f4(math.log1p(math.exp(raw)))
            keep = f4(math.exp(model.decay[layer, head] * soft))
            if keep != ONE:
                for i in range(size):
                    if touched[i]:
                        for j in range(size):
                            memory[i, j] *= keep
        beta = sigmoid(dot(model.b, model.b.first[layer] + head, normed)) if keys else ZERO
        if beta != ZERO:
            change[:] = ZERO
            for k in range(keys):
                row, factor = memory[key_at[k]], key[k]
                for j in range(size):
                    change[j] += row[j] * factor
            for j in range(size):
                change[j] = (silu(channels[values_from + head * size + j]) - change[j]) * beta
            for k in range(keys):
                row, factor = memory[key_at[k]], key[k]
                touched[key_at[k]] = 1
                for j in range(size):
                    row[j] += factor * change[j]
        if queries:
            seen[:] = ZERO
            for k in range(queries):
                if touched[query_at[k]]:
                    row, factor = memory[query_at[k]], query[k] / root
                    for j in range(size):
                        seen[j] += row[j] * factor
            factor = ONE / np.sqrt(mean_square(seen) + model.epsilon)
            for j in range(size):
                if seen[j] != ZERO:
                    channel = head * size + j
                    output = model.out.first[layer] + channel
                    if model.out.at[output] == model.out.at[output + 1]:
                        continue
                    gate = silu(dot(model.z, model.z.first[layer] + channel, normed))
                    if gate != ZERO:
                        value = (model.gated_norm[layer, j] * (seen[j] * factor)) * gate
                        scatter(model.out, output, value, x)


@njit(cache=True)
def rotate(vector: Floats, position: int, frequency: Floats) -> None:
    """Rotary embedding of the first 2 * len(frequency) entries, in place."""
    half = len(frequency)
    for i in range(half):
        angle = f4(position) * frequency[i]
        cosine, sine = f4(math.cos(angle)), f4(math.sin(angle))
        low, high = vector[i], vector[half + i]
        vector[i] = low * cosine - high * sine
        vector[half + i] = high * cosine + low * sine


@njit(cache=True)
def attention(model: Model, state: State, layer: int, position: int, x: Floats, normed: Floats) -> None:
    """A gated full-attention mixer: x += mixer(normed); keys and values are kept."""
    g = model.geometry
    size = g.attention_head
    query, weight = np.empty(size, np.float32), np.empty(position + 1, np.float32)
    for head in range(g.kv_heads):
        key, value = state.keys[layer, position, head], state.values[layer, position, head]
        for i in range(size):
            query[i] = dot(model.k_proj, model.k_proj.first[layer] + head * size + i, normed)
            value[i] = dot(model.v_proj, model.v_proj.first[layer] + head * size + i, normed)
        rms_norm(query, model.k_norm[layer], model.epsilon, key)
        rotate(key, position, model.frequency)
    raw = np.empty(size, np.float32)
    for head in range(g.heads):
        row = model.q_proj.first[layer] + 2 * head * size
        source = head // (g.heads // g.kv_heads)
        for i in range(size):
            raw[i] = dot(model.q_proj, row + i, normed)
        rms_norm(raw, model.q_norm[layer], model.epsilon, query)
        rotate(query, position, model.frequency)
        top = f4(-np.inf)
        for p in range(position + 1):
            score = ZERO
            for i in range(size):
                score += query[i] * state.keys[layer, p, source, i]
            weight[p] = score / f4(math.sqrt(size))
            top = max(top, weight[p])
        whole = ZERO
        for p in range(position + 1):
            weight[p] = f4(math.exp(weight[p] - top))
            whole += weight[p]
        for i in range(size):
            mixed = ZERO
            for p in range(position + 1):
                mixed += (weight[p] / whole) * state.values[layer, p, source, i]
            mixed *= sigmoid(dot(model.q_proj, row + size + i, normed))
            scatter(model.o_proj, model.o_proj.first[layer] + head * size + i, mixed, x)


@njit(cache=True)
def mlp(model: Model, layer: int, x: Floats, normed: Floats, gates: Floats) -> None:
    """SwiGLU: `up` and `down` are touched only where the gate is open."""
    count = model.units[layer]
    gates[:count] = ZERO
    add_product(model.gate, layer, normed, gates)
    for unit in range(count):
        gate = silu(gates[unit])
        if gate != ZERO:
            value = gate * dot(model.up, model.up.first[layer] + unit, normed)
            if value != ZERO:
                scatter(model.down, model.down.first[layer] + unit, value, x)


@njit(cache=True)
def arg_max(values: Floats) -> int:
    """The first of the largest; stretches without anything larger are passed over without branches."""
    best = 0
    for first in range(0, len(values), STRETCH):
        top, larger = values[best], np.int32(0)
        end = min(first + STRETCH, len(values))
        for i in range(np.uint64(first), np.uint64(end)):
            larger += np.int32(values[i] > top)
        if larger:
            for i in range(first, end):
                if values[i] > values[best]:
                    best = i
    return best


@njit(cache=True)
def forward(model: Model, state: State, token: int, position: int, logits: Floats, want: bool) -> int:
    """Feed a token at a position; returns the arg-max of the logits (0 unless wanted)."""
    g = model.geometry
    x, normed = np.zeros(g.hidden, np.float32), np.empty(g.hidden, np.float32)
    channels = np.empty(model.convolution.shape[2], np.float32)
    gates = np.empty(max(model.units) + STRETCH, np.float32)
    scatter(model.embed, token, ONE, x)
    for layer in range(g.layers):
        if model.kinds[layer]:
            rms_norm(x, model.norm1[layer], model.epsilon, normed)
            if model.kinds[layer] == 1:
                delta_net(model, state, layer, position, x, normed, channels)
            else:
                attention(model, state, layer, position, x, normed)
        rms_norm(x, model.norm2[layer], model.epsilon, normed)
        mlp(model, layer, x, normed, gates)
    if not want:
        return 0
    rms_norm(x, model.final_norm, model.epsilon, normed)
    logits[:] = ZERO
    add_product(model.head, 0, normed, logits)
    return arg_max(logits)


@njit(cache=True, inline="always")
def _floats(bundle: Bundle, at: int) -> Floats:
    return bundle.floats[bundle.table[at] : bundle.table[at + 1]]


@njit(cache=True, inline="always")
def _indices(bundle: Bundle, at: int) -> Any:
    return bundle.indices[bundle.table[at] : bundle.table[at + 1]]


@njit(cache=True, inline="always")
def _matrix(bundle: Bundle, at: int) -> Any:
    flat, layers = _floats(bundle, at), bundle.table[0]
    return flat.reshape(layers, len(flat) // layers)


@njit(cache=True, inline="always")
def _lists(b: Bundle, at: int) -> ListArrays:
    return ListArrays(_indices(b, at), _indices(b, at + 2), _indices(b, at + 4), _floats(b, at + 6))


@njit(cache=True, inline="always")
def _columns(b: Bundle, at: int) -> ColumnArrays:
    dense = (_indices(b, at + 4), _indices(b, at + 6), _floats(b, at + 8))
    sparse = (_indices(b, at + 10), _indices(b, at + 12), _floats(b, at + 14))
    return ColumnArrays(_indices(b, at), _indices(b, at + 2), *dense, *sparse)


@njit(cache=True)
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


@njit(cache=True)
def feed(
    floats: Floats, indices: Any, table: Any,
    recurrent: Floats, touched: Any, window: Floats, keys: Floats, values: Floats,
    tokens: Any, position: int, logits: Floats,
) -> int:  # fmt: skip
    """Feed tokens one after another; returns the token after the last one.

    The first three arguments are a `Bundle`, the next five a `State`: plain arrays get into compiled
    code much faster than tuples of them.
    """
    model, state = unbundle(Bundle(floats, indices, table)), State(recurrent, touched, window, keys, values)
    answer = 0
    for i in range(len(tokens)):
        answer = forward(model, state, tokens[i], position + i, logits, i == len(tokens) - 1)
    return answer

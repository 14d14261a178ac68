"""One forward pass of one token, zeros skipped.  Compiled by numba on first use and cached on disk.

The order of operations follows transformers' one-token decoding (the recurrent gated delta rule).
Where every sum is exact, as in a compiled machine, results are equal to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.delta import decay, read, write
from qdbg.runtime.sparse.elementary import (
    DEAD,
    L2_EPSILON,
    ONE,
    ZERO,
    add_product,
    any_alive,
    arg_max,
    dot,
    f4,
    mean_square,
    rms_norm,
    scatter,
    sigmoid,
    silu,
)
from qdbg.runtime.sparse.model import Bundle, Model, State
from qdbg.runtime.sparse.pack import STRETCH, Floats
from qdbg.runtime.sparse.views import unbundle


@compiled
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


@compiled
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
    value, seen = np.empty(size, np.float32), np.empty(size, np.float32)
    root = f4(math.sqrt(size))
    group = value_heads // key_heads
    for head in range(value_heads):
        source = head // group
        keys = open_channels(channels, keys_from + source * size, size, key_at, key)
        queries = open_channels(channels, source * size, size, query_at, query)
        memory, touched = state.recurrent[layer, head], state.touched[layer, head]
        rate = model.decay[layer, head]
        if rate != ZERO:
            step = dot(model.a, model.a.first[layer] + head, normed) + model.dt_bias[layer, head]
            decay(memory, touched, rate, step)
        beta = sigmoid(dot(model.b, model.b.first[layer] + head, normed)) if keys else ZERO
        if beta != ZERO:
            for j in range(size):
                value[j] = silu(channels[values_from + head * size + j])
            write(memory, touched, key_at, key, keys, value, beta)
        if queries:
            read(memory, touched, query_at, query, queries, root, seen)
            factor = ONE / np.sqrt(mean_square(seen) + model.epsilon)
            for j in range(size):
                if seen[j] != ZERO:
                    channel = head * size + j
                    output = model.out.first[layer] + channel
                    if model.out.at[output] == model.out.at[output + 1]:
                        continue
                    gate = silu(dot(model.z, model.z.first[layer] + channel, normed))
                    if gate != ZERO:
                        scatter(
                            model.out, output, (model.gated_norm[layer, j] * (seen[j] * factor)) * gate, x
                        )


@compiled
def rotate(vector: Floats, position: int, frequency: Floats) -> None:
    """Rotary embedding of the first 2 * len(frequency) entries, in place."""
    half = len(frequency)
    for i in range(half):
        angle = f4(position) * frequency[i]
        cosine, sine = f4(math.cos(angle)), f4(math.sin(angle))
        low, high = vector[i], vector[half + i]
        vector[i] = low * cosine - high * sine
        vector[half + i] = high * cosine + low * sine


@compiled
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


@compiled
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


@compiled
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
    return int(arg_max(logits))


@compiled
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

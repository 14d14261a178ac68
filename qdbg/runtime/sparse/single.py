"""One forward pass of one token, zeros skipped.

The order of operations follows transformers' one-token decoding (the recurrent gated delta rule).
Where every sum is exact, as in a compiled machine, results are equal to the last bit.

Everywhere `t` is the address of a `Table`'s numbers.
"""

from __future__ import annotations

import math

import numpy as np

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.delta import decay, write
from qdbg.runtime.sparse.delta import read as recall
from qdbg.runtime.sparse.elementary import (
    DEAD,
    L2_EPSILON,
    ONE,
    ZERO,
    add_product,
    any_alive,
    arg_max,
    clear,
    dot,
    f4,
    mean_square,
    rms_norm,
    row_bytes,
    scatter,
    sigmoid,
    silu,
)
from qdbg.runtime.sparse.model import AT
from qdbg.runtime.sparse.pack import Floats, Indices
from qdbg.runtime.sparse.views import (
    columns,
    entries,
    float32s,
    geometry,
    int64s,
    lists,
    number,
    taps,
    uint8s,
    uint32s,
)


@compiled
def note(t: int, size: int) -> None:
    """Bytes of weights were read."""
    int64s(t, AT.weights, (1,))[0] += size


@compiled
def open_channels(channels: Floats, first: int, size: int, where: Indices, values: Floats) -> int:
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
def convolve(t: int, layer: int, position: int, channels: Floats) -> None:
    """The projection to queries, keys and values, and its causal convolution."""
    g, count = geometry(t), taps(t)
    window = float32s(t, AT.window, (g.layers, count, len(channels)))[layer]
    kernel = float32s(t, AT.convolution, (g.layers, count, len(channels)))[layer]
    used = uint32s(t, AT.tap_used, (g.layers, count))[layer]
    newest = window[position % count]
    clear(newest)
    note(t, add_product(columns(t, AT.qkv), layer, float32s(t, AT.normed, (g.hidden,)), newest))
    weight = kernel[count - 1]
    for i in range(len(channels)):
        channels[i] = weight[i] * newest[i]
    for tap in range(count - 1):
        if used[tap]:
            past, weight = window[(position + 1 + tap) % count], kernel[tap]
            for i in range(len(channels)):
                channels[i] += weight[i] * past[i]


@compiled
def delta_net(t: int, layer: int, position: int) -> None:
    """A Gated DeltaNet mixer: x += mixer(normed); the state moves on by one token."""
    g, normed = geometry(t), float32s(t, AT.normed, (number(t, 1),))
    size, group, heads = g.head, g.value_heads // g.key_heads, (g.layers, g.value_heads)
    channels = float32s(t, AT.channels, (number(t, AT.channels + 1),))
    convolve(t, layer, position, channels)
    recurrent = float32s(t, AT.recurrent, (g.layers, g.value_heads, size, size))
    marks = uint8s(t, AT.touched, (g.layers, g.value_heads, size))
    rates, biases = float32s(t, AT.decay, heads), float32s(t, AT.dt_bias, heads)
    a, b = lists(t, AT.a), lists(t, AT.b)
    keys, queries = entries(t, AT.key), entries(t, AT.query)
    key_at, key, query_at, query = keys.at[0], keys.value[0], queries.at[0], queries.value[0]
    value, seen = float32s(t, AT.fresh, (size,)), float32s(t, AT.seen, (size,))
    root = f4(math.sqrt(size))
    for head in range(g.value_heads):
        source = head // group
        written = open_channels(channels, (g.key_heads + source) * size, size, key_at, key)
        asked = open_channels(channels, source * size, size, query_at, query)
        memory, touched, rate = recurrent[layer, head], marks[layer, head], rates[layer, head]
        if rate != ZERO:
            decay(memory, touched, rate, dot(a, a.first[layer] + head, normed) + biases[layer, head])
        beta = sigmoid(dot(b, b.first[layer] + head, normed)) if written else ZERO
        if beta != ZERO:
            for j in range(size):
                value[j] = silu(channels[(2 * g.key_heads + head) * size + j])
            write(memory, touched, key_at, key, written, value, beta)
        if asked:
            recall(memory, touched, query_at, query, asked, root, seen)
            read_out(t, layer, head, seen)


@compiled
def read_out(t: int, layer: int, head: int, seen: Floats) -> None:
    """The gated norm of what a head read, and its way into the residual stream."""
    g = geometry(t)
    x, normed = float32s(t, AT.x, (g.hidden,)), float32s(t, AT.normed, (g.hidden,))
    out, z = lists(t, AT.out), lists(t, AT.z)
    weight = float32s(t, AT.gated_norm, (g.layers, g.head))[layer]
    factor = ONE / np.sqrt(mean_square(seen) + float32s(t, AT.epsilon, (1,))[0])
    read = 0
    for j in range(len(seen)):
        if seen[j] != ZERO:
            channel = head * len(seen) + j
            output = out.first[layer] + channel
            if out.at[output] != out.at[output + 1]:
                gate = silu(dot(z, z.first[layer] + channel, normed))
                if gate != ZERO:
                    scatter(out, output, (weight[j] * (seen[j] * factor)) * gate, x)
                read += row_bytes(z, z.first[layer] + channel) + row_bytes(out, output)
    note(t, read)


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
def attention(t: int, layer: int, position: int) -> None:
    """A gated full-attention mixer: x += mixer(normed); keys and values are kept."""
    g, epsilon = geometry(t), float32s(t, AT.epsilon, (1,))[0]
    size = g.attention_head
    x, normed = float32s(t, AT.x, (g.hidden,)), float32s(t, AT.normed, (g.hidden,))
    held = (number(t, AT.keys + 1) // (g.kv_heads * size * g.layers), g.kv_heads, size)
    keys = float32s(t, AT.keys, (g.layers, held[0], held[1], size))[layer]
    values = float32s(t, AT.values, (g.layers, held[0], held[1], size))[layer]
    query, raw = float32s(t, AT.mixed, (2, size))[0], float32s(t, AT.mixed, (2, size))[1]
    weight = float32s(t, AT.scores, (position + 1,))
    frequency = float32s(t, AT.frequency, (number(t, AT.frequency + 1),))
    k_norm = float32s(t, AT.k_norm, (g.layers, size))[layer]
    q_norm = float32s(t, AT.q_norm, (g.layers, size))[layer]
    k_proj, v_proj = lists(t, AT.k_proj), lists(t, AT.v_proj)
    q_proj, o_proj = lists(t, AT.q_proj), lists(t, AT.o_proj)
    for head in range(g.kv_heads):
        key, value = keys[position, head], values[position, head]
        for i in range(size):
            raw[i] = dot(k_proj, k_proj.first[layer] + head * size + i, normed)
            value[i] = dot(v_proj, v_proj.first[layer] + head * size + i, normed)
        rms_norm(raw, k_norm, epsilon, key)
        rotate(key, position, frequency)
    for head in range(g.heads):
        row = q_proj.first[layer] + 2 * head * size
        source = head // (g.heads // g.kv_heads)
        for i in range(size):
            raw[i] = dot(q_proj, row + i, normed)
        rms_norm(raw, q_norm, epsilon, query)
        rotate(query, position, frequency)
        top = f4(-np.inf)
        for p in range(position + 1):
            score = ZERO
            for i in range(size):
                score += query[i] * keys[p, source, i]
            weight[p] = score / f4(math.sqrt(size))
            top = max(top, weight[p])
        whole = ZERO
        for p in range(position + 1):
            weight[p] = f4(math.exp(weight[p] - top))
            whole += weight[p]
        for i in range(size):
            mixed = ZERO
            for p in range(position + 1):
                mixed += (weight[p] / whole) * values[p, source, i]
            mixed *= sigmoid(dot(q_proj, row + size + i, normed))
            scatter(o_proj, o_proj.first[layer] + head * size + i, mixed, x)


@compiled
def mlp(t: int, layer: int) -> None:
    """SwiGLU: `up` and `down` are touched only where the gate is open."""
    hidden, count = number(t, 1), uint32s(t, AT.units, (number(t, 0),))[layer]
    x, normed = float32s(t, AT.x, (hidden,)), float32s(t, AT.normed, (hidden,))
    gates = float32s(t, AT.gates, (number(t, AT.gates + 1),))
    up, down = lists(t, AT.up), lists(t, AT.down)
    clear(gates)
    read = add_product(columns(t, AT.gate), layer, normed, gates)
    for unit in range(count):
        gate = silu(gates[unit])
        if gate != ZERO:
            value = gate * dot(up, up.first[layer] + unit, normed)
            read += row_bytes(up, up.first[layer] + unit)
            if value != ZERO:
                scatter(down, down.first[layer] + unit, value, x)
                read += row_bytes(down, down.first[layer] + unit)
    note(t, read)


@compiled
def answer(t: int) -> int:
    """The arg-max of the logits of `normed`."""
    logits = float32s(t, AT.logits, (number(t, AT.logits + 1),))
    clear(logits)
    note(t, add_product(columns(t, AT.head), 0, float32s(t, AT.normed, (number(t, 1),)), logits))
    return int(arg_max(logits, number(t, 2)))


@compiled
def norm(t: int, weight: Floats) -> None:
    """normed = RMSNorm(x)."""
    x, normed = float32s(t, AT.x, (len(weight),)), float32s(t, AT.normed, (len(weight),))
    rms_norm(x, weight, float32s(t, AT.epsilon, (1,))[0], normed)


@compiled
def forward(t: int, token: int, position: int) -> None:
    """Feed a token at a position; its last hidden state is then in `x`."""
    layers, hidden = number(t, 0), number(t, 1)
    x, kinds = float32s(t, AT.x, (hidden,)), uint32s(t, AT.kinds, (layers,))
    norm1, norm2 = float32s(t, AT.norm1, (layers, hidden)), float32s(t, AT.norm2, (layers, hidden))
    clear(x)
    scatter(lists(t, AT.embed), token, ONE, x)
    for layer in range(layers):
        if kinds[layer]:
            norm(t, norm1[layer])
            if kinds[layer] == 1:
                delta_net(t, layer, position)
            else:
                attention(t, layer, position)
        norm(t, norm2[layer])
        mlp(t, layer)


def feed(t: int, count: int, position: int) -> int:
    """Feed the first `count` of the room's tokens one after another; returns the token after the last,
    whose logits are then in the room's `logits`."""
    tokens = int64s(t, AT.tokens, (count,))
    for i in range(count):
        forward(t, tokens[i], position + i)
    norm(t, float32s(t, AT.final_norm, (number(t, 1),)))
    return int(answer(t))

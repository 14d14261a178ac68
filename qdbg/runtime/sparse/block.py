"""Many tokens at once, for checking a proposed trace: layer by layer, 64 tokens side by side.

The tokens are known beforehand, so every matrix row meets 64 of them in one vectorised loop; only
the delta rule itself goes token by token.  The state afterwards is that of feeding one by one.
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
    f4,
    mean_square,
    scatter,
    sigmoid,
    silu,
)
from qdbg.runtime.sparse.model import Bundle, Model, State
from qdbg.runtime.sparse.pack import Floats, Lists
from qdbg.runtime.sparse.single import attention
from qdbg.runtime.sparse.views import unbundle

#: Tokens of a block; 64 of float32 fill whole vector registers and a cache line each.
BLOCK = 64


@compiled
def row_product(rows: Lists, row: int, normed: Any, out: Floats) -> None:
    """One sparse row times every token of the block, four entries at a time, in their order."""
    for t in range(BLOCK):
        out[t] = ZERO
    k, end = rows.at[row], rows.at[row + 1]
    while k + 4 <= end:
        v0, v1, v2, v3 = rows.value[k], rows.value[k + 1], rows.value[k + 2], rows.value[k + 3]
        s0, s1 = normed[rows.entry[k]], normed[rows.entry[k + 1]]
        s2, s3 = normed[rows.entry[k + 2]], normed[rows.entry[k + 3]]
        for t in range(BLOCK):
            out[t] = (((out[t] + v0 * s0[t]) + v1 * s1[t]) + v2 * s2[t]) + v3 * s3[t]
        k += 4
    while k < end:
        value, source = rows.value[k], normed[rows.entry[k]]
        for t in range(BLOCK):
            out[t] += value * source[t]
        k += 1


@compiled
def one_product(rows: Lists, row: int, normed: Any, token: int) -> Any:
    """One sparse row times one token of the block."""
    total = ZERO
    for k in range(rows.at[row], rows.at[row + 1]):
        total += rows.value[k] * normed[rows.entry[k], token]
    return total


@compiled
def alive(values: Floats) -> int:
    """How many entries silu would not make 0."""
    count = np.int32(0)
    for t in range(BLOCK):
        count += np.int32((values[t] >= DEAD) & (values[t] != ZERO))
    return int(count)


@compiled
def norms(x: Any, weight: Floats, epsilon: Any, out: Any) -> None:
    """RMSNorm of every token."""
    squares = np.zeros(BLOCK, np.float32)
    for d in range(len(x)):
        for t in range(BLOCK):
            squares[t] += x[d, t] * x[d, t]
    for t in range(BLOCK):
        squares[t] = ONE / np.sqrt(squares[t] / f4(len(x)) + epsilon)
    for d in range(len(x)):
        for t in range(BLOCK):
            out[d, t] = (x[d, t] * squares[t]) * weight[d]


@compiled
def convolve(
    model: Model, state: State, layer: int, channel: int, position: int, count: int, raw: Floats, out: Floats
) -> None:
    """The causal convolution of one channel over the block; the window takes in the newest inputs."""
    taps = state.window.shape[1]
    now = model.convolution[layer, taps - 1, channel]
    for t in range(BLOCK):
        out[t] = now * raw[t]
    for tap in range(taps - 1):
        weight, back = model.convolution[layer, tap, channel], taps - 1 - tap
        if weight != ZERO:
            for t in range(min(back, count)):
                out[t] += weight * state.window[layer, (position + t - back) % taps, channel]
            for t in range(back, BLOCK):
                out[t] += weight * raw[t - back]
    for t in range(max(0, count - taps), count):
        state.window[layer, (position + t) % taps, channel] = raw[t]


@compiled
def open_rows(
    model: Model, state: State, layer: int, first: int, position: int, count: int, normed: Any, where: Any,
    values: Any, held: Any,
) -> int:  # fmt: skip
    """A head's keys or queries for every token: non-zero entries after silu and the l2 norm.

    where, values: [BLOCK, size]; held: entries of each token.  Returns how many tokens have any.
    """
    raw, channels = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    squares = np.zeros(BLOCK, np.float32)
    held[:] = 0
    base = model.qkv_rows.first[layer]
    for i in range(values.shape[1]):
        row = base + first + i
        if model.qkv_rows.at[row] == model.qkv_rows.at[row + 1]:
            continue
        row_product(model.qkv_rows, row, normed, raw)
        convolve(model, state, layer, first + i, position, count, raw, channels)
        if alive(channels):
            for t in range(count):
                if channels[t] >= DEAD and channels[t] != ZERO:
                    value = silu(channels[t])
                    where[t, held[t]], values[t, held[t]] = i, value
                    squares[t] += value * value
                    held[t] += 1
    tokens = 0
    for t in range(count):
        if held[t]:
            tokens += 1
            factor = ONE / np.sqrt(squares[t] + L2_EPSILON)
            for k in range(held[t]):
                values[t, k] *= factor
    return tokens


@compiled
def delta_net(model: Model, state: State, layer: int, position: int, count: int, x: Any, normed: Any) -> None:
    """A Gated DeltaNet mixer over the block."""
    g = model.geometry
    size, group = g.head, g.value_heads // g.key_heads
    shape = (BLOCK, size)
    key_at, key, keys = np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(BLOCK, np.int64)
    query_at, query, queries = (
        np.empty(shape, np.int64),
        np.empty(shape, np.float32),
        np.empty(BLOCK, np.int64),
    )
    raw, value = np.empty(BLOCK, np.float32), np.empty((size, BLOCK), np.float32)
    seen = np.empty(size, np.float32)
    fresh = np.empty(size, np.float32)
    root = f4(math.sqrt(size))
    for source in range(g.key_heads):
        writes = open_rows(
            model, state, layer, (g.key_heads + source) * size, position, count, normed, key_at, key, keys
        )
        reads = open_rows(
            model, state, layer, source * size, position, count, normed, query_at, query, queries
        )
        for head in range(source * group, (source + 1) * group):
            values_of(model, state, layer, head, position, count, normed, writes, raw, value)
            memory, touched = state.recurrent[layer, head], state.touched[layer, head]
            rate = model.decay[layer, head]
            if not (writes or reads or rate != ZERO):
                continue
            for t in range(count):
                if rate != ZERO:
                    step = one_product(model.a, model.a.first[layer] + head, normed, t)
                    decay(memory, touched, rate, step + model.dt_bias[layer, head])
                if keys[t]:
                    beta = sigmoid(one_product(model.b, model.b.first[layer] + head, normed, t))
                    if beta != ZERO:
                        for j in range(size):
                            fresh[j] = silu(value[j, t])
                        write(memory, touched, key_at[t], key[t], keys[t], fresh, beta)
                if queries[t]:
                    read(memory, touched, query_at[t], query[t], queries[t], root, seen)
                    read_out(model, layer, head, t, seen, x, normed)


@compiled
def values_of(
    model: Model, state: State, layer: int, head: int, position: int, count: int, normed: Any, writes: int,
    raw: Floats, value: Any,
) -> None:  # fmt: skip
    """The values of a head before silu, [size, BLOCK]; without a key to write under, only the
    convolution's window is kept up."""
    g = model.geometry
    size, taps = g.head, state.window.shape[1]
    for j in range(size):
        channel = (2 * g.key_heads + head) * size + j
        row = model.qkv_rows.first[layer] + channel
        if model.qkv_rows.at[row] == model.qkv_rows.at[row + 1]:
            for t in range(BLOCK):
                value[j, t] = ZERO
        elif writes:
            row_product(model.qkv_rows, row, normed, raw)
            convolve(model, state, layer, channel, position, count, raw, value[j])
        else:
            for t in range(max(0, count - taps), count):
                newest = one_product(model.qkv_rows, row, normed, t)
                state.window[layer, (position + t) % taps, channel] = newest


@compiled
def read_out(model: Model, layer: int, head: int, t: int, seen: Floats, x: Any, normed: Any) -> None:
    """The gated norm of what a head read for token t, and its way into the residual stream."""
    factor = ONE / np.sqrt(mean_square(seen) + model.epsilon)
    for j in range(len(seen)):
        if seen[j] != ZERO:
            channel = head * len(seen) + j
            output = model.out.first[layer] + channel
            if model.out.at[output] != model.out.at[output + 1]:
                gate = silu(one_product(model.z, model.z.first[layer] + channel, normed, t))
                if gate != ZERO:
                    scatter(
                        model.out, output, (model.gated_norm[layer, j] * (seen[j] * factor)) * gate, x[:, t]
                    )


@compiled
def mlp(model: Model, layer: int, x: Any, normed: Any) -> None:
    """SwiGLU over the block; units closed for all its tokens cost one row."""
    gate, up = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for unit in range(model.units[layer]):
        row_product(model.gate_rows, model.gate_rows.first[layer] + unit, normed, gate)
        if alive(gate):
            for t in range(BLOCK):
                gate[t] = silu(gate[t])
            row_product(model.up, model.up.first[layer] + unit, normed, up)
            for t in range(BLOCK):
                gate[t] *= up[t]
            row = model.down.first[layer] + unit
            for k in range(model.down.at[row], model.down.at[row + 1]):
                weight, target = model.down.value[k], x[model.down.entry[k]]
                for t in range(BLOCK):
                    target[t] += weight * gate[t]


@compiled
def answers(model: Model, normed: Any, best: Floats, found: Any) -> None:
    """The arg-max of the logits of every token; the first row wins a tie."""
    logits = np.empty(BLOCK, np.float32)
    best[:] = f4(-np.inf)
    found[:] = 0
    for row in range(model.geometry.vocabulary):
        row_product(model.head_rows, row, normed, logits)
        better = np.int32(0)
        for t in range(BLOCK):
            better += np.int32(logits[t] > best[t])
        if better:
            for t in range(BLOCK):
                if logits[t] > best[t]:
                    best[t], found[t] = logits[t], row


@compiled
def check(
    floats: Floats, indices: Any, table: Any,
    recurrent: Floats, touched: Any, window: Floats, keys: Floats, values: Floats,
    tokens: Any, position: int, expected: Any, wrong: Any,
) -> int:  # fmt: skip
    """Feed up to 64 tokens.  `expected[i]` is the token that should follow tokens[i], or -1 where nobody
    asks.  Returns the first i where it does not (the model's own goes to wrong[0]), or -1.  The first
    arguments are as in `single.feed`."""
    model, state = unbundle(Bundle(floats, indices, table)), State(recurrent, touched, window, keys, values)
    g, count = model.geometry, len(tokens)
    x, normed = np.zeros((g.hidden, BLOCK), np.float32), np.zeros((g.hidden, BLOCK), np.float32)
    for t in range(count):
        scatter(model.embed, tokens[t], ONE, x[:, t])
    for layer in range(g.layers):
        if model.kinds[layer]:
            norms(x, model.norm1[layer], model.epsilon, normed)
            if model.kinds[layer] == 1:
                delta_net(model, state, layer, position, count, x, normed)
            else:
                for t in range(count):
                    stream = x[:, t].copy()
                    attention(model, state, layer, position + t, stream, normed[:, t].copy())
                    x[:, t] = stream
        norms(x, model.norm2[layer], model.epsilon, normed)
        mlp(model, layer, x, normed)
    if expected.max() >= 0:
        norms(x, model.final_norm, model.epsilon, normed)
        best, found = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int64)
        answers(model, normed, best, found)
        for t in range(count):
            if expected[t] >= 0 and found[t] != expected[t]:
                wrong[0] = found[t]
                return t
    return -1

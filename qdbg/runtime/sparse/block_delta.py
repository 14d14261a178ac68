"""A Gated DeltaNet mixer over a block of tokens: keys and queries for all of them, then the delta rule."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.delta import decay, read, write
from qdbg.runtime.sparse.elementary import (
    DEAD,
    L2_EPSILON,
    ONE,
    ZERO,
    clear,
    f4,
    mean_square,
    sigmoid,
    silu,
)
from qdbg.runtime.sparse.many import alive, closed, one_product, row_product, scatter_to
from qdbg.runtime.sparse.model import AT, BLOCK, Entries
from qdbg.runtime.sparse.pack import Floats, Indices, Lists
from qdbg.runtime.sparse.views import (
    entries,
    float32s,
    geometry,
    lists,
    number,
    taps,
    uint8s,
    uint32s,
)


class Inputs(NamedTuple):
    """A layer's queries, keys and values, by channel, before the convolution and in it.

    rows: the projection, from row `first` on; norms: [hidden, BLOCK], what it is applied to; kernel,
    window: [taps, channels]; used: [taps], whether any channel uses a tap.
    """

    rows: Lists
    first: Any
    norms: Floats
    kernel: Floats
    window: Floats
    used: Indices


@compiled
def inputs(t: int, layer: int) -> Inputs:
    """The inputs of a layer."""
    layers, rows = number(t, 0), lists(t, AT.qkv_rows)
    shape = (layers, taps(t), number(t, AT.channels + 1))
    return Inputs(
        rows,
        rows.first[layer],
        float32s(t, AT.norms, (number(t, 1), BLOCK)),
        float32s(t, AT.convolution, shape)[layer],
        float32s(t, AT.window, shape)[layer],
        uint32s(t, AT.tap_used, (layers, taps(t)))[layer],
    )


@compiled
def looks_back(source: Inputs, channel: int) -> bool:
    """Whether the convolution of a channel sees more than the newest token."""
    for tap in range(len(source.used) - 1):
        if source.used[tap] and source.kernel[tap, channel] != ZERO:
            return True
    return False


@compiled
def convolve(source: Inputs, channel: int, position: int, count: int, raw: Floats, out: Floats) -> None:
    """The causal convolution of one channel over the block."""
    held = len(source.used)
    now = source.kernel[held - 1, channel]
    for i in range(BLOCK):
        out[i] = now * raw[i]
    for tap in range(held - 1):
        weight, back = source.kernel[tap, channel], held - 1 - tap
        if weight != ZERO:
            for i in range(min(back, count)):
                out[i] += weight * source.window[(position + i - back) % held, channel]
            for i in range(back, BLOCK):
                out[i] += weight * raw[i - back]


@compiled
def convolved(source: Inputs, channel: int, position: int, token: int) -> Any:
    """The convolution of one channel at one token of the block."""
    held, row = len(source.used), source.first + channel
    out = source.kernel[held - 1, channel] * one_product(source.rows, row, source.norms, token)
    for tap in range(held - 1):
        if source.used[tap]:
            weight, at = source.kernel[tap, channel], token - (held - 1 - tap)
            if weight != ZERO and at < 0:
                out += weight * source.window[(position + at) % held, channel]
            elif weight != ZERO:
                out += weight * one_product(source.rows, row, source.norms, at)
    return out


@compiled
def keep_window(source: Inputs, first: int, size: int, position: int, count: int) -> None:
    """The newest inputs of those of some channels whose convolution will look back at them."""
    held = len(source.used)
    for channel in range(first, first + size):
        if looks_back(source, channel):
            for i in range(max(0, count - held), count):
                newest = one_product(source.rows, source.first + channel, source.norms, i)
                source.window[(position + i) % held, channel] = newest


@compiled
def open_entries(t: int, source: Inputs, first: int, position: int, count: int, found: Entries) -> int:
    """A head's keys or queries for every token: non-zero entries after silu and the l2 norm.

    Returns how many tokens have any.
    """
    raw, channels = float32s(t, AT.row, (BLOCK,)), float32s(t, AT.line, (BLOCK,))
    squares, span = float32s(t, AT.squares, (BLOCK,)), float32s(t, AT.span, (number(t, 1), 2))
    rows, newest, size = source.rows, source.kernel[len(source.used) - 1], found.at.shape[1]
    clear(squares)
    for i in range(BLOCK):
        found.count[i] = 0
    for k in range(size):
        channel, row = first + k, source.first + (first + k)
        if rows.at[row] == rows.at[row + 1]:
            continue
        if not looks_back(source, channel) and closed(rows, row, newest[channel], span):
            continue
        row_product(rows, row, source.norms, raw)
        convolve(source, channel, position, count, raw, channels)
        if alive(channels):
            for i in range(count):
                if channels[i] >= DEAD and channels[i] != ZERO:
                    value, held = silu(channels[i]), found.count[i]
                    found.at[i, held], found.value[i, held] = k, value
                    squares[i] += value * value
                    found.count[i] += 1
    tokens = 0
    for i in range(count):
        if found.count[i]:
            tokens += 1
            factor = ONE / np.sqrt(squares[i] + L2_EPSILON)
            for k in range(found.count[i]):
                found.value[i, k] *= factor
    keep_window(source, first, size, position, count)
    return tokens


@compiled
def delta_net(t: int, layer: int, position: int, count: int) -> None:
    """A Gated DeltaNet mixer over the block."""
    g, source = geometry(t), inputs(t, layer)
    size, group = g.head, g.value_heads // g.key_heads
    keys, queries = entries(t, AT.key), entries(t, AT.query)
    rates = float32s(t, AT.decay, (g.layers, g.value_heads))[layer]
    for group_head in range(g.key_heads):
        writes = open_entries(t, source, (g.key_heads + group_head) * size, position, count, keys)
        reads = open_entries(t, source, group_head * size, position, count, queries)
        for head in range(group_head * group, (group_head + 1) * group):
            if writes or reads or rates[head] != ZERO:
                remember(t, source, layer, head, position, count)
            keep_window(source, (2 * g.key_heads + head) * size, size, position, count)


@compiled
def remember(t: int, source: Inputs, layer: int, head: int, position: int, count: int) -> None:
    """The delta rule of one head, token by token, and what it reads into the residual stream."""
    g, norms = geometry(t), source.norms
    keys, queries = entries(t, AT.key), entries(t, AT.query)
    fresh, seen = float32s(t, AT.fresh, (g.head,)), float32s(t, AT.seen, (g.head,))
    memory = float32s(t, AT.recurrent, (g.layers, g.value_heads, g.head, g.head))[layer, head]
    touched = uint8s(t, AT.touched, (g.layers, g.value_heads, g.head))[layer, head]
    rate = float32s(t, AT.decay, (g.layers, g.value_heads))[layer, head]
    bias = float32s(t, AT.dt_bias, (g.layers, g.value_heads))[layer, head]
    a, b, root = lists(t, AT.a), lists(t, AT.b), f4(math.sqrt(g.head))
    first = (2 * g.key_heads + head) * g.head
    for i in range(count):
        if rate != ZERO:
            decay(memory, touched, rate, one_product(a, a.first[layer] + head, norms, i) + bias)
        if keys.count[i]:
            beta = sigmoid(one_product(b, b.first[layer] + head, norms, i))
            if beta != ZERO:
                for j in range(g.head):
                    fresh[j] = silu(convolved(source, first + j, position, i))
                write(memory, touched, keys.at[i], keys.value[i], keys.count[i], fresh, beta)
        if queries.count[i]:
            read(memory, touched, queries.at[i], queries.value[i], queries.count[i], root, seen)
            read_out(t, layer, head, i, seen)


@compiled
def read_out(t: int, layer: int, head: int, token: int, seen: Floats) -> None:
    """The gated norm of what a head read for a token, and its way into the residual stream."""
    g, shape = geometry(t), (number(t, 1), BLOCK)
    xs, norms = float32s(t, AT.xs, shape), float32s(t, AT.norms, shape)
    out, z = lists(t, AT.out), lists(t, AT.z)
    weight = float32s(t, AT.gated_norm, (g.layers, g.head))[layer]
    factor = ONE / np.sqrt(mean_square(seen) + float32s(t, AT.epsilon, (1,))[0])
    for j in range(len(seen)):
        if seen[j] != ZERO:
            channel = head * len(seen) + j
            output = out.first[layer] + channel
            if out.at[output] != out.at[output + 1]:
                gate = silu(one_product(z, z.first[layer] + channel, norms, token))
                if gate != ZERO:
                    scatter_to(out, output, (weight[j] * (seen[j] * factor)) * gate, xs, token)

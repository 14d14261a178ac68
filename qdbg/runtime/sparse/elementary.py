"""What a layer is made of: activations, norms, products with sparse matrices.  All float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdbg.runtime.sparse.compiled import compiled, reordered
from qdbg.runtime.sparse.pack import STRETCH, Columns, Floats, Lists

f4 = np.float32
ZERO, ONE, L2_EPSILON = f4(0), f4(1), f4(1e-6)
#: silu(x) is x from here on, and 0 below: exp over- or underflows.
SURE, DEAD = f4(20), f4(-104)
WIDE = np.uint64(STRETCH)


@compiled
def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    if x >= SURE:
        return x
    if x < DEAD or x == ZERO:
        return ZERO
    return x / (ONE + f4(math.exp(-x)))


@compiled
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if x >= SURE:
        return ONE
    if x < DEAD:
        return ZERO
    return ONE / (ONE + f4(math.exp(-x)))


@compiled
def clear(values: Floats) -> None:
    """Zeros everywhere."""
    for i in range(len(values)):
        values[i] = ZERO


@compiled
def add_product(matrix: Columns, which: int, x: Floats, y: Floats) -> int:
    """y += M x for matrix number `which`, columns of zero inputs skipped.  Returns how many bytes of the
    matrix were read: values of 4, and 4 more for the row of each that is stored by itself."""
    stretches, others = np.int64(0), np.int64(0)
    for c in range(matrix.start[which], matrix.start[which + 1]):
        value = x[matrix.column[c]]
        if value != ZERO:
            stretches += np.int64(matrix.dense_at[c + 1]) - np.int64(matrix.dense_at[c])
            others += np.int64(matrix.scatter_at[c + 1]) - np.int64(matrix.scatter_at[c])
            for d in range(matrix.dense_at[c], matrix.dense_at[c + 1]):
                source, row = np.uint64(d) * WIDE, np.uint64(matrix.dense_row[d])
                for j in range(WIDE):
                    y[row + j] += matrix.dense_value[source + j] * value
            for k in range(matrix.scatter_at[c], matrix.scatter_at[c + 1]):
                y[matrix.scatter_row[k]] += matrix.scatter_value[k] * value
    return int(4 * STRETCH * stretches + 8 * others)


@compiled
def row_bytes(rows: Lists, row: int) -> int:
    """What reading a sparse row takes: values and their places, 4 bytes each."""
    return int(8 * (np.int64(rows.at[row + 1]) - np.int64(rows.at[row])))


@compiled
def dot(rows: Lists, row: int, x: Floats) -> Any:
    """The product of one sparse row with x."""
    total = ZERO
    for k in range(rows.at[row], rows.at[row + 1]):
        total += rows.value[k] * x[rows.entry[k]]
    return total


@compiled
def scatter(rows: Lists, row: int, factor: Any, y: Floats) -> None:
    """y += factor * one sparse row."""
    for k in range(rows.at[row], rows.at[row + 1]):
        y[rows.entry[k]] += rows.value[k] * factor


@reordered
def mean_square(x: Floats) -> Any:
    """The mean of the squares."""
    total = ZERO
    for i in range(len(x)):
        total += x[i] * x[i]
    return total / f4(len(x))


@compiled
def rms_norm(x: Floats, weight: Floats, epsilon: Any, out: Floats) -> None:
    """out = x / rms(x) * weight."""
    factor = ONE / np.sqrt(mean_square(x) + epsilon)
    for i in range(len(x)):
        out[i] = (x[i] * factor) * weight[i]


@compiled
def any_alive(channels: Floats, first: int, size: int) -> bool:
    """Whether silu would leave anything of a head's channels; without branches, so that it vectorises."""
    count = np.int32(0)
    for i in range(np.uint64(size)):
        value = channels[np.uint64(first) + i]
        count += np.int32((value >= DEAD) & (value != ZERO))
    return bool(count > 0)


@compiled
def arg_max(values: Floats, count: int) -> int:
    """The first of the largest of `count` values; stretches without a larger one take no branches."""
    best = 0
    for first in range(0, count, STRETCH):
        top, larger = values[best], np.int32(0)
        end = min(first + STRETCH, count)
        for i in range(np.uint64(first), np.uint64(end)):
            larger += np.int32(values[i] > top)
        if larger:
            for i in range(first, end):
                if values[i] > values[best]:
                    best = i
    return best

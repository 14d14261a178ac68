"""Elementary operations on the tokens of a block, side by side.

`span` bounds what a row can give: the least and the greatest value of each input over the block.  The
bound is added up in the order of the products themselves, and rounding is monotonic, so what it excludes
would not have happened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.elementary import DEAD, ONE, SURE, ZERO, clear, f4, silu
from qdbg.runtime.sparse.model import AT, BLOCK
from qdbg.runtime.sparse.pack import Floats, Lists
from qdbg.runtime.sparse.views import float32s


@compiled
def row_product(rows: Lists, row: int, norms: Any, out: Floats) -> None:
    """One sparse row times every token of the block, four entries at a time, in their order."""
    for t in range(BLOCK):
        out[t] = ZERO
    k, end = rows.at[row], rows.at[row + 1]
    while k + 4 <= end:
        v0, v1, v2, v3 = rows.value[k], rows.value[k + 1], rows.value[k + 2], rows.value[k + 3]
        s0, s1 = norms[rows.entry[k]], norms[rows.entry[k + 1]]
        s2, s3 = norms[rows.entry[k + 2]], norms[rows.entry[k + 3]]
        for t in range(BLOCK):
            out[t] = (((out[t] + v0 * s0[t]) + v1 * s1[t]) + v2 * s2[t]) + v3 * s3[t]
        k += 4
    while k < end:
        value, source = rows.value[k], norms[rows.entry[k]]
        for t in range(BLOCK):
            out[t] += value * source[t]
        k += 1


@compiled
def one_product(rows: Lists, row: int, norms: Any, token: int) -> Any:
    """One sparse row times one token of the block."""
    total = ZERO
    for k in range(rows.at[row], rows.at[row + 1]):
        total += rows.value[k] * norms[rows.entry[k], token]
    return total


@compiled
def scatter_to(rows: Lists, row: int, factor: Any, xs: Any, token: int) -> None:
    """One token of xs += factor * one sparse row."""
    for k in range(rows.at[row], rows.at[row + 1]):
        xs[rows.entry[k], token] += rows.value[k] * factor


@compiled
def closed(rows: Lists, row: int, factor: Any, span: Any) -> bool:
    """Whether silu makes 0 of factor * the row's product for every token of the block."""
    least, greatest = ZERO, ZERO
    for k in range(rows.at[row], rows.at[row + 1]):
        value, source = rows.value[k], rows.entry[k]
        one, other = value * span[source, 0], value * span[source, 1]
        least += min(one, other)
        greatest += max(one, other)
    one, other = factor * least, factor * greatest
    return bool((one < DEAD and other < DEAD) or (one == ZERO and other == ZERO))


@compiled
def alive(values: Floats) -> int:
    """How many entries silu would not make 0."""
    count = np.int32(0)
    for t in range(BLOCK):
        count += np.int32((values[t] >= DEAD) & (values[t] != ZERO))
    return int(count)


@compiled
def rms_norms(t: int, weight: Floats) -> None:
    """RMSNorm of every token, and the span of each row of the result."""
    shape = (len(weight), BLOCK)
    xs, norms = float32s(t, AT.xs, shape), float32s(t, AT.norms, shape)
    squares, span = float32s(t, AT.squares, (BLOCK,)), float32s(t, AT.span, (len(weight), 2))
    epsilon = float32s(t, AT.epsilon, (1,))[0]
    clear(squares)
    for d in range(len(weight)):
        line = xs[d]
        for i in range(BLOCK):
            squares[i] += line[i] * line[i]
    for i in range(BLOCK):
        squares[i] = ONE / np.sqrt(squares[i] / f4(len(weight)) + epsilon)
    for d in range(len(weight)):
        line, out = xs[d], norms[d]
        least, greatest = f4(np.inf), f4(-np.inf)
        for i in range(BLOCK):
            out[i] = (line[i] * squares[i]) * weight[d]
        for i in range(BLOCK):
            least, greatest = min(least, out[i]), max(greatest, out[i])
        span[d, 0], span[d, 1] = least, greatest


@compiled
def activate(values: Floats) -> None:
    """silu of every token's value; most are far from 0, which takes no branches."""
    between = np.int32(0)
    for i in range(BLOCK):
        between += np.int32((values[i] < SURE) & (values[i] >= DEAD) & (values[i] != ZERO))
    if between:
        for i in range(BLOCK):
            values[i] = silu(values[i])
    else:
        for i in range(BLOCK):
            values[i] = values[i] if values[i] >= SURE else ZERO

"""The gated delta rule on one head: S' = keep * S, then S' += beta * k (v - S'^T k)^T, then o = S'^T q.

Keys and queries come as lists of their non-zero entries; `touched` marks the rows that are not 0.
"""

from __future__ import annotations

import math
from typing import Any

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.elementary import ONE, SURE, ZERO, f4
from qdbg.runtime.sparse.pack import Floats


@compiled
def decay(memory: Any, touched: Any, rate: Any, step: Any) -> None:
    """Every row times exp(rate * softplus(step))."""
    soft = step if step > SURE else f4(math.log1p(math.exp(step)))
    keep = f4(math.exp(rate * soft))
    if keep != ONE:
        for i in range(len(touched)):
            if touched[i]:
                for j in range(memory.shape[1]):
                    memory[i, j] *= keep


@compiled
def write(memory: Any, touched: Any, at: Any, key: Floats, count: int, value: Floats, beta: Any) -> None:
    """The update under a key of `count` entries.  `value` is overwritten with the change."""
    size = len(value)
    for k in range(count):
        row, factor = memory[at[k]], key[k]
        for j in range(size):
            value[j] -= row[j] * factor
    for j in range(size):
        value[j] *= beta
    for k in range(count):
        row, factor = memory[at[k]], key[k]
        touched[at[k]] = 1
        for j in range(size):
            row[j] += factor * value[j]


@compiled
def read(memory: Any, touched: Any, at: Any, query: Floats, count: int, root: Any, seen: Floats) -> None:
    """The output for a query of `count` entries, each divided by `root`."""
    for j in range(len(seen)):
        seen[j] = ZERO
    for k in range(count):
        if touched[at[k]]:
            row, factor = memory[at[k]], query[k] / root
            for j in range(len(seen)):
                seen[j] += row[j] * factor

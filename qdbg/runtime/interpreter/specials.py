"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.launch import BoundLaunch, Dim3

#: Registers that count the launch's warp instructions, the only clock there is: shift and width of each.
CLOCKS = {
    "%clock": (0, 32),
    "%clock_hi": (32, 32),
    "%clock64": (0, 64),
    "%globaltimer": (0, 64),
    "%globaltimer_lo": (0, 32),
    "%globaltimer_hi": (32, 32),
}
_PER_LANE = ("%laneid", *(f"%lanemask_{relation}" for relation in ("eq", "lt", "le", "gt", "ge")))
_PER_WARP = ("WARP_SZ", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid")
_SIZES = ("%dynamic_smem_size", "%total_smem_size")
SUPPORTED = frozenset(
    (
        *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
        *(*_PER_LANE, *_PER_WARP, *_SIZES, *CLOCKS),
    )
)


def fixed_specials(
    bound: BoundLaunch, block: Dim3, warp: int, threads: NDArray[np.int64]
) -> dict[str, NDArray[np.uint64]]:
    """The registers that never change for a warp, uint64 [lanes].

    `block` is %ctaid, `threads` the lanes' thread numbers within the block.
    """
    return dict(_fixed(bound, block, warp, threads))


def _fixed(
    bound: BoundLaunch, block: Dim3, warp: int, threads: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    lanes = len(threads)
    x, y, _ = bound.block
    tid = (threads % x, threads // x % y, threads // (x * y))
    for axis, name in enumerate("xyz"):
        yield f"%tid.{name}", tid[axis].astype(np.uint64)
        for register, triple in (("ntid", bound.block), ("ctaid", block), ("nctaid", bound.grid)):
            yield f"%{register}.{name}", np.full(lanes, triple[axis], np.uint64)
    lane, one = np.arange(lanes, dtype=np.uint64), np.uint64(1)
    bit, everyone = one << lane, np.uint64((1 << lanes) - 1)
    values = (
        lane,
        bit,
        bit - one,
        bit | (bit - one),
        everyone & ~(bit | (bit - one)),
        everyone & ~(bit - one),
    )
    yield from zip(_PER_LANE, values, strict=True)
    for name, value in zip(_PER_WARP, (lanes, warp, -(-bound.threads // lanes), 0, 1, 0), strict=True):
        yield name, np.full(lanes, value, np.uint64)
    for name, value in zip(_SIZES, (bound.launch.shared, bound.shared_bytes), strict=True):
        yield name, np.full(lanes, value, np.uint64)

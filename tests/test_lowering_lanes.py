"""Thread indices and lane masks in blocks of several warps, on the emulator against Python."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import emulate
from ptx_runner import kernel

SHAPES = [
    (1, 1, 1), (32, 1, 1), (33, 1, 1), (128, 1, 1), (1, 128, 1), (1, 1, 7), (8, 1, 16), (3, 5, 7), (1, 9, 14),
    (21, 6, 1), (127, 1, 1), (11, 11, 1), (2, 2, 32),
]  # fmt: skip


def registers(names: list[str], block: tuple[int, int, int]) -> np.ndarray:
    """What every thread of a block reads from special registers: uint32 [threads, names]."""
    threads = block[0] * block[1] * block[2]
    body = (
        """
        mov.u32 %r0, %tid.z; mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
        mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
    """
        + f"mul.wide.u32 %d3, %r0, {4 * len(names)}; ld.param.u64 %d1, [out]; add.s64 %d2, %d1, %d3;"
    )
    for place, name in enumerate(names):
        body += f"mov.u32 %r5, {name}; st.global.u32 [%d2+{4 * place}], %r5;"
    text = kernel(body + "ret;", f"out = u32[{threads * len(names)}]", block=str(block))
    result = emulate(text)
    assert result.trap is None
    return result.array("out").reshape(threads, len(names))


@pytest.mark.parametrize("block", SHAPES)
def test_thread_indices(block: tuple[int, int, int]) -> None:
    found = registers(["%tid.x", "%tid.y", "%tid.z"], block)
    z, y, x = np.unravel_index(np.arange(len(found)), block[::-1])
    np.testing.assert_array_equal(found, np.stack([x, y, z], axis=1))


@pytest.mark.parametrize("threads", [1, 20, 32, 33, 100, 128])
def test_lanes_and_warps(threads: int) -> None:
    masks = [f"%lanemask_{order}" for order in ("eq", "lt", "le", "gt", "ge")]
    found = registers(["%laneid", "%warpid", "%nwarpid", "WARP_SZ", *masks], (threads, 1, 1))
    for thread, (lane, warp, warps, size, *of_lane) in enumerate(found.tolist()):
        assert (warp, lane) == divmod(thread, 32)
        assert (warps, size) == (-(-threads // 32), 32)
        bit, below = 1 << lane, (1 << lane) - 1
        everyone = (1 << 32) - 1
        assert of_lane == [bit, below, below | bit, everyone ^ below ^ bit, everyone ^ below]

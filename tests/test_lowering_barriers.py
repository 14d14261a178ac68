"""Barriers on the emulator, against the interpreter: whole, reducing, counting and split ones."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import emulate, same_as_interpreter
from ptx_runner import THREAD_ELEMENT, kernel

RANDOM = np.random.default_rng(31)
STORE = "$STORE: st.global.u32 [%d2], %r1; $OUT: ret;"


def run(body: str, values: np.ndarray, before: str = "") -> np.ndarray:
    listed = ", ".join(str(int(v)) for v in values)
    text = kernel(
        THREAD_ELEMENT + body + STORE, f"a = u32[{listed}]", block=str(len(values)), before=before
    )  # fmt: skip
    result = same_as_interpreter(text)
    assert result.trap is None
    return result.array("a")


@pytest.mark.parametrize("leave", ["", "setp.gt.u32 %p9, %r1, 7; @%p9 bra $OUT;"])
@pytest.mark.parametrize("threads", [2, 32, 100, 128])
def test_reductions(threads: int, leave: str) -> None:
    """In a loop, so that lanes come to the same barrier with other values; some leave before."""
    body = f"""{leave} mov.u32 %r3, 0; mov.u32 %r4, 0;
    $NEXT: add.u32 %r5, %r1, %r3; and.b32 %r5, %r5, 3; setp.gt.u32 %p1, %r5, %r3;
        barrier.sync.aligned 0; bar.red.popc.u32 %r6, 0, %p1; bar.red.and.pred %p2, 0, !%p1;
        bar.red.or.pred %p3, 1, %p1; selp.u32 %r7, 5, 0, %p2; selp.u32 %r8, 2, 0, %p3;
        mad.lo.u32 %r4, %r4, 7, %r6; add.u32 %r4, %r4, %r7; add.u32 %r4, %r4, %r8;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 4; @%p4 bra $NEXT;
        mov.u32 %r1, %r4;"""
    run(body, RANDOM.integers(0, 10, threads))


def test_the_result_of_a_lane_that_leaves_stays() -> None:
    """Half of the lanes leave the loop with what they found, while the others reduce once more."""
    body = """mov.u32 %r3, 0;
    $NEXT: setp.eq.u32 %p1, %r1, %r3; bar.red.or.pred %p2, 0, %p1; selp.u32 %r4, 1, 2, %p2;
        setp.lt.u32 %p3, %r1, %r3; @%p3 bra $FOUND;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 6; @%p4 bra $NEXT;
    $FOUND: mad.lo.u32 %r1, %r3, 10, %r4;"""
    run(body, np.arange(40) % 4 * 2)


def test_pairs_of_warps_meet_at_barriers_of_their_own() -> None:
    body = """
        shr.u32 %r3, %r0, 6; setp.ne.u32 %p1, %r3, 0; mov.u32 %r9, s;
        mad.lo.u32 %r10, %r0, 4, %r9; st.shared.u32 [%r10], %r1; @%p1 bra $UPPER; bar.sync 1, 64; bra $READ;
    $UPPER: barrier.sync 2, 64;
    $READ: xor.b32 %r4, %r10, 128; ld.shared.u32 %r1, [%r4];
    """
    values = RANDOM.integers(0, 1000, 128)
    want = values.reshape(2, 2, 32)[:, ::-1].reshape(-1)
    assert run(body, values, ".shared .b8 s[512];").tolist() == want.tolist()


@pytest.mark.parametrize("first", ["eq", "ne"])
def test_producers_arrive_and_consumers_wait(first: str) -> None:
    """One warp writes a buffer that another one reads, three times, with a barrier for either direction."""
    body = f"""
        mov.u32 %r9, 0; and.b32 %r11, %r0, 31; mov.u32 %r10, s; mad.lo.u32 %r10, %r11, 4, %r10;
        mov.u32 %r12, 0;
        setp.{first}.u32 %p1, %r0, %r11; @%p1 bra $CONSUME;
    $PRODUCE: mad.lo.u32 %r13, %r9, 100, %r1; st.shared.u32 [%r10], %r13; bar.arrive 1, 64; bar.sync 2, 64;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; @%p2 bra $PRODUCE; bra $STORE;
    $CONSUME: xor.b32 %r14, %r10, 64;
    $TAKE: bar.sync 1, 64; ld.shared.u32 %r13, [%r14]; mad.lo.u32 %r12, %r12, 3, %r13; bar.arrive 2, 64;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; @%p2 bra $TAKE; mov.u32 %r1, %r12;
    """
    values = RANDOM.integers(0, 90, 64)
    found = run(body, values, ".shared .b8 s[128];")
    consumers = slice(0, 32) if first == "eq" else slice(32, 64)
    producers = slice(32, 64) if first == "eq" else slice(0, 32)
    sent = values[producers][np.arange(32) ^ 16]
    want = ((0 * 3 + sent) * 3 + sent + 100) * 3 + sent + 200
    assert found[consumers].tolist() == want.tolist()


@pytest.mark.parametrize(
    "body",
    [
        "setp.eq.u32 %p1, %r0, 3; @%p1 bra $A; bar.sync 0; $A: bar.sync 0; bar.sync 1;",
        "setp.gt.u32 %p1, %r0, 31; @%p1 bra $A; bar.sync 0; bra $OUT; $A: bar.sync 0; bar.sync 0;",
    ],
)
def test_barriers_that_lanes_reach_by_two_instructions_trap(body: str) -> None:
    """A GPU lets the warps of the second program meet; the machine cannot."""
    text = kernel(f"mov.u32 %r0, %tid.x; {body} $OUT: ret;", "a = u32[1]", block="64")
    result = emulate(text)
    assert result.trap is not None
    assert result.trap.endswith("barrier>")

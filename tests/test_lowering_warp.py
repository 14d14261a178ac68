"""Warp operations on the emulator, against the interpreter: whole and broken warps, one and several."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import emulate, same_as_interpreter
from ptx_runner import THREAD_ELEMENT, kernel

from qdbg.compiler.machine.vocabulary import Kind

RANDOM = np.random.default_rng(11)
THREADS = [2, 20, 32, 40, 64, 128]
WHOLE = 0xFFFFFFFF
#: Store %r1 and %p1 of each thread; the other half of `a` takes the predicate.
STORE = """
$STORE: st.global.u32 [%d2], %r1; selp.u32 %r2, 1, 0, %p1; ld.param.u64 %d4, [p]; add.s64 %d4, %d4, %d3;
    st.global.u32 [%d4], %r2;
$OUT: ret;
"""
DIVERGED = "and.b32 %r9, %r0, 5; setp.eq.u32 %p9, %r9, 1; @%p9 bra $OUT;"


def text(body: str, values: np.ndarray) -> str:
    listed = ", ".join(str(int(v)) for v in values)
    return kernel(
        THREAD_ELEMENT + body + STORE,
        f"a = u32[{listed}]; p = u32[{len(values)}] = 7",
        block=str(len(values)),
    )


def run(body: str, values: np.ndarray) -> None:
    """Compare with the interpreter, which fails where the machine traps."""
    result = same_as_interpreter(text(body, values))
    assert result.trap is None


def words(threads: int, below: int = 1 << 32) -> np.ndarray:
    return RANDOM.integers(0, below, threads)


MODES = [("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)]
WIDTHS = [32, 8, 2]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("mode", "clamp"), MODES)
def test_shuffles_by_constants(mode: str, clamp: int, threads: int) -> None:
    body = "mov.u32 %r3, %r1; mov.u32 %r1, 0;"
    for width in WIDTHS:
        for offset in (0, 1, 3, 16, 31, 33):
            bounds = (32 - width) << 8 | clamp
            body += f"shfl.sync.{mode}.b32 %r4|%p1, %r3, {offset}, {bounds}, -1; selp.u32 %r5, 1, 0, %p1;"
            body += "mad.lo.u32 %r1, %r1, 3, %r4; add.u32 %r1, %r1, %r5;"
    run(body, words(threads))


@pytest.mark.parametrize("diverged", ["", DIVERGED])
@pytest.mark.parametrize("threads", [20, 32, 64, 100])
@pytest.mark.parametrize(("mode", "clamp"), MODES)
def test_shuffles_by_registers(mode: str, clamp: int, threads: int, diverged: str) -> None:
    body = f"""{diverged} mov.u32 %r3, %r1; and.b32 %r6, %r1, 31; mov.u32 %r7, {24 << 8 | clamp};
        shr.u32 %r8, %r1, 5; and.b32 %r8, %r8, 1; mul.lo.u32 %r8, %r8, %r7; add.u32 %r8, %r8, {clamp};
        shfl.sync.{mode}.b32 %r1|%p1, %r3, %r6, %r8, -1;
        shfl.sync.{mode}.b32 %r4|%p2, %r3, %r6, {clamp}, -1; xor.pred %p1, %p1, %p2;
        shfl.sync.{mode}.b32 %r5, %r4, 2, %r8, -1; mad.lo.u32 %r1, %r1, 7, %r5;
        shfl.sync.{mode}.b32 %r1, %r1, 1, %r7, -1;"""
    run(body, words(threads))


@pytest.mark.parametrize("shuffle", ["up.b32 %r1, %r1, 0, 0", "idx.b32 %r1, %r1, %r0, 0x1f1f"])
def test_a_shuffle_from_the_lane_itself_copies(shuffle: str) -> None:
    """Offset 0, or segments of one lane: SHFL cannot take the lane's own number as the lane to read."""
    values = words(40)
    result = emulate(text(f"shfl.sync.{shuffle}, -1;", values))
    np.testing.assert_array_equal(result.array("a"), values)


@pytest.mark.parametrize("threads", [32, 96])
def test_a_butterfly_in_a_loop(threads: int) -> None:
    body = """mov.u32 %r3, 16; setp.eq.u32 %p1, %r3, %r3;
    $LOOP: shfl.sync.bfly.b32 %r4, %r1, %r3, 31, -1; add.u32 %r1, %r1, %r4; shr.u32 %r3, %r3, 1;
        setp.ne.u32 %p2, %r3, 0; @%p2 bra $LOOP;"""
    values = words(threads, 1000)
    run(body, values)


@pytest.mark.parametrize("diverged", ["", DIVERGED])
@pytest.mark.parametrize("threads", THREADS)
def test_votes(threads: int, diverged: str) -> None:
    body = diverged + "mov.u32 %r3, %r1; mov.u32 %r1, 0;"
    for limit in (0, 1, 5, 9, 10):
        body += f"setp.lt.u32 %p2, %r3, {limit}; vote.sync.ballot.b32 %r4, %p2, -1;"
        body += "mad.lo.u32 %r1, %r1, 5, %r4;"
        for mode in ("all", "any", "uni"):
            for negated in ("", "!"):
                body += f"vote.sync.{mode}.pred %p1, {negated}%p2, -1; selp.u32 %r5, 1, 0, %p1;"
                body += "mad.lo.u32 %r1, %r1, 2, %r5;"
    body += "activemask.b32 %r4; xor.b32 %r1, %r1, %r4;"
    run(body, words(threads, 10))


@pytest.mark.parametrize("threads", [32, 64])
def test_votes_of_groups(threads: int) -> None:
    """Lanes with the same value vote among themselves, with member masks of their own."""
    body = """
        and.b32 %r3, %r1, 3; shr.u32 %r4, %r1, 2; setp.lt.u32 %p2, %r4, 2;
        match.any.sync.b32 %r5, %r3, -1; vote.sync.ballot.b32 %r6, %p2, %r5;
        vote.sync.any.pred %p1, %p2, %r5; redux.sync.add.u32 %r7, %r1, %r5;
        mad.lo.u32 %r1, %r5, 3, %r6; mad.lo.u32 %r1, %r1, 3, %r7;
    """
    run(body, words(threads, 12))


@pytest.mark.parametrize("diverged", ["", DIVERGED])
@pytest.mark.parametrize("threads", [20, 32, 64])
@pytest.mark.parametrize("below", [1, 3, 1 << 32])
def test_matches(threads: int, below: int, diverged: str) -> None:
    body = f"""{diverged} mov.u32 %r3, %r1; mul.wide.u32 %d6, %r3, 65536; shl.b64 %d7, %d6, 24;
        setp.eq.u32 %p1, %r0, %r0;
        match.any.sync.b32 %r4, %r3, -1; match.any.sync.b64 %r5, %d7, -1;
        match.all.sync.b32 %r6|%p2, %r3, -1; match.all.sync.b64 %r7|%p1, %d7, -1;
        match.all.sync.b32 %r8, %r9, -1; selp.u32 %r9, 1, 0, %p2;
        mad.lo.u32 %r1, %r4, 3, %r5; mad.lo.u32 %r1, %r1, 5, %r6; mad.lo.u32 %r1, %r1, 7, %r7;
        add.u32 %r1, %r1, %r8; xor.b32 %r1, %r1, %r9;"""
    run(body, words(threads, below))


@pytest.mark.parametrize("diverged", ["", DIVERGED])
@pytest.mark.parametrize("threads", [20, 32, 96])
def test_reductions(threads: int, diverged: str) -> None:
    names = ["add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"]
    body = diverged + "mov.u32 %r3, %r1; mov.u32 %r1, 0; setp.eq.u32 %p1, %r3, %r3;"
    for name in names:
        body += f"redux.sync.{name} %r4, %r3, -1; mad.lo.u32 %r1, %r1, 31, %r4;"
    run(body, words(threads))


def test_halves_of_a_warp() -> None:
    """Each side of a branch names itself as the members."""
    body = """
        setp.lt.u32 %p3, %r0, 16; setp.gt.u32 %p2, %r1, 7; @%p3 bra $LOW;
        vote.sync.ballot.b32 %r4, %p2, 0xffff0000; shfl.sync.idx.b32 %r5, %r1, 20, 31, 0xffff0000;
        vote.sync.all.pred %p1, %p2, 0xffff0000; bra $BOTH;
    $LOW: vote.sync.ballot.b32 %r4, %p2, 0xffff; shfl.sync.down.b32 %r5, %r1, 9, 31, 0xffff;
        vote.sync.any.pred %p1, %p2, 0xffff; @%p2 bra $STORE;
    $BOTH: bar.warp.sync -1; mad.lo.u32 %r1, %r4, 3, %r5;
    """
    run(body, words(32, 16))


def test_a_vote_that_is_the_same_for_all_steers_a_loop() -> None:
    """The loop ends for all lanes at once, so its branches take no token a lane."""
    body = """
    $LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 12; vote.sync.any.pred %p1, %p2, -1; @%p1 bra $LOOP;
    """
    values = words(32, 10)
    run(body, values)
    tokens = emulate(text(body, values)).tokens
    rounds = 12 - int(values.min())
    # A round: a sum and the comparison of each lane, then the vote, two branches and a jump of the warp.
    assert sum(t.kind is Kind.BIT for t in tokens) == 32 * rounds
    assert len(tokens) <= (64 + 5) * rounds + 5 * 32 + 60

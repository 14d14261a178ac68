"""Loops that wait for other lanes end, whichever lanes these are and wherever the compiler put them."""

from __future__ import annotations

import pytest
from lowered import Result, emulate, same_as_interpreter
from ptx_runner import THREAD_ELEMENT, kernel

POINTERS = "ld.param.u64 %d1, [lock]; ld.param.u64 %d2, [out]; mov.u32 %r0, %tid.x;"
#: Read, change and write back what the lock protects: lost updates show.
CRITICAL = """
    ld.volatile.global.u32 %r4, [%d2]; ld.volatile.global.u32 %r5, [%d2+4]; mad.lo.u32 %r4, %r4, 3, %r0;
    add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d2], %r4; st.volatile.global.u32 [%d2+4], %r5;
"""
ACQUIRE = "$SPIN: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $SPIN;"
RELEASE = "membar.gl; atom.global.exch.b32 %r2, [%d1], 0;"
#: Who takes the lock: threads of one warp, or the first of each of four warps.
TAKERS = [
    (8, "", 8),
    (32, "and.b32 %r9, %r0, 3; setp.ne.u32 %p9, %r9, 1; @%p9 bra $OUT;", 8),
    (128, "and.b32 %r9, %r0, 31; setp.ne.u32 %p9, %r9, 0; @%p9 bra $OUT;", 4),
]


def run(body: str, arguments: str, threads: int) -> Result:
    result = same_as_interpreter(kernel(POINTERS + body, arguments, block=str(threads)))
    assert result.trap is None
    return result


def count(body: str, threads: int, takers: int) -> None:
    """Run lanes through a critical section in any order, and check that none got in another's way."""
    text = kernel(POINTERS + body, "lock = u32[4]; out = u32[4]", block=str(threads))
    result = same_as_interpreter(text)
    assert result.trap is None
    assert result.array("out")[1] == takers


@pytest.mark.parametrize(("threads", "choose", "takers"), TAKERS)
@pytest.mark.parametrize("end", ["", "bar.sync 0;", "bar.warp.sync -1;"])
def test_a_spin_lock(threads: int, choose: str, takers: int, end: str) -> None:
    """The lanes that wait for the lock spin in front of the code that gives it back."""
    count(f"{choose}{ACQUIRE}{CRITICAL}{RELEASE}$OUT: {end} ret;", threads, takers)


@pytest.mark.parametrize(("threads", "choose", "takers"), TAKERS)
def test_a_lock_in_a_loop_of_attempts(threads: int, choose: str, takers: int) -> None:
    """Who gets the lock works inside the loop and leaves it then."""
    count(
        f"""{choose}
        $TRY: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $NEXT;
            {CRITICAL}{RELEASE} mov.u32 %r3, 1; bra $CHECK;
        $NEXT: mov.u32 %r3, 0;
        $CHECK: setp.eq.u32 %p2, %r3, 0; @%p2 bra $TRY;
        $OUT: ret;""",
        threads, takers,
    )  # fmt: skip


@pytest.mark.parametrize(("threads", "choose", "takers"), TAKERS)
def test_several_rounds_with_the_lock(threads: int, choose: str, takers: int) -> None:
    count(
        f"""{choose} mov.u32 %r6, 0;
        $AGAIN: {ACQUIRE}{CRITICAL}{RELEASE}
            add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3; @%p2 bra $AGAIN;
        $OUT: bar.sync 0; ret;""",
        threads, 3 * takers,
    )  # fmt: skip


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("threads", [5, 65])
def test_each_lane_waits_for_the_one_before(threads: int, first: int) -> None:
    """Some lanes go round the loop and wait behind it while others leave it one by one."""
    result = run(
        f"""
        mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
        setp.ge.u32 %p1, %r0, {first}; @%p1 bra $WAIT;
        st.volatile.global.u32 [%d4], 1; bra $END;
    $WAIT: ld.volatile.global.u32 %r1, [%d4-4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra $WAIT;
        ld.volatile.global.u32 %r2, [%d4-4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%d4], %r2;
    $END: ld.volatile.global.u32 %r3, [%d4]; st.global.u32 [%d5], %r3; ret;
        """,
        f"lock = u32[{threads}]; out = u32[{threads}]",
        threads,
    )
    assert result.array("out").tolist() == [1] * first + [n + 2 - first for n in range(first, threads)]


#: All threads but the first wait until that has opened a gate.
GATE = """
    setp.eq.u32 %p1, %r0, 0; @!%p1 bra $GATE; st.volatile.global.u32 [%d1+12], 1; bra $OPEN;
    $GATE: ld.volatile.global.u32 %r1, [%d1+12]; setp.eq.u32 %p2, %r1, 0; @%p2 bra $GATE;
    $OPEN:
"""


def chain(label: str, marks: int) -> str:
    """Each thread waits for the one before to mark its word of `out`, from byte `marks` on, and adds it."""
    return f"""
        mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %d2, %d3; setp.eq.u32 %p1, %r0, 0; @%p1 bra ${label}_GO;
    ${label}: ld.volatile.global.u32 %r1, [%d4+{marks - 4}]; setp.eq.u32 %p2, %r1, 0; @%p2 bra ${label};
        add.u32 %r3, %r3, %r1;
    ${label}_GO: or.b32 %r1, %r3, 1; st.volatile.global.u32 [%d4+{marks}], %r1;
    """


def chained(values: list[int]) -> list[int]:
    """What the threads of a chain have in the end who come with such values."""
    found = values[:1]
    for value in values[1:]:
        found.append(value + (found[-1] | 1))
    return found


@pytest.mark.parametrize("threads", [5, 40])
def test_lanes_that_have_come_back_to_a_loop_go_on_with_those_that_have_not(threads: int) -> None:
    """The lock lies between two other loops that wait, and a thread counts how often it tries."""
    body = f"""{GATE}
    $TAKE: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.eq.u32 %p3, %r1, 0; @%p3 bra $TAKEN;
        red.global.add.u32 [%d1+4], 1; bra $TAKE;
    $TAKEN: ld.volatile.global.u32 %r5, [%d1+8]; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d1+8], %r5;
        {RELEASE} mov.u32 %r3, %r0; {chain("NEXT", 4)} st.global.u32 [%d4+{4 * threads + 4}], %r3; ret;"""
    arguments = f"lock = u32[4]; out = u32[{2 * threads + 1}]"
    result = emulate(kernel(POINTERS + body, arguments, block=str(threads)))
    assert result.trap is None
    assert result.array("lock")[2] == threads
    assert result.array("out").tolist()[threads + 1 :] == chained(list(range(threads)))


@pytest.mark.parametrize("threads", [8, 40])
def test_lanes_that_wait_while_others_are_rounds_behind(threads: int) -> None:
    """Threads come to a lock one after the other; odd ones wait behind it for three more to come there."""
    behind = "".join(f"st.global.u32 [%d2+{4 * (threads + n)}], 1;" for n in range(3))
    result = run(
        f"""{behind} mov.u32 %r3, %r0; {chain("NEXT", 0)} mov.u32 %r6, 0;
    $TRY: atom.global.cas.b32 %r4, [%d1], 0, 1; setp.ne.u32 %p3, %r4, 0; @%p3 bra $TRIED;
        ld.volatile.global.u32 %r5, [%d1+4]; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d1+4], %r5;
        {RELEASE} mov.u32 %r6, 1;
    $TRIED: setp.eq.u32 %p3, %r6, 0; @%p3 bra $TRY;
        and.b32 %r4, %r0, 1; setp.eq.u32 %p4, %r4, 0; @%p4 bra $EVEN;
    $ODD: ld.volatile.global.u32 %r4, [%d4+12]; setp.eq.u32 %p3, %r4, 0; @%p3 bra $ODD;
        add.u32 %r3, %r3, 7; bra $END;
    $EVEN: mad.lo.u32 %r3, %r3, 5, 11; st.global.u32 [%d4+{4 * threads + 12}], %r0;
    $END: st.global.u32 [%d4+{8 * threads + 12}], %r3; ret;""",
        f"lock = u32[2]; out = u32[{3 * threads + 3}]",
        threads,
    )
    came = chained(list(range(threads)))
    assert result.array("lock").tolist() == [0, threads]
    assert result.array("out")[2 * threads + 3 :].tolist() == [
        v + 7 if n % 2 else 5 * v + 11 for n, v in enumerate(came)
    ]


@pytest.mark.parametrize("threads", [4, 12])
def test_a_ticket_lock_serves_in_order(threads: int) -> None:
    """Lanes draw tickets in order, so each one's turn tells its number."""
    result = run(
        """
        atom.global.add.u32 %r1, [%d1], 1;
    $SPIN: ld.acquire.gpu.global.u32 %r2, [%d1+4]; setp.ne.u32 %p1, %r1, %r2; @%p1 bra $SPIN;
        mul.wide.u32 %d3, %r2, 4; add.s64 %d3, %d2, %d3; ld.volatile.global.u32 %r4, [%d2];
        add.u32 %r4, %r4, 1; st.volatile.global.u32 [%d2], %r4; st.global.u32 [%d3+4], %r0;
        add.u32 %r2, %r2, 1; st.release.gpu.global.u32 [%d1+4], %r2; ret;
        """,
        f"lock = u32[2]; out = u32[{threads + 1}]", threads,
    )  # fmt: skip
    assert result.array("out").tolist() == [threads, *range(threads)]


@pytest.mark.parametrize("threads", [64, 128])
def test_a_lock_that_a_warp_takes_together(threads: int) -> None:
    """The first lane of a warp takes the lock and gives it back, the others work under it with its help."""
    result = run(
        f"""
        and.b32 %r9, %r0, 31; setp.ne.u32 %p9, %r9, 0; @%p9 bra $TAKEN; {ACQUIRE}
    $TAKEN: bar.warp.sync -1; ld.volatile.global.u32 %r3, [%d1+4]; shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;
        mul.wide.u32 %d3, %r9, 4; add.s64 %d3, %d2, %d3; ld.volatile.global.u32 %r5, [%d3];
        mad.lo.u32 %r5, %r4, 5, %r5; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d3], %r5;
        add.u32 %r4, %r4, 1; bar.warp.sync -1; @%p9 bra $OUT; st.volatile.global.u32 [%d1+4], %r4; {RELEASE}
    $OUT: ret;
        """,
        "lock = u32[2]; out = u32[32]", threads,
    )  # fmt: skip
    warps = threads // 32
    assert result.array("lock").tolist() == [0, warps]
    assert result.array("out").tolist() == [5 * sum(range(warps)) + warps] * 32


FLAG = """
    setp.{test}.u32 %p1, %r9, 0; @%p1 bra $SENDER;
    $SPIN: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra $SPIN;
        mul.wide.u32 %d3, %r0, 4; add.s64 %d3, %d2, %d3; ld.global.u32 %r2, [%d1+4];
        st.global.u32 [%d3], %r2; bra $OUT;
    $SENDER: st.global.u32 [%d1+4], 77; membar.gl; st.volatile.global.u32 [%d1], 1;
    $OUT: ret;
"""


@pytest.mark.parametrize("threads", [2, 40, 64])
@pytest.mark.parametrize("test", ["eq", "ne"])
def test_a_flag_of_another_warp(test: str, threads: int) -> None:
    """Some wait for a flag and read what was sent, whether they come before the sender or after it."""
    pick = "and.b32 %r9, %r0, 1;" if threads == 2 else "shr.u32 %r9, %r0, 5;"
    result = run(pick + FLAG.format(test=test), f"lock = u32[2]; out = u32[{threads}]", threads)
    half = 1 if threads == 2 else 32
    sent = [0 if (thread >= half) == (test == "ne") else 77 for thread in range(threads)]
    assert result.array("out").tolist() == sent


def test_ping_pong() -> None:
    """Two roles with loops of their own, which take turns a hundred times in all."""

    def role(name: str, mine: int) -> str:
        return f"""
        ${name}: mov.u32 %r6, 0;
        ${name}NEXT:
        ${name}SPIN: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p1, %r1, {mine}; @%p1 bra ${name}SPIN;
            ld.volatile.global.u32 %r2, [%d2]; mad.lo.u32 %r2, %r2, 3, {mine + 1};
            st.volatile.global.u32 [%d2], %r2; membar.gl; st.volatile.global.u32 [%d1], {1 - mine};
            add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 50; @%p2 bra ${name}NEXT;
            bra $OUT;
        """

    result = run(
        f"setp.ne.u32 %p3, %r0, 0; @%p3 bra $B; {role('A', 0)}{role('B', 1)} $OUT: ret;",
        "lock = u32[1]; out = u32[1]", 2,
    )  # fmt: skip
    want = 0
    for turn in range(100):
        want = (want * 3 + turn % 2 + 1) % (1 << 32)
    assert result.array("out").tolist() == [want]


def test_a_spin_barrier_of_a_grid_of_warps() -> None:
    """Warps meet at a counter of their own; afterwards each reads what another one wrote before."""
    result = run(
        """
        mul.wide.u32 %d3, %r0, 4; add.s64 %d3, %d2, %d3; st.volatile.global.u32 [%d3], %r0;
        and.b32 %r9, %r0, 31; setp.ne.u32 %p9, %r9, 31; @%p9 bra $ARRIVED;
        membar.gl; atom.global.add.u32 %r1, [%d1], 1;
    $ARRIVED:
    $SPIN: ld.volatile.global.u32 %r2, [%d1]; setp.ne.u32 %p1, %r2, 4; @%p1 bra $SPIN;
        xor.b32 %r3, %r0, 96; mul.wide.u32 %d4, %r3, 4; add.s64 %d4, %d2, %d4;
        ld.volatile.global.u32 %r4, [%d4]; st.global.u32 [%d3+512], %r4; ret;
        """,
        "lock = u32[1]; out = u32[256]", 128,
    )  # fmt: skip
    assert result.array("out").tolist() == [*range(128), *(thread ^ 96 for thread in range(128))]


def test_a_loop_in_front_of_one_that_waits_ends_before_the_barrier_behind_it() -> None:
    """Lanes of the first loop do not wait for each other, however many rounds each of them goes."""
    body = """
        mov.u32 %r4, %r1;
        $MORE: add.u32 %r1, %r1, 10; add.s32 %r4, %r4, -1; setp.gt.s32 %p1, %r4, 0; @%p1 bra $MORE;
        bar.sync 0; setp.ge.u32 %p2, %r0, 32; @%p2 bra $END; bar.sync 1, 32;
        $END: st.global.u32 [%d2], %r1; ret;
    """
    values = [n % 4 for n in range(64)]
    found = emulate(kernel(THREAD_ELEMENT + body, f"a = u32{values}", block="64"))
    assert found.trap is None
    assert found.array("a").tolist() == [n + 10 * max(n, 1) for n in values]


def test_a_block_of_the_grid_starts_when_all_lanes_are_done_with_the_one_before() -> None:
    """Also where the kernel begins with the loop that waits: each lane writes the block that it is in."""
    body = """
    ld.param.u64 %d1, [lock]; ld.param.u64 %d2, [seen]; mov.u32 %r5, %ctaid.x;
    $L: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $L;
    ld.global.u32 %r2, [%d2]; mad.lo.u32 %r2, %r2, 2, %r5; st.global.u32 [%d2], %r2;
    atom.global.exch.b32 %r3, [%d1], 0; ret;"""
    result = emulate(kernel(body, "lock = u32[1]; seen = u32[1]", block="5", grid="2"))
    assert list(result.array("seen")) == [0b0000011111]

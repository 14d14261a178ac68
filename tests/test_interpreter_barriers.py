"""Barriers of a block and of a warp in the reference interpreter, and reports of those that cannot open."""

from __future__ import annotations

import pytest
from ptx_runner import interpreter, kernel, run
from test_interpreter_control import ELEMENT

from qdbg.runtime.interpreter import Fault, Unsupported

#: %r8 = number of the warp, %p8 = whether that is warp 0.
WARP = f"{ELEMENT} shr.u32 %r8, %r0, 5; setp.eq.u32 %p8, %r8, 0;"


def result(body: str, threads: int) -> list[int]:
    """%r1 of each thread of one block."""
    machine = run(
        f"{WARP} {body} st.global.u32 [%d2], %r1; ret;", f"out = u32[{threads}]", block=str(threads)
    )
    assert machine.findings == ()
    return [int(value) for value in machine.array("out")]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("bar.red.popc.u32 %r1, 0, %p1;", 35),
        ("bar.red.popc.u32 %r1, 0, !%p1;", 45),
        ("barrier.red.popc.aligned.u32 %r1, 0, %p1;", 35),
        ("barrier.cta.red.popc.u32 %r1, 0, %p1;", 35),
        ("bar.red.and.pred %p2, 0, %p1; selp.u32 %r1, 1, 0, %p2;", 0),
        ("bar.red.or.pred %p2, 0, %p1; selp.u32 %r1, 1, 0, %p2;", 1),
        ("bar.red.and.pred %p2, 0, !%p3; selp.u32 %r1, 1, 0, %p2;", 1),
        ("bar.red.or.pred %p2, 0, %p3; selp.u32 %r1, 1, 0, %p2;", 0),
        ("mov.u32 %r2, 3; bar.red.popc.u32 %r1, %r2, %p1;", 35),
    ],
)
def test_trap_49_reductions_over_the_block(operation: str, expected: int) -> None:
    """Eighty threads, the last warp half there; %p1 holds for 35, %p3 for none."""
    assert result(f"setp.lt.u32 %p1, %r0, 35; setp.gt.u32 %p3, %r0, 99; {operation}", 80) == [expected] * 80


def test_trap_49_reduction_of_some_warps() -> None:
    body = """setp.lt.u32 %p1, %r0, 40; mov.u32 %r1, 7; setp.eq.u32 %p2, %r8, 2; @%p2 bra join;
        bar.red.popc.u32 %r1, 1, 64, %p1;
    join:"""
    assert result(body, 96) == [40] * 64 + [7] * 32


def test_trap_49_exited_threads_do_not_block() -> None:
    """Sixty threads leave; those of the warp that goes on count, and a warp that is gone does not."""
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 60; @%p1 exit; setp.eq.u32 %p2, 0, 0;
        bar.red.popc.u32 %r1, 0, %p2; st.global.u32 [%d2], %r1; ret;"""
    assert run(body, "out = u32[64]", block="64").array("out").tolist() == [0] * 60 + [4] * 4


def test_trap_49_a_thread_that_exits_later_opens_the_barrier() -> None:
    body = f"""{WARP} .shared .align 4 .b8 cell[4]; @%p8 bra first; bar.sync 0; ld.shared.u32 %r1, [cell];
        st.global.u32 [%d2], %r1; ret;
    first: mov.u32 %r2, 0;
    loop: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 50; @%p1 bra loop; st.shared.u32 [cell], %r2; exit;"""
    assert run(body, "out = u32[64]", block="64").array("out").tolist() == [0] * 32 + [50] * 32


def test_trap_49_half_a_warp_that_skips_a_barrier_is_reported() -> None:
    """Nothing may go on silently: on hardware this happens to work, PTX leaves it undefined."""
    body = f"""{ELEMENT} setp.ge.u32 %p1, %r0, 16;
        @%p1 bra done;
        bar.sync 0;
    done: ret;"""
    (finding,) = run(body, "out = u32[1]", block="32").findings
    assert (finding.kind, finding.block, finding.thread) == ("divergent barrier", (0, 0, 0), (16, 0, 0))
    assert finding.message.startswith(f"test.ptx:{finding.line}: thread (16, 0, 0) of block (0, 0, 0) exits")
    assert finding.message.endswith(": `bar.sync 0;`")
    assert run(body.replace("bar.sync", "barrier.sync"), "out = u32[1]", block="32").findings == ()


def test_trap_49_half_a_warp_at_another_barrier_is_a_deadlock() -> None:
    body = f"{ELEMENT} setp.ge.u32 %p1, %r0, 16; @%p1 bra other;\nbar.sync 0; ret;\nother: bar.sync 1; ret;"
    with pytest.raises(Fault, match=r"32 threads wait at barriers that can never complete") as caught:
        run(body, "out = u32[1]", block="32")
    fault = caught.value
    assert (fault.reason, fault.block, fault.thread) == ("deadlock", (0, 0, 0), (0, 0, 0))
    assert f"test.ptx:{fault.line}: " in str(fault)


def test_count_is_never_reached() -> None:
    body = f"{WARP} @%p8 bra done;\nbar.sync 2, 64;\ndone: ret;"
    with pytest.raises(Fault, match=r"32 of the 64 threads of barrier 2 are there") as caught:
        run(body, "out = u32[1]", block="64")
    assert (caught.value.reason, caught.value.thread) == ("deadlock", (32, 0, 0))


def test_arrivals_count_and_do_not_wait() -> None:
    """Two producers and a consumer; the barrier is used again."""
    body = """.shared .align 4 .b8 cells[8]; mov.u32 %r1, 0; mov.u32 %r7, 0; setp.eq.u32 %p1, %r8, 2;
    again: @%p1 bra consume; shl.b32 %r2, %r8, 2; add.u32 %r3, %r8, 5; mad.lo.u32 %r3, %r7, 10, %r3;
        st.shared.u32 [%r2], %r3; bar.arrive 1, 96; bra next;
    consume: bar.sync 1, 96; ld.shared.v2.u32 {%r4, %r5}, [cells]; add.u32 %r4, %r4, %r5;
        add.u32 %r1, %r1, %r4;
    next: bar.sync 0; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 2; @%p2 bra again;"""
    assert result(body, 96) == [0] * 64 + [5 + 6 + 15 + 16] * 32


def test_a_warp_that_diverged_arrives_once() -> None:
    """bar.arrive makes a thread wait for those of its own warp, which then counts whole."""
    body = """mov.u32 %r1, 1; @!%p8 bra wait; setp.lt.u32 %p1, %r0, 7; @%p1 bra low;
        barrier.arrive 1, 64; bra join;
    low: barrier.arrive 1, 64; bra join;
    wait: barrier.sync 1, 64;
    join:"""
    assert result(body, 64) == [1] * 64


def test_warp_barriers_need_the_same_mask() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low; bar.warp.sync 0xf; ret;
    low: bar.warp.sync 0x7; ret;"""
    with pytest.raises(Fault, match="waits for lane 2 of its member mask 0x7") as caught:
        run(body, "out = u32[1]", block="4")
    assert (caught.value.reason, caught.value.thread) == ("deadlock", (0, 0, 0))


def test_a_warp_barrier_orders_what_its_lanes_store() -> None:
    body = """.shared .align 4 .b8 tile[128]; shl.b32 %r2, %r0, 2; setp.lt.u32 %p1, %r0, 9; @%p1 bra low;
        st.shared.u32 [%r2], %r0; bar.warp.sync -1; bra join;
    low: add.u32 %r3, %r0, 50; st.shared.u32 [%r2], %r3; bar.warp.sync 0xffffffff;
    join: sub.u32 %r2, 124, %r2; ld.shared.u32 %r1, [%r2];"""
    assert result(body, 32) == [31 - t + 50 * (31 - t < 9) for t in range(32)]


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("bar.sync 16;", "bad barrier", "waits at barrier 16; use one of the 16, 0 to 15"),
        ("mov.u32 %r2, 99; bar.arrive %r2, 64;", "bad barrier", "waits at barrier 99"),
        (
            "bar.sync 1, 48;",
            "bad barrier",
            "for 48 threads, which are not whole warps; give a multiple of 32",
        ),
        ("selp.u32 %r2, 64, 32, %p8; bar.sync 1, %r2;", "divergent barrier", "barrier 1 for 32 and for 64"),
        (
            "selp.u32 %r2, 64, 0, %p8; bar.sync 1, %r2;",
            "divergent barrier",
            "barrier 1 for all threads and for 64",
        ),
        (
            "@%p8 bra red;\nbar.sync 0; bra join;\nred: bar.red.or.pred %p1, 0, %p8;\njoin:",
            "divergent barrier",
            "with .sync and with .red at one barrier",
        ),
    ],
)
def test_what_barriers_do_not_allow_is_a_fault(body: str, reason: str, words: str) -> None:
    with pytest.raises(Fault, match=words) as caught:
        run(f"{WARP} {body} ret;", "out = u32[1]", block="64")
    fault = caught.value
    assert (fault.reason, fault.block) == (reason, (0, 0, 0))
    assert str(fault).startswith(f"test.ptx:{fault.line}: ")
    assert "\n" not in str(fault)


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("bar.arrive 0", "needs the number of a barrier and a number of threads"),
        ("bar.red.popc.pred %p1, 0, %p2", "needs .popc.u32, .and.pred or .or.pred"),
        ("bar.red.xor.pred %p1, 0, %p2", "has .xor, which is not supported yet"),
        ("bar 0", "needs one of .sync, .arrive, .red"),
        ("bar.warp.arrive 0", "warp barrier without .sync"),
        ("barrier.cluster.arrive", "has .cluster, which is not supported yet"),
        ("bar.sync.popc 0", "which only .red has"),
    ],
)
def test_what_is_not_ptx_is_said(instruction: str, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        run(f"{instruction}; ret;", "out = u32[1]")
    assert why in str(caught.value)


def test_snapshot_between_an_arrival_and_the_barrier() -> None:
    body = f"""{WARP} @!%p8 bra wait; bar.arrive 1, 64; ret;
    wait: bar.sync 1, 64; st.global.u32 [%d2], 3; ret;"""
    machine = interpreter(kernel(body, "out = u32[64]", block="64"))
    snapshots = [machine.snapshot()]
    while machine.step() is not None:
        snapshots.append(machine.snapshot())
    for snapshot in snapshots:
        machine.restore(snapshot)
        machine.run()
        assert machine.array("out").tolist() == [0] * 32 + [3] * 32


@pytest.mark.parametrize(
    "guarded",
    [
        "bra skip",
        "ret",
        "exit",
        "st.global.u32 [%d2], 9",
        "atom.global.exch.b32 %r1, [%d2], 9",
        "bar.warp.sync 0x2",
    ],
)
def test_trap_48_a_guard_applies_to_every_instruction(guarded: str) -> None:
    """The guard holds in thread 1 only; the other's registers, path and memory stay as they were."""
    body = f"""{ELEMENT} setp.eq.u32 %p1, %r0, 1; mov.u32 %r1, 5; @%p1 {guarded};
        st.global.u32 [%d2+8], 1; bra done;
    skip: st.global.u32 [%d2+8], 2;
    done: ret;"""
    got = run(body, "out = u32[4]", block="2").array("out").tolist()
    assert (got[0], got[2]) == (0, 1)
    assert got[1] == (9 if "9" in guarded else 0)
    assert got[3] == {"bra skip": 2, "ret": 0, "exit": 0}.get(guarded, 1)


@pytest.mark.parametrize(
    "instruction",
    [
        *("membar.cta", "membar.gl", "membar.sys", "fence.sc.cta", "fence.acq_rel.gpu", "fence.sc.sys"),
        *(
            "ld.global.nc.u32 %r1, [%d2]",
            "ld.volatile.global.u32 %r1, [%d2]",
            "ld.relaxed.cta.global.u32 %r1, [%d2]",
        ),
        *(
            "ld.acquire.gpu.global.u32 %r1, [%d2]",
            "ld.relaxed.sys.u32 %r1, [%d2]",
            "ld.weak.global.u32 %r1, [%d2]",
        ),
    ],
)
def test_trap_47_fences_and_ordered_loads(instruction: str) -> None:
    body = f"""{ELEMENT} mov.u32 %r1, 6; st.global.u32 [%d2], %r1; {instruction};
        st.release.gpu.global.u32 [%d2+4], %r1; st.volatile.global.u32 [%d2+8], %r1; ret;"""
    assert run(body, "out = u32[3]").array("out").tolist() == [6, 6, 6]


#: A lock taken by compare-and-swap, in the two shapes that a divergent warp may starve in.
LOCKS = {
    "the holder leaves the loop": """
    spin: atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra spin;
        ld.volatile.global.u32 %r3, [%d1+4]; add.u32 %r3, %r3, %r0; st.volatile.global.u32 [%d1+4], %r3;
        membar.gl; atom.global.exch.b32 %r2, [%d1], 0;""",
    "the holder works inside the loop": """mov.u32 %r4, 0;
    spin: atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra next;
        ld.volatile.global.u32 %r3, [%d1+4]; add.u32 %r3, %r3, %r0; st.volatile.global.u32 [%d1+4], %r3;
        membar.gl; atom.global.exch.b32 %r2, [%d1], 0; mov.u32 %r4, 1;
    next: setp.eq.u32 %p2, %r4, 0; @%p2 bra spin;""",
}


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("threads", [32, 64])
def test_trap_52_spin_locks_finish(lock: str, threads: int) -> None:
    """Every lane makes progress, as independent thread scheduling (sm_70 and later) promises."""
    machine = interpreter(kernel(f"{ELEMENT} {LOCKS[lock]} ret;", "out = u32[2]", block=str(threads)))
    machine.run(200_000)
    assert machine.array("out").tolist() == [0, threads * (threads - 1) // 2]


def test_trap_52_a_lane_may_wait_for_another_lane_of_its_warp() -> None:
    body = f"""{ELEMENT} setp.eq.u32 %p1, %r0, 31; @%p1 bra signal;
    spin: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra spin; bra join;
    signal: st.volatile.global.u32 [%d1], 4;
    join: bar.warp.sync -1; red.global.add.u32 [%d1], 1; ret;"""
    assert run(body, "out = u32[1]", block="32").array("out").tolist() == [36]

"""Divergence, barriers, stepping, history and faults of the reference interpreter."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from ptx_runner import HEADER, REGISTERS, interpreter, kernel, run

from qdbg.compiler.source import load_module
from qdbg.runtime.interpreter import Event, Fault, Interpreter, LimitReached, Unsupported
from qdbg.runtime.launch import bind, launch_for

#: The start of most kernels here: %r0 = thread number, %d2 = address of this thread's element of `out`.
ELEMENT = "mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 4; ld.param.u64 %d1, [out]; add.s64 %d2, %d1, %d3;"


def events(machine: Interpreter) -> list[Event]:
    """Every event of the launch."""
    found = []
    while (event := machine.step()) is not None:
        found.append(event)
    return found


def lanes(mask: np.ndarray) -> list[int]:
    return [int(lane) for lane in np.flatnonzero(mask)]


def test_guard_keeps_the_old_value_of_inactive_lanes() -> None:
    body = f"""{ELEMENT} mov.u32 %r1, 5; setp.lt.u32 %p1, %r0, 2; @!%p1 add.u32 %r1, %r1, %r0;
        st.global.u32 [%d2], %r1; ret;"""
    assert run(body, "out = u32[4]", block="4").array("out").tolist() == [5, 5, 7, 8]


def test_loop_with_a_trip_count_per_lane() -> None:
    """Collatz steps, known: 1 -> 0, 2 -> 1, 3 -> 7, 6 -> 8, 7 -> 16, 27 -> 111."""
    body = """
        mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 4;
        ld.param.u64 %d1, [n]; add.s64 %d1, %d1, %d3; ld.global.u32 %r1, [%d1];
        ld.param.u64 %d2, [out]; add.s64 %d2, %d2, %d3; mov.u32 %r2, 0;
    top: setp.eq.u32 %p1, %r1, 1; @%p1 bra done;
        and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra even;
        mad.lo.u32 %r1, %r1, 3, 1; bra next;
    even: shr.u32 %r1, %r1, 1;
    next: add.u32 %r2, %r2, 1; bra top;
    done: st.global.u32 [%d2], %r2; ret;"""
    machine = interpreter(kernel(body, "n = u32[1, 2, 3, 6, 7, 27]; out = u32[6]", block="6"))
    found = events(machine)
    assert machine.array("out").tolist() == [0, 1, 7, 8, 16, 111]
    stores = [e for e in found if e.memory is not None and e.memory[0] == "global" and not e.writes]
    assert [lanes(e.mask) for e in stores] == [[0, 1, 2, 3, 4, 5]], "all lanes meet again behind the loop"


def test_branches_reconverge_at_the_join() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low;
        mov.u32 %r1, 10; bra join;
    low: mov.u32 %r1, 20;
    join: st.global.u32 [%d2], %r1; ret;"""
    machine = interpreter(kernel(body, "out = u32[4]", block="4"))
    masks = {machine.bound.kernel.body[e.index].text.split()[0]: lanes(e.mask) for e in events(machine)}
    assert masks["st.global.u32"] == [0, 1, 2, 3]
    assert machine.array("out").tolist() == [20, 20, 10, 10]


def test_exit_of_some_lanes_does_not_stop_the_others() -> None:
    body = f"{ELEMENT} setp.eq.u32 %p1, %r0, 1; @%p1 exit; st.global.u32 [%d2], 9; ret;"
    machine = run(body, "out = u32[3]", block="3")
    assert machine.array("out").tolist() == [9, 0, 9]
    assert machine.finished


def test_running_off_the_end_exits() -> None:
    assert run(f"{ELEMENT} st.global.u32 [%d2], 1;", "out = u32[2]", block="2").array("out").tolist() == [
        1,
        1,
    ]


def test_grid_blocks_and_special_registers() -> None:
    body = """
        mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
        mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %ntid.x; mad.lo.u32 %r7, %r5, %r6, %r4;
        mov.u32 %r8, %ntid.y; mul.lo.u32 %r8, %r8, %r6; mad.lo.u32 %r9, %r3, %r8, %r7;
        mul.wide.u32 %d3, %r9, 4; ld.param.u64 %d1, [out]; add.s64 %d2, %d1, %d3;
        mul.lo.u32 %r10, %r1, 1000; mad.lo.u32 %r10, %r0, 100, %r10;
        mad.lo.u32 %r10, %r5, 10, %r10; add.u32 %r10, %r10, %r4; st.global.u32 [%d2], %r10; ret;"""
    machine = run(body, "out = u32[24]", block="(3, 2)", grid="(2, 2)")
    expected = [1000 * by + 100 * bx + 10 * ty + tx
                for by in range(2) for bx in range(2) for ty in range(2) for tx in range(3)]  # fmt: skip
    assert machine.array("out").tolist() == expected


def test_lanes_and_warps() -> None:
    body = f"""{ELEMENT} mov.u32 %r1, %laneid; mov.u32 %r2, %warpid; mov.u32 %r3, WARP_SZ;
        mov.u32 %r4, %lanemask_lt;
        popc.b32 %r4, %r4; mad.lo.u32 %r1, %r2, %r3, %r1; xor.b32 %r4, %r4, %r0; shl.b32 %r4, %r4, 16;
        or.b32 %r1, %r1, %r4; st.global.u32 [%d2], %r1; ret;"""
    got = run(body, "out = u32[40]", block="40").array("out").tolist()
    assert got == [t | ((t % 32) ^ t) << 16 for t in range(40)]


def test_shared_memory_and_a_barrier_between_warps() -> None:
    """Each thread reads what the thread opposite wrote, which a missing barrier would get wrong."""
    body = f"""{ELEMENT} .shared .align 4 .b8 tile[256]; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2;
        add.u32 %r3, %r1, %r2;
        mad.lo.u32 %r4, %r0, 7, 1; st.shared.u32 [%r3], %r4; bar.sync 0;
        sub.u32 %r5, 252, %r2; add.u32 %r5, %r5, %r1; ld.shared.u32 %r6, [%r5]; st.global.u32 [%d2], %r6;
        ret;"""
    machine = run(body, "out = u32[64]", block="64")
    assert machine.array("out").tolist() == [(63 - t) * 7 + 1 for t in range(64)]
    assert machine.shared.view(np.uint32).tolist() == [t * 7 + 1 for t in range(64)]


def test_dynamic_shared_memory_follows_the_static_part() -> None:
    before = ".extern .shared .align 16 .b8 extra[];"
    body = f"""{ELEMENT} .shared .align 4 .b8 tile[4]; mov.u32 %r1, tile; mov.u32 %r2, extra;
        st.shared.u32 [%r2+4], 8;
        mov.u32 %r3, %dynamic_smem_size; ld.shared.u32 %r4, [extra+4]; mad.lo.u32 %r4, %r3, 100, %r4;
        mad.lo.u32 %r4, %r2, 10000, %r4; st.global.u32 [%d2], %r4; ret;"""
    machine = run(body, "out = u32[1]", before=before, shared=12)
    assert machine.array("out").tolist() == [16 * 10000 + 1200 + 8]


def test_exited_threads_do_not_hold_a_barrier() -> None:
    body = f"{ELEMENT} setp.lt.u32 %p1, %r0, 33; @%p1 ret; bar.sync 0; st.global.u32 [%d2], 1; ret;"
    assert run(body, "out = u32[40]", block="40").array("out").tolist() == [0] * 33 + [1] * 7


def test_named_barrier_with_a_count_and_arrive() -> None:
    """Warp 1 arrives and goes on, warp 0 waits for it; warp 2 has no part in it."""
    body = f"""{ELEMENT} .shared .align 4 .b8 cell[4]; mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 1;
        @%p1 bra second;
        setp.eq.u32 %p2, %r1, 2; @%p2 bra done;
        bar.sync 1, 64; ld.shared.u32 %r2, [cell]; st.global.u32 [%d2], %r2; bra done;
    second: st.shared.u32 [cell], 77; bar.arrive 1, 64;
    done: ret;"""
    assert run(body, "out = u32[96]", block="96").array("out").tolist() == [77] * 32 + [0] * 64


def test_barrier_that_never_completes() -> None:
    body = f"{ELEMENT} setp.eq.u32 %p1, %r0, 3; @%p1 bra other; bar.sync 0; ret; other: bar.sync 1; ret;"
    with pytest.raises(Fault, match=r"4 threads wait at barriers that can never complete") as caught:
        run(body, "out = u32[4]", block="4")
    assert caught.value.reason == "deadlock"


def test_divergent_barrier_is_reported() -> None:
    body = f"{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low; bar.sync 0; ret; low: bar.sync 0; ret;"
    with pytest.raises(Fault, match=r"different bar\.sync instructions") as caught:
        run(body, "out = u32[4]", block="4")
    assert caught.value.reason == "divergent barrier"


def test_unaligned_barrier_may_diverge() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low; barrier.sync 0; bra on; low: barrier.sync 0;
    on: st.global.u32 [%d2], 4; ret;"""
    assert run(body, "out = u32[4]", block="4").array("out").tolist() == [4] * 4


def test_warp_barrier_waits_for_its_members_only() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low; bar.warp.sync 0xc; st.global.u32 [%d2], 1;
        ret;
    low: bar.warp.sync 0x3; st.global.u32 [%d2], 2; ret;"""
    assert run(body, "out = u32[4]", block="4").array("out").tolist() == [2, 2, 1, 1]


def test_spinning_warp_lets_the_others_run() -> None:
    body = f"""{ELEMENT} .shared .align 4 .b8 flag[4]; mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 1;
        @%p1 bra signal;
    spin: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra spin; ret;
    signal: st.volatile.shared.u32 [flag], 1; ret;"""
    assert run(body, "out = u32[1]", block="64").finished


@pytest.mark.parametrize(
    ("access", "reason", "words"),
    [
        (
            "ld.global.u32 %r1, [%d1+16]",
            "out of bounds",
            "outside every array .*nearest is out, 0x1000 to 0x1010",
        ),
        ("ld.global.u32 %r1, [%d1-4]", "out of bounds", "outside every array"),
        (
            "st.global.u32 [0], 1",
            "out of bounds",
            r"thread \(1, 0, 0\) of block \(0, 0, 0\) stores to global",
        ),
        ("st.global.u32 [%d1+2], 1", "misaligned", "not a multiple of the 4 bytes"),
        ("ld.global.v2.u32 {%r1, %r2}, [%d1+4]", "misaligned", "not a multiple of the 8 bytes"),
        ("ld.global.u8 %r1, [0xffffffffffffffff]", "out of bounds", "outside every array"),
        ("ld.shared.u32 %r1, [0]", "out of bounds", "outside the shared memory"),
        ("ld.local.u32 %r1, [4]", "out of bounds", "outside the local memory"),
        ("ld.u32 %r1, [0x10000000000]", "out of bounds", "outside every array"),
        ("trap", "trap", "executed trap"),
    ],
)
def test_faults_name_place_and_cause(access: str, reason: str, words: str) -> None:
    body = f"{ELEMENT} setp.eq.u32 %p1, %r0, 1;\n@%p1 {access};\nret;"
    with pytest.raises(Fault, match=words) as caught:
        run(body, "out = u32[4]", block="4")
    fault = caught.value
    assert (fault.reason, fault.block, fault.thread, fault.lane) == (reason, (0, 0, 0), (1, 0, 0), 1)
    assert str(fault).startswith(f"test.ptx:{fault.line}: ")
    assert "\n" not in str(fault)


def test_lanes_below_a_faulting_one_have_stored() -> None:
    machine = interpreter(kernel(f"{ELEMENT} st.global.u32 [%d2], 7; ret;", "out = u32[3]", block="5"))
    with pytest.raises(Fault) as caught:
        machine.run()
    assert caught.value.lane == 3
    assert machine.array("out").tolist() == [7, 7, 7]


def test_unsupported_instruction_traps_only_where_executed() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 9; @%p1 bra done;
        tex.1d.v4.f32.s32 {{%f1,%f2,%f3,%f4}}, [%d1, {{%r1}}]; done: ret;"""
    text = kernel(body, "out = u32[4]", block="4")
    interpreter(text).run(100)
    with pytest.raises(Unsupported, match=r"^test\.ptx:\d+: `tex\."):
        interpreter(text.replace("%r0, 9", "%r0, 1")).run(100)


def test_unknown_modifier_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"is not supported: add.f32 takes \[.rn or"):
        run("add.rn.ftz.sat.bogus.f32 %f1, %f2, %f3; ret;", "out = u32[1]")


def test_limit_stops_an_endless_loop() -> None:
    machine = interpreter(kernel("top: bra top;", "out = u32[1]"))
    with pytest.raises(LimitReached, match="within 500 warp instructions"):
        machine.run(500)
    assert machine.instructions == 500


def test_progress_is_reported_and_may_interrupt() -> None:
    calls: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interpreter(kernel("top: bra top;", "out = u32[1]", grid="3")).run(progress=progress)
    assert calls == [(0, 3), (0, 3)]


def test_execute_refuses_lanes_that_are_elsewhere() -> None:
    machine = interpreter(kernel(f"{ELEMENT} ret;", "out = u32[4]", block="4"))
    warp = machine.warps[0]
    everyone = np.ones(32, np.bool_)
    with pytest.raises(ValueError, match="about to execute instruction 0"):
        warp.execute(0, everyone)  # lanes 4 to 31 do not exist
    event = warp.execute(0, np.arange(32) < 2)
    assert lanes(event.mask) == [0, 1]
    assert warp.pc.tolist() == [1, 1, 0, 0] + [-1] * 28
    with pytest.raises(ValueError, match="about to execute instruction 0"):
        warp.execute(0, np.arange(32) < 3)


def test_event_says_what_was_written_and_accessed() -> None:
    machine = interpreter(kernel(f"{ELEMENT} st.global.u32 [%d2], %r0; ret;", "out = u32[3]", block="3"))
    first, *_, store, last = events(machine)
    assert list(first.writes) == ["%r0"]
    assert first.writes["%r0"][:3].tolist() == [0, 1, 2]
    assert store.memory is not None
    space, addresses, size = store.memory
    assert (space, addresses.tolist(), size) == ("global", [0x1000, 0x1004, 0x1008], 4)
    assert (last.writes, last.memory, last.block, last.warp) == ({}, None, 0, 0)
    assert machine.step() is None


def test_snapshot_and_restore_replay_the_same_events() -> None:
    body = f"""{ELEMENT} .shared .align 4 .b8 tile[256]; .local .align 4 .b8 own[8]; shl.b32 %r2, %r0, 2;
        st.local.u32 [own+4], %r0; add.cc.u32 %r7, %r0, 0xfffffff0; st.shared.u32 [%r2], %r0; bar.sync 0;
        xor.b32 %r3, %r2, 4; ld.shared.u32 %r4, [%r3]; ld.local.u32 %r5, [own+4]; addc.u32 %r6, %r5, %r4;
        mov.u32 %r8, %ctaid.x; add.u32 %r6, %r6, %r8; st.global.u32 [%d2], %r6; ret;"""
    machine = interpreter(kernel(body, "out = u32[64]", block="64", grid="2"))

    def trace() -> list[tuple[int, int, int, list[int], list[list[int]]]]:
        return [(e.block, e.warp, e.index, lanes(e.mask), [v.tolist() for v in e.writes.values()])
                for e in events(machine)]  # fmt: skip

    snapshots = []
    while machine.step() is not None:
        snapshots.append(machine.snapshot())
    final = machine.array("out").tolist()
    assert final == [t + (t ^ 1) + (t >= 16) + 1 for t in range(64)]
    for snapshot in snapshots[:: len(snapshots) // 7]:
        machine.restore(snapshot)
        assert machine.instructions == snapshot.issued
        rest = trace()
        machine.restore(snapshot)
        assert trace() == rest
        assert machine.array("out").tolist() == final
        assert machine.finished


def test_a_caller_may_drive_warps_and_blocks_itself() -> None:
    body = f"{ELEMENT} mov.u32 %r1, %ctaid.y; st.global.u32 [%d2], %r1; ret;"
    machine = interpreter(kernel(body, "out = u32[1]", grid="(1, 3)"))
    for block in range(3):
        assert machine.block == block
        with pytest.raises(ValueError, match="has threads left"):
            machine.next_block()
        warp = machine.warps[0]
        while (choice := warp.next()) is not None:
            warp.execute(*choice)
        assert machine.array("out").tolist() == [block]
        assert warp.exited.all()
        if block < 2:
            machine.next_block()
    assert machine.finished
    with pytest.raises(ValueError, match="is the last one"):
        machine.next_block()


def test_speed_of_an_integer_kernel() -> None:
    """At least 200,000 lane-instructions a second of one core, of which a warp instruction is 32."""
    body = f"""{ELEMENT} mov.u32 %r1, 0; mov.u32 %r2, %r0;
    top: mad.lo.u32 %r2, %r2, 1664525, 1013904223; shr.u32 %r3, %r2, 16; xor.b32 %r2, %r2, %r3;
        st.global.u32 [%d2], %r2; ld.global.u32 %r4, [%d2]; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100;
        @%p1 bra top; ret;"""

    def rate() -> float:
        machine = interpreter(kernel(body, "out = u32[64]", block="64"))
        start = time.process_time()
        machine.run()
        return 32 * machine.instructions / (time.process_time() - start)

    assert max(rate() for _ in range(3)) > 200_000


def test_warps_of_four_lanes() -> None:
    text = kernel(
        f"{ELEMENT} mov.u32 %r1, %warpid; st.global.u32 [%d2], %r1; ret;", "out = u32[6]", block="6"
    )
    machine = interpreter(text, lanes=4)
    machine.run()
    assert machine.array("out").tolist() == [0, 0, 0, 0, 1, 1]


def test_module_variables_initialisers_and_relocations() -> None:
    text = f"""// qdbg: launch k<<<1, 1>>>(out = u32[3])
        {HEADER}
        .const .align 4 .u32 table[3] = {{11, 22, 33}};
        .global .align 8 .u64 pointer = table;
        .global .align 4 .u32 cell;
        .visible .entry k(.param .u64 out) {{ {REGISTERS}
        ld.param.u64 %d1, [out]; ld.const.u32 %r1, [table+8]; st.global.u32 [%d1], %r1;
        ld.global.u64 %d2, [pointer]; ld.u32 %r2, [%d2+4]; st.global.u32 [%d1+4], %r2;
        st.global.u32 [cell], 5; ld.global.u32 %r3, [cell]; st.global.u32 [%d1+8], %r3; ret; }}"""
    machine = interpreter(text)
    machine.run()
    assert machine.array("out").tolist() == [33, 22, 5]
    assert machine.array("table").tolist() == [11, 22, 33]


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("mov %r1, %r2", "is malformed or not supported yet"),
        ("slct.s32 %r1, %r2, %r3, %r4", "slct takes the types .b16.s32,"),
        ("add.u64 %r1, %d1, %d2", "uses %r1, a .b32, as a .u64"),
        ("add.u32 %d1, %r1, %r2", "uses %d1, a .b64, as a .u32"),
        ("add.u32 %r1, %d1, %r2", "uses %d1, a .b64, as a .u32"),
        ("add.u32 %r1, %f1, %r2", "uses %f1, a .f32, as a .u32"),
        ("mov.u32 %r1, %h1", "uses %h1, a .b16, as a .b32"),
        ("shl.b64 %d1, %d2, %d3", "uses %d3, a .b64, as a .u32"),
        ("ld.global.u32 %h1, [%d1]", "uses %h1, a .b16, as a .u32"),
        ("cvt.u32.u8 %r1, %f1", "uses %f1, a .f32, as a .u8"),
        ("popc.b64 %d1, %d2", "uses %d1, a .b64, as a .u32"),
        (".reg .u32 %u; add.f32 %f1, %f2, %u", "uses %u, a .u32, as a .f32"),
        ("ld.global.u32 %r1, [%f1]", "has its address in %f1, a .f32"),
        ("add.u32 %r1, %r2, %p1", "uses %p1, a .pred, as a .u32"),
        ("and.pred %r1, %p1, %p2", "uses %r1, a .b32, as a .pred"),
        ("add.sat.u32 %r1, %r2, %r3", "is not supported: add.u32 takes no modifiers; or .cc;"),
        ("cvt.s32.f32 %r1, %f1", "cvt.s32.f32 takes .rni or .rzi or .rmi or .rpi, [.ftz], [.sat]"),
        ("setp.ltu.u32 %p1, %r1, %r2", "setp.u32 takes .eq or .ne or .lt or"),
        ("ld.global.v2.u32 %r1, [%d1]", "moves 2 elements but names 1"),
        ("mov.u32 %r1, %pm0", "reads %pm0, which is not supported yet"),
        ("@%r1 mov.u32 %r2, 0", "uses %r1, a .b32, as a .pred"),
        ("div.rn.approx.f32 %f1, %f2, %f3", "; or .approx, [.ftz]; or .full"),
    ],
)
def test_what_cannot_be_decoded_is_said(instruction: str, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        run(f"{instruction}; ret;", "out = u32[1]")
    assert str(caught.value).startswith("test.ptx:")
    assert why in str(caught.value)


CUDA = """// qdbg: launch k<<<1, 2>>>(a = i32[1], n = 3)
__global__ void k(int *a, int n)
{
    a[threadIdx.x]
        = STATEMENT;
}
"""


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "(int)__vabsdiffu4(n, 1)",
            Unsupported,
            r"/k\.cu:5: `vabsdiff4[^`]*` \(PTX line \d+\) .*; rewrite the line",
        ),
        (
            "n",
            Fault,
            r"/k\.cu:[45]: thread \(1, 0, 0\) .*; check the index .*: `st\.[^`]+` \(PTX line \d+\)$",
        ),
    ],
)
def test_errors_name_the_line_of_the_cuda_source(
    statement: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(CUDA.replace("STATEMENT", statement))
    loaded = load_module(tmp_path / "k.cu")
    with pytest.raises(error, match=message):
        Interpreter(loaded.ptx, bind(loaded, launch_for(loaded))).run()

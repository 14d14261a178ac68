"""shfl, vote, match, redux, activemask of the reference interpreter, and how diverged lanes meet in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ptx_runner import interpreter, kernel, run
from test_interpreter_control import ELEMENT

from qdbg.runtime.interpreter import Fault, Interpreter, Unsupported

#: Mode, argument, width, and which lane each of 32 lanes reads, from the C++ oracle (`shuffles.cu`).
SHUFFLES = [
    line.split() for line in (Path(__file__).parent / "data" / "shuffles.txt").read_text().splitlines()
]


def everyone(body: str, lanes: int = 32, before: str = ELEMENT, **options: str | int) -> Interpreter:
    """Run `body`, which leaves a result in %r1, in one block; `out` gets it."""
    text = f"{before} {body} st.global.u32 [%d2], %r1; ret;"
    return run(text, f"out = u32[{lanes}]", block=str(lanes), **options)


def result(body: str, lanes: int = 32) -> list[int]:
    return [int(value) for value in everyone(body, lanes).array("out")]


@pytest.mark.parametrize("line", SHUFFLES, ids=lambda line: "-".join(line[:3]))
@pytest.mark.parametrize("form", ["shfl.sync.{}.b32 %r1, %r0, {}, {}, -1;", "shfl.{}.b32 %r1, %r0, {}, {};"])
def test_trap_50_shuffles_of_cuda(line: list[str], form: str) -> None:
    mode, argument, width, *expected = line
    control = (32 - int(width)) << 8 | (0 if mode == "up" else 31)
    assert result(form.format(mode, argument, control)) == [int(lane) for lane in expected]


@pytest.mark.parametrize(
    ("mode", "b", "c", "source", "in_range"),
    [  # by the semantics that the ISA gives: lane 13 of each
        ("up", 3, 0, 10, 1),
        ("up", 13, 0, 0, 1),
        ("up", 14, 0, 13, 0),
        ("up", 4, 12, 13, 0),  # clamp 12: 9 is below it
        ("down", 5, 31, 18, 1),
        ("down", 19, 31, 13, 0),
        ("down", 5, 16, 13, 0),  # clamp 16: 18 is above it
        ("down", 3, 16, 16, 1),
        ("down", 3, 0x1800 | 31, 13, 0),  # segments of 8: 8 to 15
        ("bfly", 1, 31, 12, 1),
        ("bfly", 2, 14, 13, 0),  # 15 is above the clamp
        ("idx", 20, 31, 20, 1),
        ("idx", 20, 16, 13, 0),
        ("idx", 3, 0x1800 | 31, 11, 1),
        ("idx", 33, 31, 1, 1),  # only the low five bits of b count
    ],
)
def test_trap_50_clamp_segment_and_predicate(mode: str, b: int, c: int, source: int, in_range: int) -> None:
    got = result(
        f"shfl.sync.{mode}.b32 %r1|%p1, %r0, {b}, {c}, -1; selp.u32 %r2, 100, 0, %p1; add.u32 %r1, %r1, %r2;"
    )
    assert got[13] == source + 100 * in_range


def test_trap_50_predicate_stays_true_where_the_source_is_outside_the_mask() -> None:
    """The value is then undefined: a warning, once a line."""
    machine = everyone("""setp.lt.u32 %p2, %r0, 16; selp.u32 %r3, 0xffff, 0xffff0000, %p2;
        shfl.sync.idx.b32 %r2|%p1, %r0, 20, 31, %r3; selp.u32 %r1, 1, 0, %p1;""")
    assert machine.array("out").tolist() == [1] * 32
    (finding,) = machine.findings
    assert (finding.kind, finding.block, finding.thread) == ("inactive lane", (0, 0, 0), (0, 0, 0))
    assert finding.message.startswith(f"test.ptx:{finding.line}: thread (0, 0, 0) of block (0, 0, 0) reads")
    assert "lane 20, which does not take part" in finding.message
    assert "`shfl.sync.idx.b32 %r2|%p1, %r0, 20, 31, %r3;`" in finding.message


def test_trap_50_source_that_has_exited_or_never_was() -> None:
    body = f"""{ELEMENT} setp.eq.u32 %p1, %r0, 2; @%p1 exit;
        shfl.sync.down.b32 %r1, %r0, 1, 31, -1; st.global.u32 [%d2], %r1; ret;"""
    machine = run(body, "out = u32[5]", block="5")
    assert machine.array("out").tolist() == [1, 1, 0, 4, 4], "an undefined value is the lane's own"
    (finding,) = machine.findings
    assert finding.thread == (1, 0, 0)
    assert "lane 2, which does not exist or has exited" in finding.message


def test_shuffle_of_the_lane_before_reads_what_was_there_before() -> None:
    assert result("shfl.sync.up.b32 %r0, %r0, 1, 0, -1; mov.u32 %r1, %r0;") == [0, *range(31)]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("vote.sync.ballot.b32 %r1, %p1, -1;", 0b0111),
        ("vote.sync.ballot.b32 %r1, !%p1, -1;", 0b11000),
        ("vote.sync.ballot.b32 %r1, !%p1, 0xff;", 0b11000),
        ("vote.ballot.b32 %r1, %p1;", 0b0111),
        ("vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 1),
        ("vote.sync.all.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0),
        ("vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0),
        ("vote.sync.any.pred %p2, !%p3, -1; selp.u32 %r1, 1, 0, %p2;", 0),
        ("vote.sync.all.pred %p2, %p3, -1; selp.u32 %r1, 1, 0, %p2;", 1),
        ("vote.sync.uni.pred %p2, %p3, -1; selp.u32 %r1, 1, 0, %p2;", 1),
        ("vote.sync.uni.pred %p2, !%p3, -1; selp.u32 %r1, 1, 0, %p2;", 1),
        ("vote.all.pred %p2, !%p1; selp.u32 %r1, 1, 0, %p2;", 0),
        ("match.any.sync.b32 %r1, 7, -1;", 0b11111),
        ("match.all.sync.b32 %r1, 7, -1;", 0b11111),
        ("match.all.sync.b32 %r1|%p2, 7, -1; selp.u32 %r2, 32, 0, %p2; or.b32 %r1, %r1, %r2;", 0b111111),
        ("match.all.sync.b32 %r1|%p2, %r0, -1; selp.u32 %r2, 32, 0, %p2; or.b32 %r1, %r1, %r2;", 0),
        ("match.all.sync.b64 %r1, 0x700000000, -1;", 0b11111),
        ("redux.sync.add.u32 %r1, %r0, -1;", 10),
        ("redux.sync.add.s32 %r1, -1, -1;", 2**32 - 5),
        ("sub.s32 %r2, %r0, 2; redux.sync.min.s32 %r1, %r2, -1;", 2**32 - 2),
        ("sub.s32 %r2, %r0, 2; redux.sync.max.s32 %r1, %r2, -1;", 2),
        ("sub.s32 %r2, %r0, 2; redux.sync.min.u32 %r1, %r2, -1;", 0),
        ("sub.s32 %r2, %r0, 2; redux.sync.max.u32 %r1, %r2, -1;", 2**32 - 1),
        ("redux.sync.and.b32 %r1, %r0, -1;", 0),
        ("redux.sync.or.b32 %r1, %r0, -1;", 7),
        ("redux.sync.xor.b32 %r1, %r0, -1;", 0 ^ 1 ^ 2 ^ 3 ^ 4),
        ("activemask.b32 %r1;", 0b11111),
    ],
)
def test_trap_51_votes_matches_and_reductions(operation: str, expected: int) -> None:
    """Five threads, of which %p1 holds for the first three and %p3 for all; the mask names more lanes."""
    body = f"setp.lt.u32 %p1, %r0, 3; setp.lt.u32 %p3, %r0, 9; {operation}"
    assert result(body, lanes=5) == [expected] * 5


def test_trap_51_match_any_groups_equal_values() -> None:
    got = result("rem.u32 %r2, %r0, 3; match.any.sync.b32 %r1, %r2, -1;", lanes=8)
    assert got == [
        0b01001001,
        0b10010010,
        0b00100100,
        0b01001001,
        0b10010010,
        0b00100100,
        0b01001001,
        0b10010010,
    ]


def test_trap_51_lanes_outside_the_mask_count_for_nothing() -> None:
    body = """mov.u32 %r1, 99; setp.lt.u32 %p1, %r0, 4; setp.ne.u32 %p2, %r0, 6;
        @%p1 vote.sync.ballot.b32 %r1, %p2, 0xf; @!%p1 vote.sync.ballot.b32 %r1, %p2, 0xf0;"""
    assert result(body, lanes=8) == [0xF] * 4 + [0xB0] * 4


def test_trap_51_activemask_is_the_lanes_whose_guard_holds() -> None:
    body = "mov.u32 %r1, 99; setp.lt.u32 %p1, %r0, 3; @%p1 activemask.b32 %r1; @!%p1 activemask.b32 %r1;"
    assert result(body, lanes=8) == [0b111] * 3 + [0b11111000] * 5


def test_lanes_of_two_branches_meet_in_one_operation() -> None:
    """The ISA asks for the same qualifiers and mask, not for the same place; operands are each lane's own."""
    body = """setp.lt.u32 %p1, %r0, 16; @%p1 bra low; add.u32 %r2, %r0, 100;
        shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1; bra join;
    low: add.u32 %r3, %r0, 200; mov.u32 %r4, 16; shfl.sync.bfly.b32 %r1, %r3, %r4, 31, -1;
    join:"""
    assert result(body) == [t + 16 + 100 if t < 16 else t - 16 + 200 for t in range(32)]


def test_members_wait_however_long_the_others_take() -> None:
    body = """mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 4; @%p1 bra meet; mov.u32 %r3, 0;
    loop: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r0; @%p2 bra loop; mov.u32 %r2, %r3;
    meet: redux.sync.add.u32 %r1, %r2, 0xff;"""
    assert result(body, lanes=8) == [4 + 5 + 6 + 7] * 8


def test_exited_members_are_not_waited_for() -> None:
    body = """setp.eq.u32 %p1, %r0, 3; setp.eq.u32 %p2, 0, 0; @%p1 bra other;
        vote.sync.ballot.b32 %r1, %p2, -1; bra join;
    other: exit;
    join:"""
    assert result(body, lanes=6) == [0b110111] * 3 + [0] + [0b110111] * 2


def test_snapshot_while_lanes_wait() -> None:
    body = f"""{ELEMENT} setp.lt.u32 %p1, %r0, 2; @%p1 bra low;
        shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra join;
    low: add.u32 %r3, %r0, 70; shfl.sync.idx.b32 %r1, %r3, 0, 31, -1;
    join: st.global.u32 [%d2], %r1; ret;"""
    machine = interpreter(kernel(body, "out = u32[4]", block="4"))
    snapshots = [machine.snapshot()]
    while machine.step() is not None:
        snapshots.append(machine.snapshot())
    for snapshot in snapshots:
        machine.restore(snapshot)
        machine.run()
        assert machine.array("out").tolist() == [70] * 4


@pytest.mark.parametrize(
    ("instruction", "thread", "words"),
    [
        (
            "vote.sync.ballot.b32 %r1, %p1, 0xe",
            (0, 0, 0),
            "is lane 0, which its member mask 0xe does not name",
        ),
        (
            "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0x7",
            (3, 0, 0),
            "is lane 3, which its member mask 0x7 does not",
        ),
        ("bar.warp.sync 0xd", (1, 0, 0), "is lane 1, which its member mask 0xd does not name"),
        ("match.any.sync.b32 %r1, %r0, %r0", (0, 0, 0), "is lane 0, which its member mask 0x0 does not name"),
    ],
)
def test_a_lane_outside_its_own_mask_faults(
    instruction: str, thread: tuple[int, int, int], words: str
) -> None:
    with pytest.raises(Fault, match=words) as caught:
        everyone(f"{instruction}; mov.u32 %r1, 0;", lanes=4)
    fault = caught.value
    assert (fault.reason, fault.block, fault.thread) == ("member mask", (0, 0, 0), thread)
    assert str(fault).startswith(
        f"test.ptx:{fault.line}: thread ({thread[0]}, 0, 0) of block (0, 0, 0) is lane"
    )


@pytest.mark.parametrize(
    "other",
    ["shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xff", "shfl.sync.idx.b32 %r1, %r0, 1, 31, 0xf", "bar.sync 0"],
)
def test_members_that_do_not_arrive_are_a_deadlock(other: str) -> None:
    """Other qualifiers, another mask, or something else altogether."""
    body = f"""setp.lt.u32 %p1, %r0, 2; @%p1 bra low; shfl.sync.idx.b32 %r1, %r0, 1, 31, 0xff; bra join;
    low: {other};\njoin:"""
    with pytest.raises(Fault, match=r"thread \(0, 0, 0\) of block \(0, 0, 0\)|4 threads wait") as caught:
        everyone(body, lanes=4)
    assert caught.value.reason == "deadlock"
    if "sync 0" not in other:
        assert "waits for lane 2 of its member mask" in str(caught.value)
        assert "thread (2, 0, 0) of block (0, 0, 0), which waits at PTX line" in str(caught.value)


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("elect.sync %r1|%p1, -1", "is not supported yet"),
        ("shfl.sync.b32 %r1, %r0, 1, 31, -1", "needs one of .up, .down, .bfly, .idx"),
        ("shfl.sync.up.b64 %d1, %d1, 1, 31, -1", "needs the type .b32"),
        ("shfl.sync.up.b32 %r1, %r0, 1, 31", "takes 5 operands, not 4"),
        ("shfl.up.b32 %r1, %r0, 1, 31, -1", "takes 4 operands, not 5"),
        ("shfl.sync.up.bogus.b32 %r1, %r0, 1, 31, -1", "has .bogus, which is not supported yet"),
        ("vote.sync.pred %p1, %p1, -1", "needs one of .all, .any, .uni, .ballot"),
        ("vote.sync.ballot.pred %p1, %p1, -1", "needs the type .b32"),
        ("vote.sync.all.pred %p1, %r1, -1", "uses %r1"),
        ("match.any.sync.b32 %r1|%p1, %r0, -1", "which only match.all has"),
        ("match.any.b32 %r1, %r0", "needs one of .sync"),
        ("redux.sync.add.b32 %r1, %r0, -1", "needs the type .u32 or .s32"),
        ("redux.sync.and.u32 %r1, %r0, -1", "needs the type .b32"),
        ("redux.sync.min.abs.f32 %f1, %f1, -1", "has .abs, which is not supported yet"),
        ("activemask.u32 %r1", "needs the type .b32"),
    ],
)
def test_what_is_not_ptx_is_said(instruction: str, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        everyone(f"{instruction};", lanes=1)
    assert why in str(caught.value)

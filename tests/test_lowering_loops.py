"""Loops that walk arrays: pointers computed from the counter, sums with words in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lowered import Result, emulate
from ptx_runner import THREAD_ELEMENT, kernel

from qdbg.compiler.machine.isa import Op
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare

WORDS = [3, 141, 59, 26, 535, 89, 79, 323, 846, 264, 338, 327, 950, 288, 419, 716]
KERNELS = Path(__file__).parent.parent / "kernels"


def walked(body: str, threads: int = 1) -> Result:
    """Runs a body in which %d1 is the address of WORDS and %d2 that of `out`, to which %r9 goes."""
    start = "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [out]; mov.u32 %r9, 0;"
    arguments = f"a = u32{WORDS}; out = u32[{threads}]"
    text = kernel(f"{start} {body} st.global.u32 [%d2], %r9; ret;", arguments, block=str(threads))
    result = emulate(text)
    assert result.trap is None
    return result


def loop(step: int, stride: int, where: str, start: int = 0, end: int = 5) -> str:
    """Adds the word at the pointer each round; `where` orders the load L, pointer P and counter C."""
    parts = {
        "L": "ld.global.u32 %r8, [%d1]; mad.lo.u32 %r9, %r9, 5, %r8;",
        "P": f"add.s64 %d1, %d1, {stride};",
        "C": f"add.s32 %r1, %r1, {step};",
    }
    inside = "".join(parts[p] for p in where)
    last = start + step * end
    return f"mov.u32 %r1, {start}; $L: {inside} setp.ne.s32 %p1, %r1, {last}; @%p1 bra $L;"


def folded(indices: list[int]) -> int:
    total = 0
    for index in indices:
        total = (total * 5 + WORDS[index]) & 0xFFFFFFFF
    return total


@pytest.mark.parametrize(("step", "stride"), [(1, 4), (1, 8), (2, 4), (4, 4), (-1, -4), (1, 12), (3, 4)])
@pytest.mark.parametrize("where", ["LPC", "LCP", "PLC", "CLP", "PCL", "CPL"])
@pytest.mark.parametrize("start", [0, 7])
def test_pointer_and_counter_in_every_order(step: int, stride: int, where: str, start: int) -> None:
    offset = 40 if stride < 0 else 0
    result = walked(f"add.s64 %d1, %d1, {offset};" + loop(step, stride, where, start))
    before = where.index("P") < where.index("L")
    indices = [(offset + stride * (n + before)) // 4 for n in range(5)]
    assert result.array("out")[0] == folded(indices)
    adds = [i for i in result.program.code if i.op is Op.ADD and i.a == i.dst and i.immediate]
    merges = stride in (step << n & 0xFFFFFFFF if step > 0 else step << n for n in range(4))
    assert len(adds) == (1 if merges else 2)


def test_a_pointer_that_goes_on_in_the_next_round_of_an_outer_loop() -> None:
    inner = loop(1, 4, "LPC", end=3).replace("$L", "$IN").replace("%p1", "%p2")
    result = walked(
        f"mov.u32 %r3, 0; $OUT: {inner} add.s32 %r3, %r3, 1; setp.lt.s32 %p3, %r3, 4; @%p3 bra $OUT;"
    )
    assert result.array("out")[0] == folded(list(range(12)))


def test_a_pointer_that_is_read_after_the_loop() -> None:
    result = walked(loop(1, 4, "LPC") + "ld.global.u32 %r7, [%d1+4]; add.u32 %r9, %r9, %r7;")
    assert result.array("out")[0] == folded(list(range(5))) + WORDS[6]


def test_lanes_that_leave_in_different_rounds() -> None:
    body = """mov.u32 %r2, %tid.x; mov.u32 %r1, 0;
    $L: ld.global.u32 %r8, [%d1]; mad.lo.u32 %r9, %r9, 5, %r8; add.s64 %d1, %d1, 4; add.s32 %r1, %r1, 1;
    setp.le.s32 %p1, %r1, %r2; @%p1 bra $L;
    mul.wide.u32 %d3, %r2, 4; add.s64 %d2, %d2, %d3;"""
    result = walked(body, threads=6)
    assert list(result.array("out")) == [folded(list(range(n + 1))) for n in range(6)]


SUMS: dict[str, tuple[str, Callable[[], int], int]] = {
    "to nothing": ("ld.global.u32 %r1, [%d1+4]; add.u32 %r9, %r9, %r1;", lambda: WORDS[1], 0),
    "two": (
        "ld.global.u32 %r1, [%d1+4]; ld.global.u32 %r2, [%d1+8]; add.u32 %r9, %r1, %r2;",
        lambda: WORDS[1] + WORDS[2], 1,
    ),
    "read again": (
        "ld.global.u32 %r1, [%d1+4]; add.u32 %r9, %r9, %r1; xor.b32 %r9, %r9, %r1;", lambda: 0, 0,
    ),
    "doubled": ("ld.global.u32 %r1, [%d1+4]; add.u32 %r9, %r1, %r1;", lambda: 2 * WORDS[1], 0),
    "store in between": (
        "ld.global.u32 %r1, [%d1+4]; st.global.u32 [%d1+4], 9; ld.global.u32 %r2, [%d1+4];"
        "add.u32 %r9, %r2, %r1;",
        lambda: 9 + WORDS[1], 1,
    ),
    "constant": ("ld.global.u32 %r1, [%d1+4]; add.u32 %r9, %r1, 1000000;", lambda: WORDS[1] + 1000000, 0),
    "byte": ("ld.global.u8 %r1, [%d1+4]; add.u32 %r9, %r9, %r1;", lambda: WORDS[1] & 255, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_with_words_in_memory(name: str) -> None:
    body, wanted, fused = SUMS[name]
    result = walked(body)
    assert result.array("out")[0] == wanted()
    assert sum(i.op is Op.LDA for i in result.program.code) == fused


def test_dot_takes_47_tokens() -> None:
    image = prepare(KERNELS / "dot.cu", LaunchOptions()).image
    emulator = Emulator()
    count, newest = 1, emulator.prefill([emulator.vocabulary[t] for t in image.tokens])
    while str(emulator.vocabulary.token(newest)) != "<end>":
        count, newest = count + 1, emulator.step()
    assert count == 47


TABLE = """
    mov.u32 %r3, 1; setp.ne.u32 %p1, %r0, 9; table: .branchtargets ten, twenty, ten, behind;
    @%p1 brx.idx %r0, table;
    bra.uni store;
twenty: mov.u32 %r3, 20; bra.uni store;
ten: mov.u32 %r3, 10;
store: st.global.u32 [%d2], %r3; behind: ret;
"""


def test_a_branch_by_a_table() -> None:
    """Lane 3 leaves without a store, lane 9 is not branched; entries beyond the table trap."""
    last_is_nine = "setp.eq.u32 %p2, %r0, 4; @%p2 mov.u32 %r0, 9;"
    text = kernel(THREAD_ELEMENT + last_is_nine + TABLE, "a = u32[5]", block="5")
    assert emulate(text).array("a").tolist() == [10, 20, 10, 0, 1]
    beyond = emulate(kernel(THREAD_ELEMENT + TABLE, "a = u32[5]", block="5"))
    assert beyond.trap == "<trap lane 4: out of bounds>"


def test_a_branch_by_a_table_in_a_function() -> None:
    before = """.func (.param .b32 q) f(.param .b32 p) {
        .reg .b32 %r<3>; t: .branchtargets A, B; ld.param.b32 %r1, [p]; brx.idx %r1, t;
        A: st.param.b32 [q], 70; ret; B: st.param.b32 [q], 71; ret; }
    """
    body = """{ .param .b32 x; .param .b32 y; and.b32 %r2, %r0, 1; st.param.b32 [x], %r2;
        call.uni (y), f, (x); ld.param.b32 %r1, [y]; } st.global.u32 [%d2], %r1; ret;"""
    result = emulate(kernel(THREAD_ELEMENT + body, "a = u32[4]", block="4", before=before))
    assert result.array("a").tolist() == [70, 71, 70, 71]

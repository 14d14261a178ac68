"""Compiled kernels in the emulator against exact Python arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowered import emulate
from ptx_runner import THREAD_ELEMENT, kernel

from qdbg.compiler.machine.isa import Op
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare

M = 0xFFFFFFFF
STORE = "st.global.u32 [%d2], %r1; ret;"
VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "data/fold_vectors.jsonl").read_text().splitlines()
]


def per_thread(body: str, values: list[int], **more: Any) -> list[int]:
    """What `body` leaves in %r1, which starts as the thread's value of `values`."""
    listed = ", ".join(str(v) for v in values)
    text = kernel(THREAD_ELEMENT + body + STORE, f"a = u32[{listed}]", block=str(len(values)), **more)
    result = emulate(text)
    assert result.trap is None
    return [int(v) for v in result.array("a")]


def test_vectors_folded_by_the_assembler() -> None:
    """Whatever of the conformance vectors does not trap as unsupported must give the stated value."""
    exact = 0
    for vector in VECTORS:
        text = f"// qdbg: launch t<<<1, 1>>>(o = u{vector['out_bits']}[1])\n{vector['ptx']}"
        result = emulate(text)
        if result.trap is None:
            assert int(result.array("o")[0]) == int(vector["expect"], 16), vector["id"]
            exact += 1
        else:
            assert result.trap == "<trap lane 0: unsupported>"
    assert exact >= 213


def test_every_lop3_table() -> None:
    a, b, c = 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA
    for first in range(0, 256, 16):
        body = "".join(
            f"lop3.b32 %r{k}, {a}, %r1, {c}, {first + n}; st.global.u32 [%d1+{4 * n}], %r{k};"
            for n in range(16)
            for k in (2 + n % 2,)
        )
        text = kernel(THREAD_ELEMENT + body + "ret;", f"a = u32[{', '.join([str(b)] * 16)}]")
        got = [int(v) for v in emulate(text).array("a")]
        want = []
        for table in range(first, first + 16):
            bits = sum((table >> i & 1) << i for i in range(8))  # bit i of F0, CC, AA spells i
            want.append(bits * 0x01010101)
        assert got == want


def test_trip_counts_differ_between_lanes() -> None:
    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else (3 * n + 1) & M
            steps += 1
        return steps

    body = """
        mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 1; @%p1 bra $END;
    $LOOP: and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra $EVEN;
        mad.lo.u32 %r1, %r1, 3, 1; bra $NEXT;
    $EVEN: shr.u32 %r1, %r1, 1;
    $NEXT: add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r1, 1; @%p1 bra $LOOP;
    $END: mov.u32 %r1, %r2;
    """
    values = [1, 2, 3, 7, 9, 27, 8, 97]
    assert per_thread(body, values) == [collatz(v) for v in values]


def test_break_continue_and_early_return() -> None:
    """A loop that each lane leaves in its own way; `return` keeps the thread's value in memory."""

    def expected(x: int) -> int:
        s = 0
        for k in range(x):
            if k == 2:
                continue
            if k == 5:
                return x
            s += k
            if s > 7:
                break
        return s + 100

    body = """
        mov.u32 %r2, 0; mov.u32 %r3, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra $OUT;
    $LOOP: setp.eq.u32 %p2, %r3, 2; @%p2 bra $NEXT;
        setp.eq.u32 %p2, %r3, 5; @%p2 ret;
        add.u32 %r2, %r2, %r3; setp.gt.u32 %p2, %r2, 7; @%p2 bra $OUT;
    $NEXT: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra $LOOP;
    $OUT: add.u32 %r1, %r2, 100;
    """
    values = [0, 1, 2, 3, 4, 5, 6, 7]
    assert per_thread(body, values) == [expected(v) for v in values]
    assert per_thread(body.replace("2, 7", "2, 99"), values) == [
        v if v > 5 else 100 + sum(k for k in range(v) if k != 2) for v in values
    ]


def test_predicated_instructions_keep_the_old_value() -> None:
    body = """
        setp.lt.s32 %p1, %r1, 3; @%p1 add.u32 %r1, %r1, 10; @!%p1 mul.lo.u32 %r1, %r1, %r1;
        @%p1 setp.gt.u32 %p1, %r1, 11; @%p1 st.global.u32 [%d2], %r1; @%p1 ret;
    """
    assert per_thread(body, [0, 1, 2, 3, 4]) == [10, 11, 12, 9, 16]


def test_two_dimensional_blocks_and_grids() -> None:
    body = """
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
        mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r9, %ctaid.z;
        mad.lo.u32 %r6, %r5, 2, %r4; mad.lo.u32 %r6, %r9, 6, %r6;
        mad.lo.u32 %r7, %r3, 2, %r2; mad.lo.u32 %r7, %r7, 3, %r1; mad.lo.u32 %r8, %r6, 12, %r7;
        ld.param.u64 %d1, [a]; mul.wide.u32 %d3, %r8, 4; add.s64 %d1, %d1, %d3;
        mad.lo.u32 %r1, %r2, 10, %r1; mad.lo.u32 %r1, %r3, 100, %r1; mad.lo.u32 %r1, %r4, 1000, %r1;
        mad.lo.u32 %r1, %r5, 10000, %r1; mad.lo.u32 %r1, %r9, 100000, %r1; st.global.u32 [%d1], %r1; ret;
    """
    result = emulate(kernel(body, "a = u32[144]", block="(3, 2, 2)", grid="(2, 3, 2)"))
    want = [
        x + 10 * y + 100 * z + 1000 * cx + 10000 * cy + 100000 * cz
        for cz in range(2) for cy in range(3) for cx in range(2)
        for z in range(2) for y in range(2) for x in range(3)
    ]  # fmt: skip
    assert [int(v) for v in result.array("a")] == want


def test_narrow_parameters_are_extended_by_their_type() -> None:
    text = """// qdbg: launch k<<<1, 1>>>(a = u8[1], b = 200, c = -5, out = u32[3])
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 a, .param .u8 b, .param .s16 c, .param .u64 out) {
.reg .b16 %h<3>; .reg .b32 %r<4>; .reg .b64 %d<2>;
ld.param.u64 %d1, [out]; ld.param.u8 %h1, [b]; ld.param.s16 %h2, [c];
cvt.u32.u16 %r1, %h1; cvt.s32.s16 %r2, %h2; ld.param.s8 %r3, [b];
st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.u32 [%d1+8], %r3; ret; }
"""
    assert [int(v) for v in emulate(text).array("out")] == [200, M - 4, (200 - 256) & M]


def test_shared_memory_behind_a_barrier() -> None:
    before = ".shared .align 4 .b8 s[32];"
    body = """
        shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1; bar.sync 0;
        xor.b32 %r5, %r2, 28; add.u32 %r5, %r3, %r5; ld.shared.u32 %r1, [%r5];
    """
    assert per_thread(body, list(range(50, 58)), before=before) == list(range(57, 49, -1))


def test_arithmetic_on_what_all_lanes_share_is_done_once() -> None:
    """A loop over a parameter: its counter is uniform, its branch takes no bits, and the sum is right."""
    text = """// qdbg: launch k<<<1, 8>>>(out = u32[8], n = 5)
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %d<4>;
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, %tid.x;
$LOOP: mad.lo.u32 %r2, %r3, %r3, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra $LOOP;
add.u32 %r5, %r2, %r4; mul.wide.u32 %d2, %r4, 4; add.s64 %d2, %d1, %d2; st.global.u32 [%d2], %r5; ret; }
"""
    result = emulate(text)
    assert [int(v) for v in result.array("out")] == [sum(k * k for k in range(5)) + t for t in range(8)]
    assert not any(i.op is Op.CBR for i in result.program.code)
    assert len(result.tokens) <= 3 * 5 + 2 * 8 + 5


def test_high_halves_that_nobody_reads_cost_nothing() -> None:
    body = "cvt.u64.u32 %d4, %r1; shl.b64 %d4, %d4, 3; add.s64 %d4, %d4, -1; cvt.u32.u64 %r1, %d4;"
    assert per_thread(body, [1, 0x80000001]) == [7, 7]
    result = emulate(kernel(THREAD_ELEMENT + body + STORE, "a = u32[2]", block="2"))
    assert not any(i.op in (Op.ADDH, Op.MADH) for i in result.program.code)


def test_an_unsupported_instruction_traps_only_where_it_is_executed() -> None:
    body = "setp.gt.u32 %p1, %r1, {}; @%p1 sin.approx.f32 %f1, %f1;"
    assert per_thread(body.format(9), [5, 9]) == [5, 9]
    text = kernel(THREAD_ELEMENT + body.format(7) + STORE, "a = u32[5, 9]", block="2")
    result = emulate(text)
    assert result.trap == "<trap lane 1: unsupported>"
    (index,) = next(i.ptx for i in result.program.code if i.op is Op.TRAP)
    assert result.bound.kernel.body[index].opcode == "sin"


@pytest.mark.parametrize(("offset", "trap"), [(8, "lane 2: out of bounds"), (2, "lane 0: misaligned")])
def test_bad_addresses_trap(offset: int, trap: str) -> None:
    text = kernel(THREAD_ELEMENT + f"st.global.u32 [%d2+{offset}], %r0; ret;", "a = u32[4]", block="4")
    assert emulate(text).trap == f"<trap {trap}>"


def test_ptx_trap() -> None:
    text = kernel(
        THREAD_ELEMENT + "setp.eq.u32 %p1, %r1, 7; @%p1 trap;" + STORE, "a = u32[1, 7, 7]", block="3"
    )
    assert emulate(text).trap == "<trap lane 1: user>"


def test_a_barrier_that_a_lane_never_reaches_traps() -> None:
    """Lanes 0 and 1 wait at one barrier, the others at another: no thread exits, so neither completes."""
    body = """
        setp.lt.u32 %p1, %r1, 2; @%p1 bra $LOW;
        add.u32 %r1, %r1, 5; bar.sync 0; add.u32 %r1, %r1, 6; bra $END;
    $LOW: bar.sync 0; add.u32 %r1, %r1, 1; bar.sync 0;
    $END:
    """
    text = kernel(THREAD_ELEMENT + body + STORE, "a = u32[0, 1, 2, 3]", block="4")
    assert emulate(text).trap in ("<trap lane 0: barrier>", "<trap lane 2: barrier>")
    assert per_thread(body, [2, 3, 4]) == [13, 14, 15]
    assert per_thread(body, [0, 1, 0]) == [1, 2, 1]


def test_a_barrier_does_not_wait_for_threads_that_have_exited() -> None:
    body = "setp.gt.u32 %p1, %r1, 5; @%p1 ret; bar.sync 0; add.u32 %r1, %r1, 1;"
    assert per_thread(body, [9, 1, 7, 2]) == [9, 2, 7, 3]


def test_a_barrier_in_a_loop_whose_trip_count_only_looks_divergent() -> None:
    body = """
    $LOOP: bar.sync 0; add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $LOOP;
        add.u32 %r1, %r1, 3; bar.sync 0;
    """
    assert per_thread(body, [4, 4, 4]) == [3, 3, 3]
    text = kernel(THREAD_ELEMENT + body + STORE, "a = u32[4, 3, 4]", block="3")
    assert str(emulate(text).trap).endswith(": barrier>")


def test_dot_product_fits_the_token_budget() -> None:
    """Three elements and four threads, as `kernels/dot.cu` has it."""
    path = Path(__file__).parent.parent / "kernels/dot.cu"
    image = prepare(path, LaunchOptions(number=1)).image
    emulator = Emulator(image.config)
    newest = emulator.prefill(image.ids)
    while emulator.vocabulary.token(newest).kind is not Kind.END:
        newest = emulator.step()
    assert 32 in emulator.state().memory
    assert emulator.passes <= 60


def test_words_are_compared_as_bits() -> None:
    """min and max, signed and unsigned, over the corners of the range."""
    corners = [0, 1, 0x7FFFFFFF, 0x80000000, M]

    def signed(v: int) -> int:
        return v - (1 << 32) if v >> 31 else v

    for other in corners:
        assert per_thread(f"min.s32 %r1, %r1, {other};", corners) == [
            min(v, other, key=signed) for v in corners
        ]
        assert per_thread(f"max.u32 %r1, {other}, %r1;", corners) == [max(v, other) for v in corners]
        assert per_thread(f"abs.s32 %r1, %r1; sub.s32 %r1, %r1, {other};", corners) == [
            (abs(signed(v)) - other) & M for v in corners
        ]
        for name, fn in (("lt", np.less), ("ge", np.greater_equal), ("ne", np.not_equal)):
            body = f"setp.{name}.s32 %p1, %r1, {other}; selp.u32 %r1, 7, 9, %p1;"
            assert per_thread(body, corners) == [7 if fn(signed(v), signed(other)) else 9 for v in corners]


#: Lanes 0 and 1 meet an instruction that the machine lacks on a way that leads to the barrier, or to the end.
TRAP_BEFORE_A_BARRIER = """
    setp.lt.u32 %p1, %r1, 2; @%p1 bra $AWAY;
$MEET: bar.sync 0; st.global.u32 [%d2], %r0; ret;
$AWAY: {trap} sin.approx.f32 %f1, %f1; {onwards}
"""


@pytest.mark.parametrize("onwards", ["bra $MEET;", "ret;"])
@pytest.mark.parametrize("trap", ["", "setp.eq.u32 %p2, %r1, 0; @%p2 bra $MEET;", "trap;"])
def test_no_lane_passes_a_barrier_in_front_of_a_trap(onwards: str, trap: str) -> None:
    """The trap comes first, so nothing is stored."""
    body = TRAP_BEFORE_A_BARRIER.format(onwards=onwards, trap=trap)
    result = emulate(kernel(THREAD_ELEMENT + body, "a = u32[5, 1, 7, 8]", block="4"))
    reason = "user" if trap == "trap;" else "unsupported"
    assert result.trap == f"<trap lane 1: {reason}>"
    assert result.array("a").tolist() == [5, 1, 7, 8]

"""Loads and stores of every width, and the parameter space, in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowered import Result, emulate
from ptx_runner import kernel

from qdbg.compiler.machine.config import LINE
from qdbg.compiler.machine.isa import Op

RANDOM = np.random.default_rng(5)
BYTES = RANDOM.integers(0, 256, 64, dtype=np.uint8)
REGISTER = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}


def array(values: np.ndarray) -> str:
    return f"u8[{', '.join(str(int(v)) for v in values)}]"


def run(body: str, arguments: str, **more: Any) -> Result:
    result = emulate(kernel(body, arguments, **more))
    assert result.trap is None
    return result


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", "us")
def test_loads_extend_as_their_type_says(kind: str, bits: int) -> None:
    """Each thread loads an element of its own, into the narrowest register and a 64-bit one."""
    size, count = bits // 8, 64 // (bits // 8)
    body = f"""
        mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, {size}; mul.wide.u32 %d4, %r0, 16;
        ld.param.u64 %d1, [a]; add.s64 %d2, %d1, %d3; ld.param.u64 %d5, [out]; add.s64 %d5, %d5, %d4;
        ld.global.{kind}{bits} %d6, [%d2]; st.global.u64 [%d5], %d6;
        ld.global.{kind}{bits} {REGISTER[bits]}7, [%d2]; cvt.{kind}64.{kind}{bits} %d7, {REGISTER[bits]}7;
        st.global.u64 [%d5+8], %d7; ret;
    """
    result = run(body, f"a = {array(BYTES)}; out = u64[{2 * count}]", block=str(count))
    values = BYTES.view(f"<{'i' if kind == 's' else 'u'}{size}").astype(np.int64).view(np.uint64)
    np.testing.assert_array_equal(result.array("out").reshape(count, 2), np.stack([values, values], axis=1))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_stores_keep_their_neighbours(bits: int) -> None:
    """Every second element is stored, by lanes that share words."""
    size, count = bits // 8, 64 // (bits // 8)
    body = f"""
        mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, {2 * size}; mul.wide.u32 %d4, %r0, 8;
        ld.param.u64 %d1, [a]; add.s64 %d2, %d1, %d3;
        ld.param.u64 %d5, [b]; add.s64 %d5, %d5, %d4; ld.global.u64 %d6, [%d5];
        cvt.u16.u64 %h6, %d6; cvt.u32.u64 %r6, %d6; st.global.b{bits} [%d2], {REGISTER[bits]}6; ret;
    """
    values = RANDOM.integers(0, 1 << 63, count // 2, dtype=np.uint64)
    listed = ", ".join(str(int(v)) for v in values)
    result = run(body, f"a = {array(BYTES)}; b = u64[{listed}]", block=str(count // 2))
    want = BYTES.copy().view(f"<u{size}")
    want[::2] = values.astype(want.dtype)
    np.testing.assert_array_equal(result.array("a"), want.view(np.uint8))


VECTORS = [(2, 8), (4, 8), (2, 16), (4, 16), (2, 32), (4, 32), (2, 64)]


@pytest.mark.parametrize(("count", "bits"), VECTORS)
def test_vectors(count: int, bits: int) -> None:
    """A vector is loaded and stored again back to front."""
    size = count * bits // 8
    threads = 64 // size
    names = [f"{REGISTER[bits]}{n + 5}" for n in range(count)]
    body = f"""
        mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, {size}; ld.param.u64 %d1, [a]; add.s64 %d1, %d1, %d3;
        ld.param.u64 %d2, [out]; add.s64 %d2, %d2, %d3;
        ld.global.v{count}.u{bits} {{{", ".join(names)}}}, [%d1];
        st.global.v{count}.b{bits} [%d2], {{{", ".join(names[::-1])}}}; ret;
    """
    result = run(body, f"a = {array(BYTES)}; out = u8[64]", block=str(threads))
    want = BYTES.view(f"<u{bits // 8}").reshape(threads, count)[:, ::-1]
    np.testing.assert_array_equal(result.array("out").view(want.dtype).reshape(want.shape), want)


@pytest.mark.parametrize(("count", "bits"), [(1, 16), (1, 64), *VECTORS])
@pytest.mark.parametrize("what", ["ld", "st"])
def test_an_access_is_aligned_as_a_whole(what: str, count: int, bits: int) -> None:
    size = count * bits // 8
    names = ", ".join(f"{REGISTER[bits]}{n + 5}" for n in range(count))
    vector = f".v{count}" if count > 1 else ""
    element = f"{{{names}}}" if count > 1 else names
    access = f"{what}.global{vector}.b{bits} "
    for offset, aligned in ((size, True), (size + size // 2, False)):
        operands = f"{element}, [%d1+{offset}]" if what == "ld" else f"[%d1+{offset}], {element}"
        text = kernel(f"ld.param.u64 %d1, [a]; {access} {operands}; ret;", f"a = {array(BYTES)}", block="2")
        assert emulate(text).trap == (None if aligned else "<trap lane 0: misaligned>")


def test_a_load_may_overwrite_its_own_address() -> None:
    body = """
        ld.param.u64 %d1, [a]; mov.b64 %d2, %d1; ld.global.u64 %d1, [%d1]; ld.param.u64 %d3, [out];
        st.global.u64 [%d3], %d1; ld.global.v2.u64 {%d4, %d2}, [%d2]; st.global.v2.u64 [%d3], {%d2, %d4}; ret;
    """
    result = run(body, f"a = {array(BYTES[:16])}; out = u64[2]")
    np.testing.assert_array_equal(result.array("out"), BYTES[:16].view(np.uint64)[::-1])


def test_shared_accesses_stay_within_the_block() -> None:
    """An offset that reaches an array in front of shared memory traps only where it is named .shared."""
    before = ".shared .align 8 .b8 s[16];"
    body = """
        mov.u32 %r1, s; st.shared.u8 [%r1+3], 200; st.shared.u16 [%r1+8], -2; ld.shared.u64 %d3, [%r1];
        ld.shared.s16 %r2, [s+8]; ld.param.u64 %d1, [a]; st.global.u64 [%d1], %d3; st.global.u32 [%d1+8], %r2;
    """
    result = run(body + "ret;", "a = u32[4]", before=before)
    assert result.array("a").tolist() == [200 << 24, 0, 0xFFFFFFFE, 0]
    text = kernel(body + "ld.shared.u32 %r3, [%r1+-16]; ret;", "a = u32[4]", before=before)
    assert emulate(text).trap == "<trap lane 0: out of bounds>"


def test_parameters_of_every_width_and_offset() -> None:
    text = """// qdbg: launch k<<<1, 1>>>(out = u64[8], a=-3, b=40000, c=0x123456789abcdef0, d=-70000, e=250)
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out, .param .s8 a, .param .u16 b, .param .u64 c, .param .s32 d, .param .u8 e) {
.reg .b16 %h<3>; .reg .b32 %r<4>; .reg .b64 %d<12>;
ld.param.u64 %d1, [out]; ld.param.s8 %d2, [a]; ld.param.u16 %d3, [b]; ld.param.u64 %d4, [c];
ld.param.s32 %d5, [d]; ld.param.u8 %h1, [e]; cvt.u64.u8 %d6, %h1; ld.param.u32 %d7, [c+4];
ld.param.v2.u16 {%r1, %r2}, [c+2]; mov.b64 %d8, {%r1, %r2}; ld.param.u8 %d9, [c+5];
st.global.v2.u64 [%d1], {%d2, %d3}; st.global.v2.u64 [%d1+16], {%d4, %d5};
st.global.v2.u64 [%d1+32], {%d6, %d7}; st.global.v2.u64 [%d1+48], {%d8, %d9}; ret; }
"""
    c = 0x123456789ABCDEF0
    want = [-3, 40000, c, -70000, 250, c >> 32, (c >> 16 & 0xFFFF) | (c >> 32 & 0xFFFF) << 32, c >> 40 & 255]
    assert [int(v) for v in emulate(text).array("out")] == [v & (1 << 64) - 1 for v in want]


def test_a_hold_and_its_other_half_share_a_line() -> None:
    """Whatever comes before them: the pair never straddles the end of a line."""
    for before in range(LINE + 2):
        filler = "".join(f"st.global.u32 [%d1+{4 * n + 4}], {n};" for n in range(before))
        body = f"ld.param.u64 %d1, [a]; {filler} st.global.u8 [%d1+1], 77; st.global.u16 [%d1+2], 7; ret;"
        result = run(body, "a = u32[32]", block="2")
        assert int(result.array("a")[0]) == 7 << 16 | 77 << 8
        holds = [pc for pc, i in enumerate(result.program.code) if i.op is Op.HOLD]
        assert len(holds) == 2
        assert all(pc % LINE < LINE - 2 for pc in holds)


def test_a_guarded_store_of_a_byte() -> None:
    body = """
        mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; cvt.u64.u32 %d2, %r1;
        ld.param.u64 %d1, [a]; add.s64 %d1, %d1, %d2; @%p1 st.global.u8 [%d1], %r1; ret;
    """
    result = run(body, "a = u8[16]", block="16")
    assert result.array("a").tolist() == [n if n % 2 else 0 for n in range(16)]

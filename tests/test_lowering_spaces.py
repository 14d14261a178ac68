"""Shared, constant, local and parameter memory, and generic pointers into all of them, on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import emulate, same_as_interpreter
from ptx_runner import HEADER, REGISTERS, THREAD_ELEMENT, kernel

COUNT = 40
VALUES = np.arange(COUNT, dtype=np.int64) * 977 % 1013


def per_thread(body: str, before: str = "", shared: int = 0) -> np.ndarray:
    """What `body` leaves in %r1 of each of 40 threads, where it starts as an element of `VALUES`."""
    listed = ", ".join(map(str, VALUES))
    text = kernel(
        f"{THREAD_ELEMENT}{body} st.global.u32 [%d2], %r1; ret;",
        f"a = u32[{listed}]", block=str(COUNT), before=before, shared=shared,
    )  # fmt: skip
    result = same_as_interpreter(text)
    assert result.trap is None
    return result.array("a")


REVERSED = "sub.u32 %r3, 39, %r0; mad.lo.u32 %r4, %r0, 4, %r9; mad.lo.u32 %r5, %r3, 4, %r9;"


@pytest.mark.parametrize("dynamic", [False, True])
def test_shared_memory_by_32_bit_addresses(dynamic: bool) -> None:
    before = ".extern .shared .b8 s[];" if dynamic else f".shared .align 4 .b8 s[{4 * COUNT}];"
    body = f"mov.u32 %r9, s; {REVERSED} st.shared.u32 [%r4], %r1; bar.sync 0; ld.shared.u32 %r1, [%r5];"
    found = per_thread(body, before, 4 * COUNT if dynamic else 0)
    np.testing.assert_array_equal(found, VALUES[::-1])


def test_shared_memory_by_generic_addresses() -> None:
    body = """
        mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; mul.wide.u32 %d5, %r0, 4; sub.s64 %d6, 156, %d5;
        add.s64 %d5, %d4, %d5; add.s64 %d6, %d4, %d6; st.u32 [%d5], %r1; bar.sync 0; ld.u32 %r1, [%d6];
        isspacep.shared %p1, %d6; @!%p1 trap; isspacep.shared %p1, %d2; @%p1 trap;
        isspacep.global %p1, %d2; @!%p1 trap; cvta.to.shared.u64 %d6, %d6; ld.shared.u32 %r1, [%d6];
    """
    np.testing.assert_array_equal(per_thread(body, f".shared .b8 s[{4 * COUNT}];"), VALUES[::-1])


@pytest.mark.parametrize("address", ["-4", "160"])
def test_shared_accesses_stay_in_shared_memory(address: str) -> None:
    text = kernel(
        f"mov.u64 %d1, 0; ld.shared.u32 %r1, [%d1+{address}]; ld.param.u64 %d2, [a]; st.u32 [%d2], %r1;",
        "a = u32[1]", before=f".shared .b8 s[{4 * COUNT}];",
    )  # fmt: skip
    assert emulate(text).trap == "<trap lane 0: out of bounds>"


def test_constants_and_module_variables() -> None:
    before = """.const .align 4 .u32 c[3] = {5, 6, 7}; .global .align 8 .u64 g[2] = {c, 9};"""
    body = """
        rem.u32 %r3, %r0, 3; mul.wide.u32 %d3, %r3, 4; ld.global.u64 %d4, [g]; add.s64 %d4, %d4, %d3;
        ld.u32 %r4, [%d4]; mov.u64 %d5, c; add.s64 %d5, %d5, %d3; ld.const.u32 %r5, [%d5];
        ld.global.u32 %r6, [g+8]; mad.lo.u32 %r1, %r4, %r5, %r6;
    """
    want = [(5 + thread % 3) ** 2 + 9 for thread in range(COUNT)]
    np.testing.assert_array_equal(per_thread(body, before), want)


def test_local_memory_is_private() -> None:
    """Eight words a thread, written under rotated indices, read in order, through both kinds of address."""
    body = ".local .align 8 .b8 depot[32]; mov.u64 %d4, depot; cvta.local.u64 %d5, %d4;"
    for place in range(8):
        body += f"add.u32 %r3, %r0, {place}; and.b32 %r3, %r3, 7; mul.wide.u32 %d6, %r3, 4;"
        body += f"add.s64 %d7, %d4, %d6; mad.lo.u32 %r4, %r1, 8, {place}; st.local.u32 [%d7], %r4;"
    body += "mov.u32 %r5, 0;"
    for place in range(8):
        load = f"ld.u32 %r6, [%d5+{4 * place}]" if place % 2 else f"ld.local.u32 %r6, [depot+{4 * place}]"
        body += f"{load}; mad.lo.u32 %r5, %r5, 3, %r6;"
    body += "isspacep.local %p1, %d5; @!%p1 trap; cvta.to.local.u64 %d8, %d5; cvt.u32.u64 %r7, %d8;"
    want = []
    for thread, value in enumerate(VALUES):
        total = 0
        for place in range(8):
            total = total * 3 + (int(value) * 8 + (place - thread) % 8)
        want.append(total % (1 << 32))
    np.testing.assert_array_equal(per_thread(body + "add.u32 %r1, %r5, %r7;"), want)


def test_bytes_of_local_memory() -> None:
    body = """
        .local .align 4 .b8 depot[12]; and.b32 %r3, %r0, 7; cvt.u64.u32 %d4, %r3; mov.u64 %d5, depot;
        add.s64 %d5, %d5, %d4; st.local.u64 [depot], 0; st.local.u8 [%d5], %r1; ld.local.u64 %d6, [depot];
        shl.b32 %r3, %r3, 3; shr.u64 %d6, %d6, %r3; cvt.u32.u64 %r1, %d6;
    """
    np.testing.assert_array_equal(per_thread(body), VALUES & 0xFF)


def test_a_word_behind_local_memory_is_out_of_bounds() -> None:
    text = kernel(".local .b8 depot[20]; st.local.u32 [depot+20], 1; ret;", "a = u32[1]", block="2")
    assert emulate(text).trap == "<trap lane 0: out of bounds>"


def test_parameters_by_address() -> None:
    """Threads pick words of a parameter by an index of their own; the launch puts them into memory."""
    text = f"""
    // qdbg: launch k<<<1, 3>>>(a = 11, b = 22, out = u32[6], c = 33)
    {HEADER}.visible .entry k(.param .u32 a, .param .u32 b, .param .u64 out, .param .u32 c) {{ {REGISTERS}
        mov.u32 %r0, %tid.x; min.u32 %r1, %r0, 1; shr.u32 %r2, %r0, 1; mad.lo.u32 %r3, %r2, 12, 0;
        mad.lo.u32 %r3, %r1, 4, %r3; cvt.u64.u32 %d1, %r3; mov.u64 %d2, a; add.s64 %d2, %d2, %d1;
        ld.param.u32 %r4, [%d2]; ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r0, 8; add.s64 %d3, %d3, %d4;
        cvta.param.u64 %d5, %d2; ld.u32 %r5, [%d5]; add.u32 %r5, %r5, 1;
        isspacep.param %p1, %d5; @!%p1 trap; isspacep.local %p1, %d5; @%p1 trap;
        st.global.v2.u32 [%d3], {{%r4, %r5}}; ret;
    }}"""
    result = same_as_interpreter(text)
    assert result.trap is None
    assert result.array("out").tolist() == [11, 12, 22, 23, 33, 34]

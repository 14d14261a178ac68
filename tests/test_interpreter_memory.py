"""Loads, stores, moves and addresses in every state space."""

from __future__ import annotations

import pytest
from ptx_runner import run

OUT = "ld.param.u64 %d9, [out];"


@pytest.mark.parametrize(
    ("load", "register", "expected"),
    [
        ("ld.global.u8", "%r1", 0x000000FE),
        ("ld.global.s8", "%r1", 0xFFFFFFFE),
        ("ld.global.b8", "%r1", 0x000000FE),
        ("ld.global.u16", "%r1", 0x000080FE),
        ("ld.global.s16", "%r1", 0xFFFF80FE),
        ("ld.global.b32", "%r1", 0x8281_80FE),
        ("ld.global.s8", "%d1", 0xFFFFFFFF_FFFFFFFE),
        ("ld.global.u16", "%d1", 0x80FE),
        ("ld.global.s32", "%d1", 0xFFFFFFFF_828180FE),
        ("ld.global.u32", "%d1", 0x828180FE),
        ("ld.global.u64", "%d1", 0x8685_8483_8281_80FE),
        ("ld.global.nc.u32", "%r1", 0x828180FE),
        ("ld.volatile.global.u32", "%r1", 0x828180FE),
        ("ld.relaxed.gpu.global.u32", "%r1", 0x828180FE),
        ("ld.u32", "%r1", 0x828180FE),
    ],
)
def test_loads_extend_by_type_to_the_register(load: str, register: str, expected: int) -> None:
    bits = 64 if register.startswith("%d") else 32
    body = f"{OUT} ld.param.u64 %d8, [a]; {load} {register}, [%d8]; st.global.u{bits} [%d9], {register}; ret;"
    content = "bytes[0xfe, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86]"
    assert run(body, f"a = {content}; out = u{bits}[1]").array("out").tolist() == [expected]


def test_stores_keep_the_low_bytes() -> None:
    body = f"""{OUT} mov.u32 %r1, 0x12345678; st.global.u8 [%d9+1], %r1; st.global.u16 [%d9+2], %r1;
        mov.b64 %d1, 0x1122334455667788; st.global.u32 [%d9+4], %d1; ret;"""
    assert run(body, "out = bytes[8]").array("out").tolist() == [0, 0x78, 0x78, 0x56, 0x88, 0x77, 0x66, 0x55]


def test_vectors_start_at_the_lowest_address() -> None:
    body = f"""{OUT} ld.param.u64 %d8, [a]; ld.global.v4.u32 {{%r1, %r2, _, %r4}}, [%d8];
        st.global.v2.u32 [%d9], {{%r4, %r1}}; ld.global.v2.u16 {{%h1, %h2}}, [%d8+8]; cvt.u32.u16 %r5, %h2;
        st.global.u32 [%d9+8], %r5; ret;"""
    machine = run(body, "a = u32[1, 2, 0x70003, 4]; out = u32[4]")
    assert machine.array("out").tolist() == [4, 1, 7, 0]


def test_mov_packs_and_unpacks_low_element_first() -> None:
    body = f"""{OUT} mov.b64 %d1, {{0x11111111, 0x22222222}}; st.global.u64 [%d9], %d1;
        mov.b64 {{%r1, %r2}}, %d1; st.global.u32 [%d9+8], %r2; mov.b32 {{%h1, %h2}}, 0xAAAABBBB;
        mov.b32 %r3, {{%h2, %h1}}; st.global.u32 [%d9+12], %r3; ret;"""
    expected = [0x11111111, 0x22222222, 0x22222222, 0xBBBBAAAA]
    assert run(body, "out = u32[4]").array("out").tolist() == expected


def test_local_memory_belongs_to_a_thread() -> None:
    body = f"""{OUT} .local .align 8 .b8 own[16]; mov.u32 %r0, %tid.x; mov.u64 %d1, own;
        cvta.local.u64 %d2, %d1;
        st.u32 [%d2+4], %r0; cvta.to.local.u64 %d3, %d2; ld.local.u32 %r1, [%d3+4]; ld.local.u32 %r2, [own];
        add.u32 %r1, %r1, %r2; mul.wide.u32 %d4, %r0, 4; add.s64 %d4, %d4, %d9; st.global.u32 [%d4], %r1;
        ret;"""
    assert run(body, "out = u32[40]", block="40").array("out").tolist() == list(range(40))


def test_generic_addresses_reach_shared_memory() -> None:
    body = f"""{OUT} .shared .align 8 .b8 first[8]; .shared .align 8 .b8 tile[8];
        mov.u64 %d1, tile; cvta.shared.u64 %d2, %d1; st.u32 [%d2+4], 42; ld.shared.u32 %r1, [tile+4];
        st.global.u32 [%d9], %r1; cvta.to.shared.u64 %d3, %d2; st.global.u64 [%d9+8], %d3;
        cvta.to.global.u64 %d4, %d9; sub.s64 %d4, %d4, %d9; st.global.u32 [%d9+4], %d4; ret;"""
    assert run(body, "out = u32[4]").array("out").tolist() == [42, 0, 8, 0]


def test_parameters_are_addressable() -> None:
    body = f"""{OUT} mov.b64 %d1, n; ld.param.u64 %d2, [%d1]; st.global.u64 [%d9], %d2;
        cvta.param.u64 %d3, %d1;
        ld.u64 %d4, [%d3]; st.global.u64 [%d9+8], %d4; ret;"""
    assert run(body, "out = u64[2]; n = 99").array("out").tolist() == [99, 99]


def test_address_arithmetic_of_32_bit_registers_wraps() -> None:
    body = f"""{OUT} .shared .align 4 .b8 tile[8]; mov.u32 %r1, 0xfffffffc; st.shared.u32 [%r1+8], 6;
        ld.shared.u32 %r2, [tile+4]; st.global.u32 [%d9], %r2; ret;"""
    assert run(body, "out = u32[1]").array("out").tolist() == [6]


def test_colliding_stores_leave_the_highest_lane() -> None:
    body = f"{OUT} mov.u32 %r0, %tid.x; st.global.u32 [%d9], %r0; ret;"
    assert run(body, "out = u32[1]", block="32").array("out").tolist() == [31]


def test_moves_keep_nan_payloads() -> None:
    body = f"""{OUT} mov.f32 %f1, 0fFFC12345; st.global.f32 [%d9], %f1; ld.global.f32 %f2, [%d9];
        setp.eq.u32 %p1, 1, 1; selp.f32 %f3, %f2, 0f00000000, %p1; st.global.f32 [%d9+4], %f3; ret;"""
    assert run(body, "out = u32[2]").array("out").tolist() == [0xFFC12345] * 2


def test_narrow_converted_values_live_extended_in_wider_registers() -> None:
    body = f"""{OUT} mov.u32 %r1, 0x1280; cvt.s8.s32 %r2, %r1; st.global.u32 [%d9], %r2; cvt.u8.u32 %r3, %r1;
        st.global.u32 [%d9+4], %r3; ret;"""
    assert run(body, "out = u32[2]").array("out").tolist() == [0xFFFFFF80, 0x80]

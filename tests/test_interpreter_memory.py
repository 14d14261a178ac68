"""Loads, stores, moves and addresses in every state space."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_runner import HEADER, REGISTERS, interpreter, run

from qdbg.runtime.interpreter import Fault, Unsupported
from qdbg.runtime.launch import LaunchError

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
def test_trap_40_loads_extend_by_type_to_the_register(load: str, register: str, expected: int) -> None:
    bits = 64 if register.startswith("%d") else 32
    body = f"{OUT} ld.param.u64 %d8, [a]; {load} {register}, [%d8]; st.global.u{bits} [%d9], {register}; ret;"
    content = "bytes[0xfe, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86]"
    assert run(body, f"a = {content}; out = u{bits}[1]").array("out").tolist() == [expected]


def test_trap_40_stores_keep_the_low_bytes() -> None:
    body = f"""{OUT} mov.u32 %r1, 0x12345678; st.global.u8 [%d9+1], %r1; st.global.u16 [%d9+2], %r1;
        mov.b64 %d1, 0x1122334455667788; st.global.u32 [%d9+4], %d1; ret;"""
    assert run(body, "out = bytes[8]").array("out").tolist() == [0, 0x78, 0x78, 0x56, 0x88, 0x77, 0x66, 0x55]


def test_trap_41_vectors_start_at_the_lowest_address() -> None:
    body = f"""{OUT} ld.param.u64 %d8, [a]; ld.global.v4.u32 {{%r1, %r2, _, %r4}}, [%d8];
        st.global.v2.u32 [%d9], {{%r4, %r1}}; ld.global.v2.u16 {{%h1, %h2}}, [%d8+8]; cvt.u32.u16 %r5, %h2;
        st.global.u32 [%d9+8], %r5; ret;"""
    machine = run(body, "a = u32[1, 2, 0x70003, 4]; out = u32[4]")
    assert machine.array("out").tolist() == [4, 1, 7, 0]


def test_trap_41_mov_packs_and_unpacks_low_element_first() -> None:
    body = f"""{OUT} mov.b64 %d1, {{0x11111111, 0x22222222}}; st.global.u64 [%d9], %d1;
        mov.b64 {{%r1, %r2}}, %d1; st.global.u32 [%d9+8], %r2; mov.b32 {{%h1, %h2}}, 0xAAAABBBB;
        mov.b32 %r3, {{%h2, %h1}}; st.global.u32 [%d9+12], %r3; ret;"""
    expected = [0x11111111, 0x22222222, 0x22222222, 0xBBBBAAAA]
    assert run(body, "out = u32[4]").array("out").tolist() == expected


def test_trap_44_local_memory_belongs_to_a_thread() -> None:
    body = f"""{OUT} .local .align 8 .b8 own[16]; mov.u32 %r0, %tid.x; mov.u64 %d1, own;
        cvta.local.u64 %d2, %d1;
        st.u32 [%d2+4], %r0; cvta.to.local.u64 %d3, %d2; ld.local.u32 %r1, [%d3+4]; ld.local.u32 %r2, [own];
        add.u32 %r1, %r1, %r2; mul.wide.u32 %d4, %r0, 4; add.s64 %d4, %d4, %d9; st.global.u32 [%d4], %r1;
        ret;"""
    assert run(body, "out = u32[40]", block="40").array("out").tolist() == list(range(40))


def test_trap_43_generic_addresses_reach_shared_memory() -> None:
    body = f"""{OUT} .shared .align 8 .b8 first[8]; .shared .align 8 .b8 tile[8];
        mov.u64 %d1, tile; cvta.shared.u64 %d2, %d1; st.u32 [%d2+4], 42; ld.shared.u32 %r1, [tile+4];
        st.global.u32 [%d9], %r1; cvta.to.shared.u64 %d3, %d2; st.global.u64 [%d9+8], %d3;
        cvta.to.global.u64 %d4, %d9; sub.s64 %d4, %d4, %d9; st.global.u32 [%d9+4], %d4; ret;"""
    assert run(body, "out = u32[4]").array("out").tolist() == [42, 0, 8, 0]


def test_trap_42_parameters_are_addressable() -> None:
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


def test_trap_39_constants_have_the_type_of_the_instruction() -> None:
    """0f and 0d are bits; other floats are doubles, rounded to the type; minus gives integers their sign."""
    cases = [
        ("mov.f32 %f1, 0f3DCCCCCD;", 0x3DCCCCCD),
        ("mov.f32 %f1, -0f3DCCCCCD;", 0xBDCCCCCD),
        ("mov.f32 %f1, 0.1;", int(np.float32(0.1).view(np.uint32))),
        ("mov.f32 %f1, 16777217.0;", int(np.float32(16777216).view(np.uint32))),
        ("mov.f32 %f1, 1e300;", 0x7F800000),
        ("mov.f32 %f1, 0d3FB999999999999A;", int(np.float32(0.1).view(np.uint32))),
        ("mov.f32 %f1, 0f40000000; mul.rn.f32 %f1, %f1, -1.5;", int(np.float32(-3).view(np.uint32))),
    ]
    for text, expected in cases:
        body = f"{OUT} {text} st.global.f32 [%d9], %f1; ret;"
        assert run(body, "out = u32[1]").array("out").tolist() == [expected], text
    wide = [
        ("mov.f64 %g1, 0.1; mov.b64 %d1, %g1;", int(np.float64(0.1).view(np.uint64))),
        ("mov.f64 %g1, 0dC000000000000000; mov.b64 %d1, %g1;", 0xC000 << 48),
        ("mov.u64 %d1, 0xffffffffffffffff;", 2**64 - 1),
        ("mov.s64 %d1, -9223372036854775808;", 2**63),
        ("mov.u32 %r1, -1; cvt.u64.u32 %d1, %r1;", 2**32 - 1),
        ("mov.u64 %d1, 017;", 15),
        ("mov.u64 %d1, 0b101U;", 5),
        ("mov.u64 %d1, (1 << 4) + 0x10 * 2;", 48),
        ("add.s64 %d1, 0, ~0;", 2**64 - 1),
    ]
    for text, expected in wide:
        assert (
            run(f"{OUT} {text} st.global.u64 [%d9], %d1; ret;", "out = u64[1]").array("out")[0] == expected
        ), text


def test_trap_41_eight_elements_and_alignment_of_the_whole() -> None:
    body = f"""{OUT} ld.param.u64 %d8, [a]; ld.global.v8.b32 {{%r1, %r2, %r3, %r4, %r5, _, %r7, %r8}}, [%d8];
        st.global.v4.u16 [%d9], {{%h1, %h1, %h1, %h1}}; st.global.v2.u32 [%d9+8], {{%r8, %r3}}; ret;"""
    machine = run(body, "a = u32[8] = iota; out = u32[4]")
    assert machine.array("out").tolist() == [0, 0, 7, 2]
    with pytest.raises(Fault, match="not a multiple of the 16 bytes"):
        run(f"{OUT} ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d9+8]; ret;", "out = u32[8]")
    with pytest.raises(Unsupported, match="moves 64 bytes at once"):
        run(
            f"{OUT} ld.global.v8.b64 {{%d1, %d1, %d1, %d1, %d1, %d1, %d1, %d1}}, [%d9]; ret;", "out = u32[32]"
        )


def test_trap_41_128_bits_are_two_halves() -> None:
    body = f"""{OUT} .reg .b128 %q<3>; .local .align 16 .b128 own; ld.param.u64 %d8, [a];
        ld.global.b128 %q0, [%d8]; mov.b128 %q1, %q0; mov.b128 {{%d1, %d2}}, %q1; st.global.u64 [%d9], %d2;
        mov.b128 %q2, {{%d2, %d1}}; st.local.b128 [own], %q2; ld.local.v4.u32 {{%r1, %r2, %r3, %r4}}, [own];
        st.global.u32 [%d9+8], %r3; st.global.b128 [%d9+16], %q2; ret;"""
    machine = run(body, "a = u64[0x1111111122222222, 0x3333333344444444]; out = u64[4]")
    low, high = 0x1111111122222222, 0x3333333344444444
    assert machine.array("out").tolist() == [high, low & 0xFFFFFFFF, high, low]


def test_trap_43_spaces_of_generic_addresses() -> None:
    """isspacep of an address in each space, and back again by cvta.to."""
    text = f"""// qdbg: launch k<<<1, 1>>>(out = u32[7])
        {HEADER} .const .u32 fixed = 11; .global .u32 free = 22;
        .visible .entry k(.param .u64 out) {{ {REGISTERS} .shared .u32 tile; .local .u32 own; .reg .u64 %a<6>;
        ld.param.u64 %d9, [out]; mov.u64 %a0, fixed; cvta.const.u64 %a0, %a0; mov.u64 %a1, free;
        cvta.global.u64 %a1, %a1; mov.u64 %a2, tile; cvta.shared.u64 %a2, %a2; mov.u64 %a3, own;
        cvta.local.u64 %a3, %a3; mov.u64 %a4, out; cvta.param.u64 %a4, %a4;
        st.u32 [%a2], 33; st.u32 [%a3], 44;
        """
    for number in range(5):
        text += "mov.u32 %r2, 0;"
        for bit, space in enumerate(("const", "global", "shared", "local", "param")):
            text += (
                f"isspacep.{space} %p1, %a{number}; selp.u32 %r1, {1 << bit}, 0, %p1; or.b32 %r2, %r2, %r1;"
            )
        text += f"st.global.u32 [%d9+{4 * number}], %r2;\n"
    text += """cvta.to.shared.u64 %d1, %a2; ld.shared.u32 %r1, [%d1]; st.global.u32 [%d9+20], %r1;
        cvta.to.local.u64 %d1, %a3; ld.local.u32 %r1, [%d1]; st.global.u32 [%d9+24], %r1; ret; }"""
    machine = interpreter(text)
    machine.run()
    assert machine.array("out").tolist() == [1, 2, 4, 8, 16, 33, 44]


def test_trap_43_null_is_a_shared_offset_and_not_a_global_address() -> None:
    body = f"""{OUT} .shared .align 4 .u32 first; mov.u32 %r1, 0; st.shared.u32 [%r1], 6;
        ld.shared.u32 %r2, [first]; st.global.u32 [%d9], %r2; ret;"""
    assert run(body, "out = u32[1]").array("out").tolist() == [6]
    with pytest.raises(Fault, match="loads from global address 0x0"):
        run("mov.u64 %d1, 0; ld.u32 %r1, [%d1]; ret;", "out = u32[1]")


def test_trap_44_const_is_read_only_and_initialisers_may_hold_addresses() -> None:
    text = f"""// qdbg: launch k<<<1, 1>>>(out = u32[3])
        {HEADER} .const .align 4 .u32 values[2] = {{5, 6}};
        .global .align 8 .u64 chain[2] = {{values+4, chain}};
        .global .align 1 .b8
        bytes[8] = {{0xff(values), 0xff00(values), 0xff0000(values), 0xff000000(values)}};
        .visible .entry k(.param .u64 out) {{ {REGISTERS} ld.param.u64 %d9, [out];
        ld.global.u64 %d1, [chain+8]; ld.u64 %d2, [%d1]; ld.u32 %r1, [%d2]; st.global.u32 [%d9], %r1;
        ld.global.b8 %r2, [bytes]; ld.global.b8 %r3, [bytes+1]; shl.b32 %r3, %r3, 8; or.b32 %r2, %r2, %r3;
        cvt.u64.u32 %d3, %r2; ld.const.u32 %r4, [%d3]; st.global.u32 [%d9+4], %r4; STORE ret; }}"""
    machine = interpreter(text.replace("STORE", ""))
    machine.run()
    assert machine.array("out").tolist() == [6, 5, 0]
    with pytest.raises(Unsupported, match="read-only"):
        interpreter(text.replace("STORE", "st.const.u32 [values], 1;")).run()


def test_trap_44_shared_memory_belongs_to_a_block() -> None:
    """Each block counts its own threads in a cell that it clears first."""
    body = f"""{OUT} .shared .align 4 .u32 cell; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
        setp.ne.u32 %p1, %r0, 0; @!%p1 st.shared.u32 [cell], %r1; bar.sync 0; ld.shared.u32 %r2, [cell];
        mad.lo.u32 %r3, %r1, 40, %r0; mad.wide.u32 %d1, %r3, 4, %d9; st.global.u32 [%d1], %r2; ret;"""
    machine = run(body, "out = u32[120]", block="40", grid="3")
    assert machine.array("out").tolist() == [block for block in range(3) for _ in range(40)]


def test_trap_45_offsets_scopes_and_names() -> None:
    """Negative and hexadecimal offsets, names without %, `a<4>`, a name in a scope that hides another."""
    body = f"""{OUT} .reg .u32 a<4>; .reg .u32 value; mov.u32 value, 1; mov.u32 a0, 2; mov.u32 a3, 3;
        {{ .reg .u32 value; mov.u32 value, 50; add.u32 a0, a0, value; bra over;
        skipped: mov.u32 a0, 9; over: }}
        {{ bra over; mov.u32 a0, 8; over: add.u32 a3, a3, value; }}
        add.s64 %d8, %d9, 8; st.global.u32 [%d8+-8], a0; st.global.u32 [%d8-0x4], a3;
        st.global.u32 [%d8], value; ret;"""
    assert run(body, "out = u32[3]").array("out").tolist() == [52, 4, 1]


def test_trap_47_qualifiers_of_loads_and_stores() -> None:
    body = f"""{OUT} .shared .align 4 .u32 cell;
        st.volatile.shared.u32 [cell], 1; ld.acquire.cta.shared::cta.u32 %r1, [cell];
        st.release.gpu.global.u32 [%d9], %r1; st.relaxed.sys.global.u32 [%d9+4], %r1;
        st.weak.global.cg.u32 [%d9+8], 3;
        fence.acq_rel.gpu; fence.sc.sys; membar.cta; membar.gl; membar.sys; prefetch.global.L1 [%d9];
        prefetchu.L1 [%d9]; ld.global.ca.nc.L1::no_allocate.L2::128B.u32 %r2, [%d9+8];
        ld.global.L1::evict_last.u32 %r3, [%d9+4]; ldu.global.u32 %r4, [%d9]; add.u32 %r2, %r2, %r3;
        add.u32 %r2, %r2, %r4; st.wt.global.u32 [%d9+12], %r2; ret;"""
    assert run(body, "out = u32[4]").array("out").tolist() == [1, 1, 3, 5]


def test_trap_53_special_registers_of_a_partial_warp() -> None:
    """%tid.x read as .u16, %ntid and %laneid of thread 33 of 35, and WARP_SZ."""
    body = f"""{OUT} mov.u32 %r0, %tid.x; mov.u16 %h1, %tid.x; cvt.u32.u16 %r1, %h1; mov.u32 %r2, %ntid.x;
        mov.u32 %r3, %laneid; mad.lo.u32 %r4, %r1, 1000, %r2; mad.lo.u32 %r4, %r4, 1000, %r3;
        add.u32 %r4, %r4, WARP_SZ; mad.wide.u32 %d1, %r0, 4, %d9; st.global.u32 [%d1], %r4; ret;"""
    machine = run(body, "out = u32[35]", block="35")
    assert machine.array("out").tolist() == [t * 1_000_000 + 35_000 + t % 32 + 32 for t in range(35)]


def test_trap_53_thread_and_block_indices_in_three_dimensions() -> None:
    registers = ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%laneid", "%nctaid.y")
    body = f"""{OUT} mov.u32 %r0, %tid.z; mad.lo.u32 %r0, %r0, %ntid.y, %tid.y;
        mad.lo.u32 %r0, %r0, %ntid.x, %tid.x;
        mov.u32 %r1, %ctaid.z; mad.lo.u32 %r1, %r1, %nctaid.y, %ctaid.y;
        mad.lo.u32 %r1, %r1, %nctaid.x, %ctaid.x;
        mad.lo.u32 %r0, %r1, 60, %r0; mad.wide.u32 %d1, %r0, 32, %d9;"""
    for place, name in enumerate(registers):
        body += f"mov.u32 %r2, {name}; st.global.u32 [%d1+{4 * place}], %r2;"
    machine = run(body + "ret;", f"out = u32[{60 * 12 * 8}]", block="(5, 4, 3)", grid="(2, 3, 2)")
    found = machine.array("out").reshape(12, 60, 8).tolist()
    for block in range(12):
        for thread in range(60):
            index = (thread % 5, thread // 5 % 4, thread // 20, block % 2, block // 2 % 3, block // 6)
            assert found[block][thread] == [*index, thread % 32, 3]


def test_blocks_of_1024_threads() -> None:
    """Thread t adds what thread 1023 - t wrote before the barrier."""
    body = f"""{OUT} .shared .align 4 .b8 tile[4096]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile;
        shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0; bar.sync 0;
        sub.u32 %r4, 4092, %r2;
        add.u32 %r4, %r4, %r1; ld.shared.u32 %r5, [%r4]; mad.lo.u32 %r5, %r0, 1024, %r5;
        mad.wide.u32 %d1, %r0, 4, %d9; st.global.u32 [%d1], %r5; ret;"""
    machine = run(body, "out = u32[1024]", block="1024")
    assert machine.array("out").tolist() == [1024 * t + 1023 - t for t in range(1024)]


def test_integer_constants_are_cut_to_the_size_of_their_use() -> None:
    """PTX ISA 4.5.1: "converted to the appropriate size based on the data or instruction type at its use"."""
    body = f"""{OUT} mov.u32 %r1, 0x100000005; mov.u16 %h1, -65535; mul.wide.u16 %r2, %h1, 65539;
        setp.eq.u32 %p1, %r1, 0x700000005; selp.u32 %r3, 4294967303, 0, %p1;
        st.global.v2.u32 [%d9], {{%r1, %r2}}; st.global.u32 [%d9+8], %r3; st.global.u8 [%d9+12], 259; ret;"""
    assert run(body, "out = u32[4]").array("out").tolist() == [5, 3, 7, 3]


def test_what_initialisers_may_not_hold() -> None:
    text = f"""// qdbg: launch k<<<1, 1>>>(out = u32[1])
        {HEADER} .shared .u32 tile; .global .u64 pointer = tile;
        .visible .entry k(.param .u64 out) {{ {REGISTERS}
        ld.global.u64 %d1, [pointer]; ret; }}"""
    with pytest.raises(LaunchError, match="the initialiser of pointer takes the address of tile"):
        interpreter(text)


def test_variables_are_aligned_in_generic_addresses_too() -> None:
    text = f"""// qdbg: launch k<<<2, 2>>>(out = u32[3])
        {HEADER} .global .align 4 .b8 byte[4]; .global .align 256 .b8 table[4];
        .visible .entry k(.param .u64 out) {{ {REGISTERS} {OUT}
        .shared .align 4 .b8 cell[4]; .shared .align 128 .b8 tile[8]; .local .align 64 .b8 own[8];
        st.shared.u32 [cell], 7; mov.u64 %d1, tile; cvta.shared.u64 %d1, %d1; and.b64 %d1, %d1, 127;
        mov.u64 %d2, table; st.global.u32 [byte], 7; and.b64 %d2, %d2, 255;
        mov.u64 %d3, own; cvta.local.u64 %d3, %d3; and.b64 %d3, %d3, 63;
        cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
        red.global.or.b32 [%d9], %r1; red.global.or.b32 [%d9+4], %r2; red.global.or.b32 [%d9+8], %r3;
        ret; }}"""
    machine = interpreter(text)
    machine.run(1000)
    assert machine.array("out").tolist() == [0, 0, 0]

"""What needs no computing because of how large values can be."""

from __future__ import annotations

import pytest
from lowered import emulate
from ptx_runner import kernel

from qdbg.compiler.machine.isa import Op

HEAD = """
    mov.u32 %r0, %tid.x; cvt.u64.u32 %d3, %r0; ld.param.u64 %d1, [a]; add.s64 %d2, %d1, %d3;
    ld.param.u64 %d4, [out]; shl.b64 %d5, %d3, 3; add.s64 %d4, %d4, %d5; ld.global.{load} {register}1, [%d2];
"""
VALUES = [0, 1, 127, 128, 200, 255]


def compiled(load: str, body: str) -> tuple[list[int], set[Op]]:
    """What the body leaves in %d6 for each byte, and the operations of the program."""
    register = "%h" if load[1:] == "8" else "%r"
    text = kernel(
        HEAD.format(load=load, register=register) + body + "st.global.u64 [%d4], %d6; ret;",
        f"a = u8{VALUES}; out = u64[{len(VALUES)}]",
        block=str(len(VALUES)),
    )
    result = emulate(text)
    assert result.trap is None
    return [int(v) for v in result.array("out")], {i.op for i in result.program.code}


@pytest.mark.parametrize(
    ("load", "body", "expected", "absent"),
    [
        ("u8", "cvt.u32.u16 %r1, %h1; cvt.u64.u32 %d6, %r1;", lambda v: v, {Op.AND, Op.SHRS}),
        ("s8", "cvt.s32.s16 %r1, %h1; cvt.u64.u32 %d6, %r1;", None, {Op.SX8, Op.SX16}),
        ("u8", "cvt.s64.s16 %d6, %h1; shr.s64 %d6, %d6, 1;", lambda v: v >> 1, {Op.SHRS}),
        ("u8", "cvt.u32.u16 %r1, %h1; mul.wide.u32 %d6, %r1, %r1;", lambda v: v * v, {Op.MADH}),
        ("u8", "cvt.u64.u16 %d6, %h1; add.u64 %d6, %d6, 70000;", lambda v: v + 70000, {Op.ADDH}),
        ("u8", "cvt.s32.s16 %r1, %h1; div.s32 %r1, %r1, 10; cvt.u64.u32 %d6, %r1;", lambda v: v // 10,
         {Op.SHRS}),
        ("u8", "cvt.u32.u16 %r1, %h1; setp.lt.s32 %p1, %r1, 0; selp.u64 %d6, 1, 2, %p1;", lambda v: 2,
         {Op.SET}),
    ],
)  # fmt: skip
def test_small_values(load: str, body: str, expected, absent: set[Op]) -> None:  # type: ignore[no-untyped-def]
    found, operations = compiled(load, body)
    signed = [(v ^ 128) - 128 & 0xFFFFFFFF for v in VALUES]
    assert found == ([expected(v) for v in VALUES] if expected else signed)
    assert not operations & absent


def test_a_bound_holds_around_a_loop() -> None:
    """The counter starts small and outgrows 16 bits, so its extension must stay."""
    body = """
        cvt.u32.u16 %r1, %h1; mov.u32 %r2, 0;
    $LOOP: mad.lo.u32 %r1, %r1, 3, 5; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 12; @%p1 bra $LOOP;
        and.b32 %r3, %r1, 65535; cvt.u64.u32 %d6, %r3;
    """
    found, _ = compiled("u8", body)

    def expected(v: int) -> int:
        for _ in range(12):
            v = v * 3 + 5
        return v & 0xFFFF

    assert found == [expected(v) for v in VALUES]
